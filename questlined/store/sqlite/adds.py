"""Adding quests: dependencies checked, rows complete, heads and counts kept. Adds that follow one another in a
transaction are one piece of work: all are checked first, then all that is right is written, many rows a statement."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from questlined.core.quest import NewQuest
from questlined.store.effects import Effects
from questlined.store.protocol import Add
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, columns, value
from questlined.wire.errors import DependencyInvalid, LimitReached, QuestlineError

_sql = Family("adds")
_project_ensure = _sql.count("project_ensure")
_lane_ensure = _sql.count("lane_ensure")
_bucket_find = _sql.one("bucket_find", value)
_bucket_make = _sql.one("bucket_make", value)
_bucket_open = _sql.one("bucket_open", columns)
_bucket_head = _sql.count("bucket_head")
_waiting_total = _sql.one("waiting_total", value)
_dependency = _sql.one("dependency", columns)
_quests_insert = _sql.rows("quest_insert")
_dependencies_insert = _sql.rows("dependency_insert")
_events_insert = _sql.rows("event_insert")
_count_add = _sql.count("count_add")
_NONE: Mapping[str, str] = {}
PIECE = 512  # rows that are made before they are written, so that a large call needs little memory here


class _Checked(NamedTuple):
    """A quest that may be stored, and its dependencies' states."""

    quest: NewQuest
    request: Add
    dependencies: Mapping[str, str]

    @property
    def dead(self) -> str | None:
        """The dependency by which it fails at once."""
        return next((each for each, state in self.dependencies.items() if state in ("failed", "cancelled")), None)


class _Checks:
    """What must hold before anything is written. A request that fails leaves nothing here."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._waiting = _waiting_total(db) or 0
        self._known: dict[str, tuple[str, str]] = {}  # id → project and state, for those seen or about to be stored
        self.passed: list[_Checked] = []

    def check(self, request: Add) -> None:
        """Take all quests of a request, or none. Raises LimitReached, DependencyInvalid."""
        if self._waiting + len(request.quests) > request.max_waiting:
            raise LimitReached(
                f"{request.max_waiting} quests wait already",
                setting="bounds.max_waiting",
                retryAfterMs=60_000,
                hint="let the queue drain, cancel what is not needed, or raise bounds.max_waiting",
            )
        known, passed, waiting = dict[str, tuple[str, str]](), [], 0
        for quest in request.quests:
            states = _NONE
            if quest.depends_on:
                states = {each: self._state(quest.project, each, known) for each in quest.depends_on}
            checked = _Checked(quest, request, states)
            dead = bool(states) and checked.dead is not None
            known[quest.id] = quest.project, "failed" if dead else "queued"
            waiting += not dead
            passed.append(checked)
        self._known |= known
        self._waiting += waiting
        self.passed += passed

    def _state(self, project: str, dependency: str, known: Mapping[str, tuple[str, str]]) -> str:
        found = known.get(dependency) or self._known.get(dependency)
        if found is None and (found := _dependency(self._db, id=dependency)) is not None:
            self._known[dependency] = found
        if found is None:
            raise DependencyInvalid(
                f"dependsOn: there is no quest {dependency}", reason="not_found", hint="see qlctl list for the ids"
            )
        if found[0] != project:
            raise DependencyInvalid(
                f"dependsOn: {dependency} is of project {found[0]}",
                reason="cross_project",
                hint="a quest can only depend on quests of its own project",
            )
        return found[1]


class _Bucket:
    """A bucket that gets quests, and the best of those that may be claimed: (-priority, created_at, number)."""

    def __init__(self, number: int, head: tuple[int, int] | None) -> None:
        self.number, self._head = number, head
        self.best: tuple[int, int, int] | None = None

    def offer(self, quest: NewQuest, number: int) -> bool:
        """A new quest becomes the head where it comes before the present one. A tie keeps that: its row is lower."""
        offered = (-quest.priority, quest.created_at)
        first = self._head is None or offered < self._head
        if first:
            self._head, self.best = offered, (*offered, number)
        return first


class _Rows:
    """The rows of checked quests, in their order, and what is kept once for all of them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._taken = 0
        self._first: int | None = None  # the row before all of them
        self._quests: list[tuple[Any, ...]] = []
        self._dependencies: list[tuple[str, str]] = []
        self._events: list[tuple[str, str, int, str]] = []
        self._buckets: dict[tuple[str, str, str, bool], _Bucket] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, checked: _Checked, effects: Effects) -> None:
        """Make one quest's rows."""
        quest, request, states = checked
        dead = checked.dead if states else None
        state = "failed" if dead else "queued"
        waiting = quest.scheduled_at > request.now
        unmet = sum(found != "done" for found in states.values()) if states else 0
        bucket = self._bucket(quest, request)
        self._quests.append(_row(quest, state, (dead, states[dead]) if dead else None, unmet, waiting, bucket.number))
        if states:
            self._dependencies += [(quest.id, each) for each in quest.depends_on]
        self._journal(quest, dead, states)
        self._taken += 1
        if state == "queued" and not unmet and not waiting and bucket.offer(quest, self._taken):
            # Behind a head nothing becomes claimable: whoever could take that has been told of it, or of its gate.
            effects.claimable.add(quest.project)
        self._counts[quest.project, state] += 1
        effects.changed[quest.id] = state
        if waiting:
            effects.until(quest.scheduled_at)
        if len(self._quests) == PIECE:
            self._insert()

    def _bucket(self, quest: NewQuest, request: Add) -> _Bucket:
        key = (quest.project, quest.lane or "", quest.role, quest.external)
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = _found_bucket(self._db, quest, request)
        return found

    def _journal(self, quest: NewQuest, dead: str | None, states: Mapping[str, str]) -> None:
        data = {"role": quest.role, "name": quest.name, "priority": quest.priority, "dependsOn": quest.depends_on}
        if quest.recurrence_id is not None:
            data |= {"recurrenceId": quest.recurrence_id, "occurrenceAt": quest.occurrence_at}
        self._events.append((quest.id, "enqueued", quest.created_at, _json(data)))
        if dead:
            data = {"dependsOn": dead, "depState": states[dead]}
            self._events.append((quest.id, "dependency_failed", quest.created_at, _json(data)))

    def _insert(self) -> None:
        last = _quests_insert(self._db, self._quests)
        if self._first is None:  # in one transaction, rows are numbered one after another
            self._first = last - len(self._quests)
        _dependencies_insert(self._db, self._dependencies)
        _events_insert(self._db, self._events)
        self._quests, self._dependencies, self._events = [], [], []

    def write(self) -> None:
        """Insert what is left, and bring heads and counts up to date."""
        self._insert()
        for bucket in self._buckets.values():
            if bucket.best is not None:
                priority, created, number = bucket.best
                row = (self._first or 0) + number
                _bucket_head(self._db, bucket=bucket.number, priority=-priority, created=created, row=row)
        for (project, state), number in self._counts.items():
            _count_add(self._db, project=project, state=state, quests=number)


