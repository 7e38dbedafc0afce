"""Adding quests: dependencies checked, rows complete, heads and counts kept, in one operation."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter

from questlined.core.quest import NewQuest
from questlined.store.effects import Effects
from questlined.store.protocol import Add
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, columns, value
from questlined.wire.errors import DependencyInvalid, LimitReached

_sql = Family("adds")
_project_ensure = _sql.count("project_ensure")
_lane_ensure = _sql.count("lane_ensure")
_bucket_find = _sql.one("bucket_find", value)
_bucket_make = _sql.one("bucket_make", value)
_bucket_offer = _sql.count("bucket_offer")
_waiting_total = _sql.one("waiting_total", value)
_dependency = _sql.one("dependency", columns)
_quest_insert = _sql.one("quest_insert", value)
_dependency_insert = _sql.count("dependency_insert")
_count_add = _sql.count("count_add")
_event = Family("steering").count("event")


class _Batch:
    """What one Add has looked up and must still write once for all of its quests."""

    def __init__(self, db: sqlite3.Connection, request: Add) -> None:
        self.db, self.request = db, request
        self.buckets: dict[tuple[str, str, bool], int] = {}
        self.known: dict[str, str] = {}  # dependency → state, for those seen
        self.heads: dict[int, tuple[int, int, int]] = {}  # bucket → best (-priority, created, row)
        self.states: Counter[str] = Counter()

    def bucket(self, quest: NewQuest) -> int:
        key = (quest.lane or "", quest.role, quest.external)
        if key not in self.buckets:
            if quest.lane:
                slots = self.request.lane_slots.get(quest.lane, 1)
                _lane_ensure(self.db, project=quest.project, lane=quest.lane, slots=slots)
            where = {"project": quest.project, "lane": key[0], "role": quest.role, "external": quest.external}
            found = _bucket_find(self.db, **where)
            made = found if found is not None else _bucket_make(self.db, **where)
            assert made is not None, "an INSERT with RETURNING gives its row"
            self.buckets[key] = made
        return self.buckets[key]

    def dependency_state(self, quest: NewQuest, dependency: str) -> str:
        if dependency not in self.known:
            found = _dependency(self.db, id=dependency)
            if found is None:
                raise DependencyInvalid(
                    f"dependsOn: there is no quest {dependency}", reason="not_found", hint="see qlctl list for the ids"
                )
            if found[0] != quest.project:
                raise DependencyInvalid(
                    f"dependsOn: {dependency} is of project {found[0]}",
                    reason="cross_project",
                    hint="a quest can only depend on quests of its own project",
                )
            self.known[dependency] = found[1]
        return self.known[dependency]

    def insert(self, quest: NewQuest) -> str:
        """Store one quest; its state."""
        states = {dependency: self.dependency_state(quest, dependency) for dependency in quest.depends_on}
        dead = next((dep for dep, state in states.items() if state in ("failed", "cancelled")), None)
        state = "queued" if dead is None else "failed"
        waiting = quest.scheduled_at > self.request.now
        unmet = sum(found != "done" for found in states.values())
        bucket = self.bucket(quest)
        row = _quest_insert(
            self.db,
            id=quest.id,
            project=quest.project,
            role=quest.role,
            name=quest.name,
            task=quest.task,
            context=quest.context,
            state=state,
            max_attempts=quest.max_attempts,
            backoff_base_ms=quest.backoff_base_ms,
            priority=quest.priority,
            scheduled_at=quest.scheduled_at,
            created_at=quest.created_at,
            finished_at=quest.created_at if dead else None,
            error=f"dependency {dead} {states[dead]}" if dead else None,
            failure_kind="dependency" if dead else None,
            failed_dependency_id=dead,
            lane=quest.lane,
            external=quest.external,
            unmet=unmet,
            waiting=waiting,
            bucket=bucket,
            submitter_uid=quest.submitter_uid,
            submitter_path=quest.submitter_path,
            parent_id=quest.parent_id,
            depth=quest.depth,
            timeout_ms=quest.timeout_ms,
        )
        for dependency in quest.depends_on:
            _dependency_insert(self.db, quest=quest.id, depends_on=dependency)
        self._journal(quest, dead, states)
        if state == "queued" and not unmet and not waiting:
            offer = (-quest.priority, quest.created_at, row or 0)
            self.heads[bucket] = min(offer, self.heads.get(bucket, offer))
        self.states[state] += 1
        self.known[quest.id] = state
        return state

    def _journal(self, quest: NewQuest, dead: str | None, states: dict[str, str]) -> None:
        data = json.dumps(
            {"role": quest.role, "name": quest.name, "priority": quest.priority, "dependsOn": quest.depends_on}
        )
        _event(self.db, quest=quest.id, event="enqueued", now=quest.created_at, data=data)
        if dead:
            data = json.dumps({"dependsOn": dead, "depState": states[dead]})
            _event(self.db, quest=quest.id, event="dependency_failed", now=quest.created_at, data=data)

    def close(self) -> None:
        """Write what is kept once for the batch."""
        for bucket, (priority, created, row) in self.heads.items():
            _bucket_offer(self.db, bucket=bucket, priority=-priority, created=created, row=row)
        for state, number in self.states.items():
            _count_add(self.db, project=self.request.project.key, state=state, quests=number)


def _add(db: sqlite3.Connection, request: Add, effects: Effects) -> list[str]:
    project = request.project
    if (_waiting_total(db) or 0) + len(request.quests) > request.max_waiting:
        raise LimitReached(
            f"{request.max_waiting} quests wait already",
            setting="bounds.max_waiting",
            retryAfterMs=60_000,
            hint="let the queue drain, cancel what is not needed, or raise bounds.max_waiting",
        )
    _project_ensure(db, key=project.key, name=project.name, path=project.path, now=request.now)
    batch = _Batch(db, request)
    for quest in request.quests:
        effects.changed[quest.id] = batch.insert(quest)
        if quest.scheduled_at > request.now:
            effects.until(quest.scheduled_at)
    batch.close()
    effects.claimable.add(project.key)
    return [quest.id for quest in request.quests]


ADD = Operation("add", _add)
