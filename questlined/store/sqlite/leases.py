"""Leases: claim, start, heartbeat, verdict, and the shifting of clocks."""

from __future__ import annotations

import json
import sqlite3

from questlined.core import states
from questlined.core.gates import binding
from questlined.store.effects import EVERYWHERE, Effects
from questlined.store.protocol import Adopt, Claim, Claimed, ClaimNow, Extended, Fence, Started
from questlined.store.rows import Quest, Run
from questlined.store.sqlite import gates, reads
from questlined.store.sqlite.requests import Operation, forget
from questlined.store.sqlite.statements import Family, columns, value
from questlined.wire.errors import NotFound, StaleLease, WrongState

_sql = Family("leases")
_head_daemon = _sql.one("head_for_daemon", columns)
_head_outside = _sql.one("head_for_outside", columns)
_head_now = _sql.one("head_now", columns)
_place = _sql.one("place", columns)
_lane_slots = _sql.one("lane_slots", value)
_lane_taken = _sql.many("lane_taken", value)
_claim = _sql.one("claim", Quest)
_run_number = _sql.one("run_number", columns)
_run_insert = _sql.one("run_insert", Run)
_run_get = _sql.one("run_get", Run)
_held = _sql.one("held", Quest)
_extend = _sql.count("lease_extend")
_extend_own = _sql.count("extend_own")
_quest_started = _sql.one("quest_started", columns)
_run_started = _sql.count("run_started")
_quest_adopt = _sql.one("quest_adopt", Quest)
_run_adopt = _sql.one("run_adopt", Run)
_run_verdict = _sql.count("run_verdict")
_shift = _sql.count("shift_leases")
_shift_retries = _sql.count("shift_retries")
_promote = _sql.count("promote")
_event = Family("steering").count("event")
_quest = Family("steering").one("quest", Quest)
_project_path = Family("adds").one("project_path", value)

# Why a person's wish to run a quest is refused → what to do.
_UNCLAIMABLE = {
    "running": "qlctl follow {} shows what it does",
    "blocked": "it waits for a person: qlctl retry {} queues it again",
    "done": "add another quest to do it once more",
    "failed": "qlctl retry {} queues it again",
    "cancelled": "qlctl retry {} queues it again",
}
PROMOTED_AT_ONCE = 500  # the LIMIT of promote, so that no transaction grows with the queue


def held(db: sqlite3.Connection, fence: Fence) -> Quest:
    """The quest under this lease. Raises StaleLease."""
    quest = _held(db, quest=fence.quest, owner=fence.owner, generation=fence.generation)
    if quest is None:
        raise _stale(fence)
    return quest


def _stale(fence: Fence) -> StaleLease:
    return StaleLease(
        f"{fence.quest}: this attempt is over, or another claim holds the quest",
        hint="stop working on it; nothing was written",
        id=fence.quest,
        generation=fence.generation,
    )


def _claim_many(db: sqlite3.Connection, request: Claim, effects: Effects) -> list[Claimed]:
    promoted = _promote(db, now=request.now)
    if promoted:
        effects.claimable.add(EVERYWHERE)  # others may have waited for these
    if promoted == PROMOTED_AT_ONCE:
        return []  # more may be due, and a better one among them: the next turn takes them, before anything is claimed
    claimed: list[Claimed] = []
    while len(claimed) < request.most and (head := _head(db, request)) is not None:
        claimed.append(_take(db, request, *head))
    effects.changed.update((each.quest.id, "running") for each in claimed)
    effects.leases = bool(claimed) and not request.own
    return claimed


def _head(db: sqlite3.Connection, request: Claim) -> tuple[int, str, str] | None:
    """The row to claim next, with its project and lane ("" for none)."""
    if request.own:
        return _head_daemon(db)
    return _head_outside(db, project=request.project, lane=request.lane, role=request.role)


