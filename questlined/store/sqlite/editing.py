"""Editing a quest that waits: its columns, its bucket and its time gate, in one operation."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from questlined.core import states
from questlined.core.quest import default_name
from questlined.store.effects import Effects
from questlined.store.protocol import Edit
from questlined.store.rows import Quest
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, value
from questlined.store.sqlite.steering import found
from questlined.wire.errors import WrongState

_update = Family("steering").count("edit")
_event = Family("steering").count("event")
_lane_ensure = Family("adds").count("lane_ensure")
_bucket_find = Family("adds").one("bucket_find", value)
_bucket_make = Family("adds").one("bucket_make", value)

# Column → its name on the wire, for the journal.
FIELDS = {
    "task": "task",
    "context": "context",
    "name": "name",
    "priority": "priority",
    "scheduled_at": "notBefore",
    "timeout_ms": "timeoutMs",
    "max_attempts": "maxAttempts",
    "lane": "lane",
}
_REMEDY = {
    "running": "qlctl cancel {} stops it; qlctl retry {} then queues it again",
    "done": "add another quest",
    "failed": "qlctl retry {} queues it again; pause its project first, so that it does not start before the edit",
    "cancelled": "qlctl retry {} queues it again; pause its project first, so that it does not start before the edit",
}


def _edit(db: sqlite3.Connection, request: Edit, effects: Effects) -> str:
    quest = found(db, request.quest)
    if quest.state not in states.EDITABLE:
        raise WrongState(
            f"{quest.id} is {quest.state} and cannot be edited",
            hint=_REMEDY[quest.state].replace("{}", quest.id),
            id=quest.id,
            state=quest.state,
        )
    edited = _edited(quest, request)
    request.check(edited)
    changed = [wire for column, wire in FIELDS.items() if getattr(edited, column) != getattr(quest, column)]
    if not changed:
        return quest.id
    opens = max(edited.scheduled_at, edited.retry_at or 0)
    _update(
        db,
        quest=quest.id,
        now=request.now,
        bucket=_bucket(db, edited, request.lane_slots),
        waiting=opens > request.now,
        **{column: getattr(edited, column) for column in FIELDS},
    )
    _event(db, quest=quest.id, event="edited", now=request.now, data=json.dumps({"fields": changed}))
    effects.changed[quest.id] = quest.state
    if quest.state in states.CLAIMABLE:
        effects.claimable.add(quest.project)
        if opens > request.now:
            effects.until(opens)
    return quest.id


def _edited(quest: Quest, request: Edit) -> Quest:
    """The quest as it will be. A name that was made of its task's first line goes with the task."""
    given: dict[str, Any] = {"task": request.task, "name": request.name, "priority": request.priority}
    if request.task is not None and request.name is None and quest.name == default_name(quest.task):
        given["name"] = default_name(request.task)
    given = {column: new for column, new in given.items() if new is not None}
    clearable = {"context": request.context, "lane": request.lane, "timeout_ms": request.timeout_ms}
    given |= {column: new or None for column, new in clearable.items() if new is not None}
    if request.not_before is not None:
        given["scheduled_at"] = request.not_before
    if request.max_attempts is not None:
        given["max_attempts"] = request.max_attempts + quest.refunds if request.max_attempts else 0
    return replace(quest, **given)


def _bucket(db: sqlite3.Connection, quest: Quest, slots: Mapping[str, int]) -> int:
    """Where the quest belongs, made if it is new."""
    if quest.lane:
        _lane_ensure(db, project=quest.project, lane=quest.lane, slots=slots.get(quest.lane, 1))
    where = {"project": quest.project, "lane": quest.lane or "", "role": quest.role, "external": quest.external}
    known = _bucket_find(db, **where)
    bucket = known if known is not None else _bucket_make(db, **where)
    assert isinstance(bucket, int), "an INSERT with RETURNING gives its row"
    return bucket


EDIT = Operation("edit", _edit)
