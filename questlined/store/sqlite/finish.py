"""The end of an attempt: quest, attempt, dependents, events and outbox in one operation, under its fence."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from questlined.core.classes import CLASSES, OUTCOMES
from questlined.core.retry import Settlement, Standing, settle
from questlined.core.states import CLAIMABLE, FINAL
from questlined.core.verdicts import Verdict, judged
from questlined.store.effects import Effects
from questlined.store.protocol import Fence, Finish, Reclaim, Sealed
from questlined.store.rows import OldRecords, Quest
from questlined.store.sqlite import cascade, gates
from questlined.store.sqlite.leases import held
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, value

_sql = Family("leases")
_verdict = _sql.one("run_verdict_get", value)
_quest_settle = _sql.count("quest_settle")
_run_settle = _sql.count("run_settle")
_artifacts = _sql.count("artifacts_insert")
_records_forget = _sql.count("records_forget")
_expired = _sql.many("expired", Quest)
_held_by_daemons = _sql.many("held_by_daemons", Quest)
_event = Family("steering").count("event")
_outbox = Family("steering").count("outbox")

_EVENTS = {
    "succeed": "completed",
    "requeue": "retry_scheduled",
    "fail": "failed",
    "reject": "failed",
    "exhaust": "failed",
    "block": "blocked",
    "interrupt": "interrupted",
    "release": "released",
    "park": "parked",
    "cancel": "cancelled",
}


def _finish(db: sqlite3.Connection, request: Finish, effects: Effects) -> str:
    quest = held(db, request.fence)
    if request.path_missing:
        gates.set_path_missing(db, quest.project, True)
        effects.paths = True
    return _end(db, quest, request, effects)


def _end(db: sqlite3.Connection, quest: Quest, request: Finish, effects: Effects, event: str | None = None) -> str:
    """Settle a held quest. `event` replaces the journal's word for an interruption."""
    said = _verdict(db, quest=quest.id, attempt=quest.attempts)
    klass = "cancelled" if quest.cancel_requested_at is not None else request.klass
    verdict = judged(klass, Verdict.parse(said) if said else None)
    klass = verdict.klass
    standing = Standing(quest.attempts, quest.max_attempts, quest.refunds, quest.interruptions, quest.backoff_base_ms)
    after = settle(
        standing, klass, now=request.now, chance=request.chance, policy=request.policy, until=request.retry_at
    )
    if klass == "released" and request.retry_at is not None:
        after = _delayed(after, request.retry_at)
    _write(db, quest, request, klass, after, verdict)
    _journal(db, quest, request, klass, after, event)
    effects.changed[quest.id] = after.state
    opens = max(quest.scheduled_at, after.retry_at or 0)
    if after.state in CLAIMABLE and opens > request.now:
        effects.until(opens)
    if after.state in request.notify:
        _outbox(db, quest=quest.id, attempt=quest.attempts, now=request.now, state=after.state)
    if after.state in ("failed", "cancelled"):
        cascade.fail(db, quest.id, after.state, request.now, request.notify, effects)
    if quest.own:
        gates.refresh(db, request.limits, quest.role, quest.project)
    effects.claimable.add(quest.project)
    return after.state


def _delayed(after: Settlement, retry_at: int) -> Settlement:
    return Settlement(after.event, after.state, after.max_attempts, after.refunds, after.interruptions, retry_at)


def _write(
    db: sqlite3.Connection, quest: Quest, request: Finish, klass: str, after: Settlement, verdict: Verdict
) -> None:
    cancelled = klass == "cancelled"
    error = request.error if klass != "ok" else None
    if klass != "ok" and verdict.reason:
        error = verdict.reason
    if cancelled:
        error = f"cancelled: {quest.reason}" if quest.reason else "cancelled"
    _quest_settle(
        db,
        quest=quest.id,
        owner=quest.owner_session,
        generation=quest.lease_gen,
        now=request.now,
        state=after.state,
        final=after.state in FINAL,
        max_attempts=after.max_attempts,
        refunds=after.refunds,
        interruptions=after.interruptions,
        retry_at=after.retry_at,
        failure_kind=after.failure_kind,
        result=verdict.result if verdict.result is not None else request.result,
        error=error,
        question=verdict.question or request.question,
        choices=verdict.choices or request.choices,
        reason=quest.reason if cancelled else verdict.reason or request.reason,
        **{"class": klass},
    )
    _run_settle(
        db,
        quest=quest.id,
        attempt=quest.attempts,
        now=request.now,
        outcome=OUTCOMES[CLASSES[klass].then],
        error=error,
        summary=verdict.summary or request.summary,
        commit_id=verdict.commit or request.commit_id,
        exit_code=request.exit_code,
        exit_signal=request.exit_signal,
        kill_reason=request.kill_reason,
        last_output_at=request.last_output_at,
        peak_memory_bytes=request.peak_memory_bytes,
        cpu_ms=request.cpu_ms,
        **{"class": klass},
    )
    if request.artifacts:
        _artifacts(
            db,
            quest=quest.id,
            attempt=quest.attempts,
            generation=quest.lease_gen,
            artifacts=json.dumps([(sealed.kind, sealed.path, sealed.bytes) for sealed in request.artifacts]),
            now=request.now,
        )


def _journal(
    db: sqlite3.Connection, quest: Quest, request: Finish, klass: str, after: Settlement, event: str | None
) -> None:
    data: dict[str, object] = {"attempt": quest.attempts, "leaseVersion": quest.lease_gen, "class": klass}
    if after.retry_at is not None:
        data["retryAt"] = after.retry_at
    if request.error and klass != "ok":
        data["error"] = request.error[:500]
    name = event if event and after.event == "interrupt" else _EVENTS[after.event]
    _event(db, quest=quest.id, event=name, now=request.now, data=json.dumps(data))


def _gone(quest: Quest, request: Reclaim, klass: str, error: str, sealed: tuple[Sealed, ...] = ()) -> Finish:
    fence = Fence(quest.id, quest.owner_session or "", quest.lease_gen)
    return Finish(
        fence,
        request.now,
        klass,
        request.chance,
        request.policy,
        request.limits,
        error=error,
        reason=error,
        artifacts=sealed,
        notify=request.notify,
    )


def _expire(db: sqlite3.Connection, request: Reclaim, effects: Effects) -> int:
    expired = _expired(db, now=request.now)
    klass = "failed" if request.fail else "lost"
    for quest in expired:
        finish = _gone(quest, request, klass, f"the lease of {quest.owner_session} ran out")
        _end(db, quest, finish, effects, event="lease_expired")
    return len(expired)


def _recover(
    db: sqlite3.Connection, both: tuple[Reclaim, Mapping[tuple[str, int], tuple[Sealed, ...]]], effects: Effects
) -> list[str]:
    request, sealed = both
    quests = [quest for quest in _held_by_daemons(db) if (quest.id, quest.attempts) in sealed]
    for quest in quests:
        files = sealed[quest.id, quest.attempts]
        finish = _gone(quest, request, "lost", "the daemon ended while this ran", files)
        _end(db, quest, finish, effects, event="recovered")
    return [quest.id for quest in quests]


FINISH = Operation("finish", _finish)


def _forget_records(db: sqlite3.Connection, records: Sequence[OldRecords], _effects: Effects) -> int:
    return _records_forget(db, records=json.dumps([(each.quest_id, each.attempt) for each in records]))


FORGET_RECORDS = Operation("forget_records", _forget_records)
EXPIRE = Operation("expire", _expire)
RECOVER = Operation("recover", _recover)