def _take(db: sqlite3.Connection, request: Claim, row: int, project: str, lane: str) -> Claimed:
    quest = _claim(
        db,
        row=row,
        owner=request.owner,
        own=int(request.own),
        now=request.now,
        lease_ms=request.lease_ms,
        lane_slot=_free_slot(db, project, lane) if lane else None,
    )
    assert quest is not None, "a bucket's head is claimable"
    numbered = _run_number(db, project=project)
    assert numbered is not None, "a quest's project exists"
    number, path = numbered
    run = _run_insert(
        db,
        quest=quest.id,
        attempt=quest.attempts,
        owner=request.owner,
        generation=quest.lease_gen,
        now=request.now,
        project=project,
        number=number,
        agent=request.agent,
    )
    data = {"attempt": quest.attempts, "leaseVersion": quest.lease_gen, "ownerSession": request.owner}
    _event(db, quest=quest.id, event="claimed", now=request.now, data=json.dumps(data))
    if request.own:
        gates.refresh(db, request.limits, quest.role, project)
    assert run is not None, "an INSERT with RETURNING gives its row"
    return Claimed(quest, run, path)


def _free_slot(db: sqlite3.Connection, project: str, lane: str) -> int:
    taken = set(_lane_taken(db, project=project, lane=lane))
    slots = _lane_slots(db, project=project, lane=lane) or 1
    return next(slot for slot in range(1, slots + 1) if slot not in taken)


def _claim_now(db: sqlite3.Connection, request: ClaimNow, effects: Effects) -> Claimed | None:
    if request.quest is None:
        _promote_due(db, request.now, effects)  # a better one may have come due this moment
        place = _head_now(db, project=request.project)
    else:
        _refuse_gated(db, request.quest, request.now)
        place = _place(db, quest=request.quest)
    if place is None:
        return None
    claim = Claim(request.owner, request.now, request.lease_ms, own=True, limits=request.limits)
    claimed = _take(db, claim, *place)
    effects.changed[claimed.quest.id] = "running"
    return claimed


def _refuse_gated(db: sqlite3.Connection, quest_id: str, now: int) -> None:
    """Raises where a quest may not run even though a person says so."""
    quest, situation = _quest(db, quest=quest_id), reads.situation(db, quest_id, now)
    if quest is None or situation is None:
        raise NotFound(f"there is no quest {quest_id}", hint="see qlctl list --all-projects", id=quest_id)
    if not states.allowed(quest.state, "claim"):
        raise WrongState(
            f"{quest_id} is {quest.state}{'' if quest.state == 'blocked' else ' already'}",
            hint=_UNCLAIMABLE[quest.state].format(quest_id),
            id=quest_id,
            state=quest.state,
        )
    closed = "; ".join(f"{gate.gate}: {gate.detail}" for gate in binding(situation))
    if closed:
        raise WrongState(
            f"{quest_id} cannot run now: {closed}",
            hint="only pause, concurrency and time gates are passed by; qlctl why shows all of them",
            id=quest_id,
            state=quest.state,
        )


def _claimed_again(db: sqlite3.Connection, kept: list[list[object]]) -> list[Claimed]:
    """The answer to a repeated claim: the same attempts, as they are now."""
    again = []
    for quest_id, attempt in kept:
        quest, run = _quest(db, quest=quest_id), _run_get(db, quest=quest_id, attempt=attempt)
        if quest is not None and run is not None:
            again.append(Claimed(quest, run, _project_path(db, key=quest.project), again=True))
    return again


def _started(db: sqlite3.Connection, request: Started, _effects: Effects) -> bool:
    fence, agent = request.fence, f"pid-{request.pid}"
    found = _quest_started(db, quest=fence.quest, owner=fence.owner, generation=fence.generation, agent=agent)
    if found is None:
        raise _stale(fence)
    attempt, cancel_requested_at = found
    _run_started(
        db,
        quest=fence.quest,
        attempt=attempt,
        pid=request.pid,
        pid_started=request.pid_started,
        boot_id=request.boot_id,
        cgroup=request.cgroup,
        unit=request.unit,
    )
    _event(db, quest=fence.quest, event="agent_started", now=request.now, data=json.dumps({"pid": request.pid}))
    return cancel_requested_at is not None


