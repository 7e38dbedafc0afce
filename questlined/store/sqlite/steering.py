"""What a person does to a quest: cancel, retry and block."""

from __future__ import annotations

import json
import sqlite3

from questlined.core import states
from questlined.core.verdicts import Verdict
from questlined.store.effects import Effects
from questlined.store.protocol import Block, Steer
from questlined.store.rows import Quest
from questlined.store.sqlite import cascade
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, columns
from questlined.wire.errors import DedupeConflict, NotFound, WrongState

_sql = Family("steering")
_quest = _sql.one("quest", Quest)
_cancel_waiting = _sql.count("cancel_waiting")
_cancel_running = _sql.count("cancel_running")
_retry = _sql.count("retry")
_block = _sql.count("block")
_verdict = Family("leases").count("run_verdict")
_dead_dependency = _sql.one("dead_dependency", columns)
_event = _sql.count("event")
_outbox = _sql.count("outbox")


def found(db: sqlite3.Connection, quest: str) -> Quest:
    """The quest. Raises NotFound."""
    row = _quest(db, quest=quest)
    if row is None:
        raise NotFound(f"there is no quest {quest}", hint="see qlctl list --all-projects", id=quest)
    return row


def _cancel(db: sqlite3.Connection, request: Steer, effects: Effects) -> str:
    quest = found(db, request.quest)
    if quest.state == "cancelled":
        return quest.id
    if not states.allowed(quest.state, "cancel"):
        raise WrongState(
            f"{quest.id} is {quest.state} already",
            hint="only a quest that is not over can be cancelled",
            id=quest.id,
            state=quest.state,
        )
    data = json.dumps({"reason": request.reason} if request.reason else {})
    if quest.state == "running":
        if _cancel_running(db, quest=quest.id, now=request.now, reason=request.reason):
            _event(db, quest=quest.id, event="cancel_requested", now=request.now, data=data)
        effects.stop.append(quest.id)
        return quest.id
    _cancel_waiting(db, quest=quest.id, now=request.now, reason=request.reason, error=quest.error)
    _event(db, quest=quest.id, event="cancelled", now=request.now, data=data)
    effects.changed[quest.id] = "cancelled"
    if "cancelled" in request.notify:
        _outbox(db, quest=quest.id, attempt=None, now=request.now, state="cancelled")
    cascade.fail(db, quest.id, "cancelled", request.now, request.notify, effects)
    return quest.id


def _retry_quest(db: sqlite3.Connection, request: Steer, effects: Effects) -> str:
    quest = found(db, request.quest)
    if not states.allowed(quest.state, "retry"):
        raise WrongState(
            f"{quest.id} is {quest.state}",
            id=quest.id,
            state=quest.state,
            hint=f"retry takes a quest that is {', '.join(states.sources('retry'))}",
        )
    dead = _dead_dependency(db, quest=quest.id)
    if dead is not None:
        raise WrongState(
            f"{quest.id} depends on {dead[0]}, which is {dead[1]}",
            id=quest.id,
            state=quest.state,
            hint=f"qlctl retry {dead[0]} brings both back",
        )
    try:
        _retry(db, quest=quest.id, now=request.now)
        cascade.revive(db, quest.id, request.now, effects)
    except sqlite3.IntegrityError as error:
        if "dedupe" not in str(error):
            raise
        raise DedupeConflict(
            f"another active quest has the dedupe key {quest.dedupe_key}", hint="cancel or finish that one first"
        ) from error
    _event(db, quest=quest.id, event="requeued", now=request.now, data="{}")
    effects.changed[quest.id] = "queued"
    effects.claimable.add(quest.project)
    if quest.scheduled_at > request.now:
        effects.until(quest.scheduled_at)
    return quest.id


def _block_quest(db: sqlite3.Connection, request: Block, effects: Effects) -> str:
    quest = found(db, request.quest)
    if quest.own and quest.cancel_requested_at is None:
        verdict = Verdict("blocked", reason=request.reason, question=request.question, choices=request.choices)
        _verdict(db, quest=quest.id, attempt=quest.attempts, verdict=verdict.dump())
        return quest.id
    if quest.state not in states.CLAIMABLE:
        raise _unblockable(quest)
    _block(
        db,
        quest=quest.id,
        now=request.now,
        reason=request.reason,
        question=request.question,
        choices=request.choices,
    )
    said = {"reason": request.reason, "question": request.question}
    data = json.dumps({name: text for name, text in said.items() if text})
    _event(db, quest=quest.id, event="blocked", now=request.now, data=data)
    effects.changed[quest.id] = "blocked"
    if "blocked" in request.notify:
        _outbox(db, quest=quest.id, attempt=None, now=request.now, state="blocked")
    return quest.id


def _unblockable(quest: Quest) -> WrongState:
    if quest.own:
        what, hint = "is being cancelled", "wait for its end: qlctl retry queues it again"
    elif quest.state == "running":
        what, hint = f"is held by {quest.owner_session}", "its holder can block it, or cancel it"
    elif quest.state == "blocked":  # what an agent asked there is not to be written over
        what, hint = "is blocked already", f"qlctl show {quest.id} tells why; qlctl retry {quest.id} queues it again"
    else:
        what, hint = f"is {quest.state} already", "only a quest that is not over can be blocked"
    return WrongState(f"{quest.id} {what}", hint=hint, id=quest.id, state=quest.state)


CANCEL = Operation("cancel", _cancel)
RETRY = Operation("retry", _retry_quest)
BLOCK = Operation("block", _block_quest)
