"""Recurrences in SQLite. What is due is decided and enqueued in one transaction of the one writer, so that however many
drivers fire a rule, each of its times becomes one quest at most; a unique index on (rule, time) holds the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from hashlib import blake2b

from questlined.core import calendar, cron
from questlined.core.ids import ENTROPY_BYTES, quest_id
from questlined.core.quest import NewQuest
from questlined.store.effects import Effects
from questlined.store.protocol import Add, ProjectRef
from questlined.store.recurrences import AddRecurrence, Fire, Fired, SteerRecurrence
from questlined.store.rows import DueRecurrence, Recurrence
from questlined.store.sqlite import adds
from questlined.store.sqlite.reader import Reader
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, columns, value
from questlined.store.sqlite.writer import Writer
from questlined.wire.errors import InvalidInput, LimitReached, NotFound

_sql = Family("recurrences")
_one = _sql.one("recurrence", Recurrence)
_named = _sql.many("recurrences_named", Recurrence)
_matching = _sql.many("recurrences_matching", value)
_page = _sql.many("recurrences_page", Recurrence)
_total = _sql.one("recurrences_total", value)
_enabled = _sql.many("recurrences_enabled", columns)
_due = _sql.many("recurrences_due", DueRecurrence)
_next = _sql.one("recurrences_next", value)
_ahead = _sql.many("recurrences_ahead", Recurrence)
_gates = _sql.one("recurrence_gates", columns)
_insert = _sql.count("recurrence_insert")
_switch = _sql.count("recurrence_switch")
_delete = _sql.count("recurrence_delete")
_advance = _sql.count("recurrence_advance")
_set_back = _sql.count("recurrence_rewind")
_occurrence = _sql.one("occurrence", value)
_project_ensure = Family("adds").count("project_ensure")
_project_event = Family("gates").count("project_event")


def _found(db: sqlite3.Connection, rule: str) -> Recurrence:
    row = _one(db, id=rule)
    if row is None:
        raise NotFound(f"there is no recurring quest {rule}", hint="see qlctl recurring list --all-projects", id=rule)
    return row


def _told(db: sqlite3.Connection, rule: Recurrence, event: str, now: int, **more: str) -> None:
    data = json.dumps({"id": rule.id, "name": rule.name} | more)
    _project_event(db, project=rule.project, event=event, now=now, data=data)


def _add(db: sqlite3.Connection, request: AddRecurrence, effects: Effects) -> str:
    rule, project = request.rule, request.project
    if _named(db, project=rule.project, name=rule.name):
        raise InvalidInput(
            f"name: the project has a recurring quest {rule.name} already",
            hint=f"choose another name, or remove that one: qlctl recurring remove {rule.name}",
            field="name",
        )
    if (_total(db) or 0) >= request.most:
        raise LimitReached(
            f"there are {request.most} recurring quests already",
            hint="remove some, or raise bounds.max_recurrences",
            setting="bounds.max_recurrences",
            retryAfterMs=60_000,
        )
    _project_ensure(db, key=project.key, name=project.name, path=project.path, now=rule.created_at)
    _insert(db, **asdict(rule))
    _told(db, rule, "recurring_created", rule.created_at, cron=rule.cron)
    effects.rules = True
    return rule.id


def _steer(db: sqlite3.Connection, request: tuple[SteerRecurrence, bool], effects: Effects) -> str:
    asked, enabled = request
    rule = _found(db, asked.id)
    if _switch(db, id=rule.id, enabled=int(enabled), now=asked.now):
        _told(db, rule, "recurring_resumed" if enabled else "recurring_paused", asked.now)
        effects.rules = True
    return rule.id


def _remove(db: sqlite3.Connection, request: SteerRecurrence, _effects: Effects) -> Recurrence:
    rule = _found(db, request.id)
    _delete(db, id=rule.id)
    _told(db, rule, "recurring_removed", request.now)
    return rule


def _held(db: sqlite3.Connection, rule: Recurrence) -> str | None:
    """Why nothing of the rule may be enqueued now."""
    project, archived, daemon = _gates(db, project=rule.project) or (None, 0, None)
    where = rule.project.removeprefix("name:")
    if not rule.enabled:
        return f"{rule.name} is paused"
    if archived:
        return f"project {where} is archived"
    if project is not None:
        return f"project {where} is paused" + (f": {project}" if project else "")
    if daemon is not None:
        return "the whole daemon is paused" + (f": {daemon}" if daemon else "")
    return None


def _fire(db: sqlite3.Connection, request: Fire, effects: Effects) -> Fired:
    rule, now = _found(db, request.id), request.now
    held = _held(db, rule)
    if held is not None or rule.next_run_at > now:
        return Fired(held=held)
    parsed, where = cron.parse(rule.cron), calendar.zone(rule.timezone)
    moments = calendar.due(parsed, where, rule.catch_up, rule.next_run_at, now)
    # A clock that was set back comes to a time again: what is there already stays the only one.
    fresh = [moment for moment in moments if _occurrence(db, id=rule.id, at=moment) is None]
    quests = tuple(_quest(rule, moment, request) for moment in fresh)
    if quests:
        # A name's project keeps the path it was registered with; a directory is its own.
        name = rule.project.removeprefix("name:") if rule.project.startswith("name:") else None
        project = ProjectRef(rule.project, name, None if name else rule.project)
        adds.add(db, Add(project, quests, now, request.max_waiting, request.lane_slots), effects)
    _advance(db, id=rule.id, next=calendar.upcoming(parsed, where, now), now=now, enqueued=bool(quests))
    return Fired(tuple(quest.id for quest in quests))


def _quest(rule: Recurrence, moment: int, request: Fire) -> NewQuest:
    """A time of the rule as a quest."""
    chance = blake2b(request.seed + str(moment).encode(), digest_size=ENTROPY_BYTES).digest()
    return NewQuest(
        id=quest_id(chance),
        project=rule.project,
        role=rule.role,
        name=rule.name,
        task=rule.task,
        context=rule.context,
        priority=rule.priority,
        max_attempts=rule.max_attempts,
        backoff_base_ms=rule.backoff_base_ms,
        scheduled_at=0,
        timeout_ms=rule.timeout_ms,
        lane=rule.lane,
        external=bool(rule.external),
        depends_on=(),
        created_at=request.now,
        submitter_uid=rule.submitter_uid,
        recurrence_id=rule.id,
        occurrence_at=moment,
    )


def _right(rule: Recurrence, now: int) -> int | None:
    """When a rule that sleeps past its next time should wake; None for all others."""
    try:
        moment = calendar.upcoming(cron.parse(rule.cron), calendar.zone(rule.timezone), now)
    except InvalidInput:
        return None  # another program's: health names it
    return moment if moment < rule.next_run_at else None


def _oversleeping(db: sqlite3.Connection, now: int, after: str) -> tuple[list[str], str | None]:
    """Those of a page of rules behind an id, and the last id of the page, None at the end."""
    page = _ahead(db, now=now, after=after)
    return [rule.id for rule in page if _right(rule, now) is not None], page[-1].id if page else None


def _rewind(db: sqlite3.Connection, request: tuple[int, Sequence[str]], effects: Effects) -> int:
    now, moved = request[0], 0
    for rule in filter(None, (_one(db, id=each) for each in request[1])):
        moment = _right(rule, now)
        if moment is not None:
            moved += _set_back(db, id=rule.id, next=moment, now=now)
    effects.rules = effects.rules or moved > 0
    return moved


ADD = Operation("add_recurrence", _add)
STEER = Operation("steer_recurrence", _steer)
REMOVE: Operation[SteerRecurrence, Recurrence] = Operation(
    "remove_recurrence", _remove, keep=asdict, again=lambda db, kept: Recurrence(**kept)
)
FIRE: Operation[Fire, Fired] = Operation(
    "fire",
    _fire,
    keep=lambda fired: [list(fired.quests), fired.held],
    again=lambda db, kept: Fired(tuple(kept[0]), kept[1]),
)
REWIND = Operation("rewind", _rewind)


class SqliteRecurrences:
    """The store's part of questlined.store.recurrences."""

    writer: Writer
    reader: Reader

    async def add_recurrence(self, request: AddRecurrence) -> str:
        return await self.writer.submit(ADD, request, token=request.token)

    async def switch_recurrence(self, request: SteerRecurrence, enabled: bool) -> str:
        return await self.writer.submit(STEER, (request, enabled), token=request.token)

    async def remove_recurrence(self, request: SteerRecurrence) -> Recurrence:
        return await self.writer.submit(REMOVE, request, token=request.token)

    async def fire(self, request: Fire) -> Fired:
        return await self.writer.submit(FIRE, request, token=request.token)

    async def rewind_recurrences(self, now: int) -> int:
        total, after = 0, ""
        while True:  # looked for in pages, so that others have their turn, and written only where there is something
            found, last = await self.reader.submit(partial(_oversleeping, now=now, after=after))
            if found:
                total += await self.writer.submit(REWIND, (now, found))
            if last is None:
                return total
            after = last

    async def recurrence(self, rule: str) -> Recurrence | None:
        return await self.reader.submit(lambda db: _one(db, id=rule))

    async def recurrences_named(self, project: str, name: str) -> list[Recurrence]:
        return await self.reader.submit(lambda db: _named(db, project=project, name=name))

    async def recurrences_matching(self, prefix: str) -> list[str]:
        return await self.reader.submit(lambda db: _matching(db, prefix=prefix, beyond=prefix + "\U0010ffff"))

    async def recurrences(self, project: str | None, cursor: str | None, limit: int) -> list[Recurrence]:
        return await self.reader.submit(lambda db: _page(db, project=project, cursor=cursor, limit=limit))

    async def enabled_recurrences(self) -> list[tuple[str, str, str, str]]:
        return await self.reader.submit(_enabled)

    async def due_recurrences(self, now: int, after: tuple[int, str]) -> list[DueRecurrence]:
        return await self.reader.submit(lambda db: _due(db, now=now, at=after[0], id=after[1]))

    async def next_occurrence(self, now: int) -> int | None:
        return await self.reader.submit(lambda db: _next(db, now=now))