def _adopt(db: sqlite3.Connection, request: Adopt, effects: Effects) -> list[Claimed]:
    adopted = []
    for quest_id, attempt, generation in request.runs:
        quest = _quest_adopt(
            db,
            quest=quest_id,
            attempt=attempt,
            generation=generation,
            owner=request.owner,
            now=request.now,
            lease_ms=request.lease_ms,
        )
        run = _run_adopt(db, quest=quest_id, attempt=attempt, owner=request.owner) if quest else None
        if quest is not None and run is not None:
            data = json.dumps({"attempt": attempt, "leaseVersion": generation})
            _event(db, quest=quest_id, event="adopted", now=request.now, data=data)
            adopted.append(Claimed(quest, run, _project_path(db, key=quest.project)))
            effects.changed[quest_id] = quest.state
    return adopted


def _heartbeat(db: sqlite3.Connection, request: tuple[Fence, int, int], effects: Effects) -> Extended:
    fence, now, lease_ms = request
    quest = held(db, fence)
    _extend(db, quest=fence.quest, owner=fence.owner, generation=fence.generation, now=now, lease_ms=lease_ms)
    effects.leases = True
    return Extended(max(quest.lease_expires_at or 0, now + lease_ms), quest.cancel_requested_at is not None)


def _verdict(db: sqlite3.Connection, request: tuple[Fence, str], _effects: Effects) -> str:
    quest = held(db, request[0])
    _run_verdict(db, quest=quest.id, attempt=quest.attempts, verdict=request[1])
    return quest.id


def _own(db: sqlite3.Connection, request: tuple[str, int, int], _effects: Effects) -> int:
    owner, now, lease_ms = request
    return _extend_own(db, owner=owner, now=now, lease_ms=lease_ms)


def _shift_leases(db: sqlite3.Connection, request: tuple[int, tuple[int, int]], effects: Effects) -> None:
    delta, (since, until) = request
    _shift(db, delta=delta, since=since, until=until)
    effects.leases = True


def _shift_backoffs(db: sqlite3.Connection, request: tuple[int, tuple[int, int]], _effects: Effects) -> int:
    delta, (since, until) = request
    return _shift_retries(db, delta=delta, since=since, until=until)


def _promote_due(db: sqlite3.Connection, now: int, effects: Effects) -> int:
    promoted = _promote(db, now=now)
    if promoted:
        effects.claimable.add(EVERYWHERE)
    return promoted


CLAIM: Operation[Claim, list[Claimed]] = Operation(
    "claim",
    _claim_many,
    keep=lambda claimed: [[each.quest.id, each.run.attempt] for each in claimed],
    again=_claimed_again,
    empty=lambda claimed: not claimed,
)
CLAIM_NOW: Operation[ClaimNow, Claimed | None] = Operation(
    "claim",
    _claim_now,
    keep=lambda claimed: [[claimed.quest.id, claimed.run.attempt]] if claimed else [],
    again=lambda db, kept: next(iter(_claimed_again(db, kept)), None),
    empty=lambda claimed: claimed is None,
)
STARTED = Operation("started", _started)
ADOPT = Operation("adopt", _adopt)
HEARTBEAT = Operation("heartbeat", _heartbeat)
VERDICT = Operation("verdict", _verdict)
EXTEND_OWN = Operation("extend_own", _own)
SHIFT = Operation("shift_leases", _shift_leases)
SHIFT_RETRIES = Operation("shift_retries", _shift_backoffs)
PROMOTE = Operation("promote", _promote_due)
FORGET = Operation("forget_requests", forget)