def _found_bucket(db: sqlite3.Connection, quest: NewQuest, request: Add) -> _Bucket:
    """The quest's bucket, made with its project and lane where they are new."""
    where = {"project": quest.project, "lane": quest.lane or "", "role": quest.role, "external": quest.external}
    found = _bucket_open(db, **where)
    if found is None:
        project = request.project
        _project_ensure(db, key=project.key, name=project.name, path=project.path, now=request.now)
        if quest.lane:
            slots = request.lane_slots.get(quest.lane, 1)
            _lane_ensure(db, project=quest.project, lane=quest.lane, slots=slots)
        if _bucket_find(db, **where) is None:
            _bucket_make(db, **where)
        found = _bucket_open(db, **where)
        assert found is not None, "it has just been made"
    number, empty, priority, created = found
    return _Bucket(number, None if empty else (-priority, created))


def _json(data: Mapping[str, object]) -> str:
    return msgspec.json.encode(data).decode()


def _row(
    quest: NewQuest, state: str, dead: tuple[str, str] | None, unmet: int, waiting: bool, bucket: int
) -> tuple[Any, ...]:
    """The values of `quest_insert`; `dead` is the dependency that fails it, and its state."""
    return (
        quest.id,
        quest.project,
        quest.role,
        quest.name,
        quest.task,
        quest.context,
        state,
        quest.max_attempts,
        quest.backoff_base_ms,
        quest.priority,
        quest.scheduled_at,
        quest.created_at,
        quest.created_at,  # updated_at
        quest.created_at if dead else None,
        f"dependency {dead[0]} {dead[1]}" if dead else None,
        "dependency" if dead else None,
        dead[0] if dead else None,
        quest.lane,
        int(quest.external),
        unmet,
        int(waiting),
        bucket,
        quest.submitter_uid,
        quest.submitter_path,
        quest.parent_id,
        quest.depth,
        quest.timeout_ms,
        quest.recurrence_id,
        quest.occurrence_at,
    )


def _add_all(db: sqlite3.Connection, requests: Sequence[Add], effects: Effects) -> list[list[str] | QuestlineError]:
    checks, answers = _Checks(db), list[list[str] | QuestlineError]()
    for request in requests:
        try:
            checks.check(request)
        except QuestlineError as error:
            answers.append(error)
        else:
            answers.append([quest.id for quest in request.quests])
    rows = _Rows(db)
    for checked in checks.passed:
        rows.take(checked, effects)
    rows.write()
    return answers


def add(db: sqlite3.Connection, request: Add, effects: Effects) -> list[str]:
    """One request, inside somebody's transaction. Raises LimitReached, DependencyInvalid."""
    (answer,) = _add_all(db, [request], effects)
    if isinstance(answer, QuestlineError):
        raise answer
    return answer


ADD = Operation("add", add, together=_add_all)
