"""Leases for workers outside the daemon, and what an agent reports of its own attempt."""

from __future__ import annotations

import asyncio

from questlined.core.quest import check_integer, check_size, check_text, check_word
from questlined.core.verdicts import Verdict
from questlined.operations import find, views
from questlined.operations.context import Caller, Changing, Context, Reply
from questlined.operations.steering import QuestReply, blocked, checked_reason, reply
from questlined.operations.waiting import WAIT_MAX_MS
from questlined.store import rows
from questlined.store.protocol import Claim as StoreClaim
from questlined.store.protocol import Claimed, Fence, Finish
from questlined.wire.errors import InvalidInput, NothingToClaim, StaleLease, WrongState

LEASE_MIN_MS, LEASE_MAX_MS = 1000, 31 * 24 * 3600 * 1000


class Claim(Changing, frozen=True, kw_only=True):
    """Parameters of Claim."""

    project: str | None = None
    directory: str | None = None
    lane: str | None = None
    role: str | None = None
    agent: str | None = None
    lease_ms: int | None = None
    wait_ms: int | None = None


class ClaimReply(Reply, frozen=True, kw_only=True):
    """Answer of Claim."""

    run: views.Run
    quest: views.Quest
    lease_expires_at: int
    before: list[views.Run]
    also_running: list[views.Run]


class OnAttempt(Changing, frozen=True, kw_only=True):
    """Names an attempt."""

    attempt: str | None = None
    project: str | None = None
    directory: str | None = None
    run: int | None = None


class Heartbeat(OnAttempt, frozen=True, kw_only=True):
    """Parameters of Heartbeat."""

    lease_ms: int | None = None


class HeartbeatReply(Reply, frozen=True, kw_only=True):
    """Answer of Heartbeat."""

    lease_expires_at: int
    cancel_requested: bool


class Done(OnAttempt, frozen=True, kw_only=True):
    """Parameters of Done."""

    result: str | None = None
    summary: str | None = None
    commit: str | None = None


class Fail(OnAttempt, frozen=True, kw_only=True):
    """Parameters of Fail."""

    reason: str | None = None
    summary: str | None = None


class Release(OnAttempt, frozen=True, kw_only=True):
    """Parameters of Release."""

    reason: str | None = None


class Block(OnAttempt, frozen=True, kw_only=True):
    """Parameters of Block."""

    reason: str | None = None
    question: str | None = None
    choices: list[str] | None = None


def _lease_ms(ctx: Context, asked: int | None) -> int:
    if asked is None:
        return ctx.config.claim_lease_ms
    if not LEASE_MIN_MS <= asked <= LEASE_MAX_MS:
        raise InvalidInput(
            f"leaseMs: {asked} is not between {LEASE_MIN_MS} and {LEASE_MAX_MS}",
            hint="take a lease of a few minutes and send heartbeats",
            field="leaseMs",
        )
    return asked


def _owner(ctx: Context, caller: Caller, agent: str | None) -> str:
    """One holder, told apart from every other claim by random bits."""
    return f"worker:{caller.uid}:{agent or caller.pid}:{ctx.random_bytes(6).hex()}"


async def claim(ctx: Context, caller: Caller, request: Claim) -> ClaimReply:
    """Claim the best quest of a project, waiting for one up to waitMs. Raises NothingToClaim."""
    caller.must_own("claim quests")
    token = ctx.token(caller, "Claim", request)
    project = (await find.project_ref(ctx, request.project, request.directory)).ref
    for field, word in (("lane", request.lane), ("role", request.role), ("agent", request.agent)):
        if word is not None:
            check_word(field, word)
    lease_ms, owner = _lease_ms(ctx, request.lease_ms), _owner(ctx, caller, request.agent)
    wait_ms = min(check_integer("waitMs", request.wait_ms or 0, low=0), WAIT_MAX_MS)
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_ms / 1000
    with ctx.changes.claimable(project.key) as changed:
        while True:
            changed.clear()
            asked = StoreClaim(
                owner,
                ctx.clock.wall_ms(),
                lease_ms,
                own=False,
                project=project.key,
                lane=request.lane,
                role=request.role,
                agent=request.agent,
                token=token,
            )
            if found := await ctx.store.claim(asked):
                return await _claimed(ctx, found[0])
            try:
                if loop.time() >= until:  # looked at here, too: an event that is set for ever lets no timeout through
                    raise TimeoutError
                async with asyncio.timeout_at(until):
                    await changed.wait()
            except TimeoutError:
                raise NothingToClaim(
                    f"nothing to claim in {project.key}", hint="qlctl why ID names a quest's gates", reason="none"
                ) from None


async def _claimed(ctx: Context, claimed: Claimed) -> ClaimReply:
    now = ctx.clock.wall_ms()
    others = await ctx.store.surroundings(claimed.quest.project, claimed.quest.id)
    dependencies = (await ctx.store.dependencies([claimed.quest.id])).get(claimed.quest.id, ())
    return ClaimReply(
        run=views.run(claimed.run, now=now),
        quest=views.quest(claimed.quest, dependencies),
        lease_expires_at=claimed.quest.lease_expires_at or now,
        before=[views.run(row, now=now) for row in others.before],
        also_running=[views.run(row, now=now) for row in others.running],
    )


async def _attempt(ctx: Context, caller: Caller, request: OnAttempt) -> tuple[rows.Run, rows.Quest]:
    """The attempt named. An agent that reports on its own has the daemon's uid; other users hold no leases."""
    caller.must_own("report on attempts")
    run = await find.run(
        ctx,
        caller,
        attempt=request.attempt,
        project=request.project,
        directory=request.directory,
        number=request.run,
    )
    return run, await find.quest(ctx, caller, run.quest_id)


async def heartbeat(ctx: Context, caller: Caller, request: Heartbeat) -> HeartbeatReply:
    """Push the lease out. Raises StaleLease."""
    run, _ = await _attempt(ctx, caller, request)
    fence = Fence(run.quest_id, run.owner_session, run.lease_gen)
    extended = await ctx.store.heartbeat(fence, ctx.clock.wall_ms(), _lease_ms(ctx, request.lease_ms))
    return HeartbeatReply(lease_expires_at=extended.lease_expires_at, cancel_requested=extended.cancel_requested)


async def _end(ctx: Context, caller: Caller, request: OnAttempt, method: str, verdict: Verdict) -> QuestReply:
    """End an outside holder's attempt at once; of the daemon's own attempt keep the verdict for its end."""
    token = ctx.token(caller, method, request)
    run, quest = await _attempt(ctx, caller, request)
    fence = Fence(run.quest_id, run.owner_session, run.lease_gen)
    if quest.own and quest.lease_gen == run.lease_gen:
        if verdict.klass == "released":
            raise WrongState(
                f"{quest.id} is run by the daemon", hint="cancel it, or fail it", id=quest.id, state=quest.state
            )
        await ctx.store.verdict(fence, verdict.dump(), token)
        return await reply(ctx, quest.id)
    if run.finished_at is not None and token is None:
        raise StaleLease(
            f"{run.quest_id}/{run.attempt} is over", hint="nothing was written", id=quest.id, generation=run.lease_gen
        )
    await ctx.store.finish(
        Finish(
            fence,
            ctx.clock.wall_ms(),
            verdict.klass,
            ctx.chance(),
            ctx.config.policy,
            ctx.config.limits,
            result=verdict.result,
            error=verdict.reason,
            reason=verdict.reason,
            question=verdict.question,
            choices=verdict.choices,
            summary=verdict.summary,
            commit_id=verdict.commit,
            token=token,
        )
    )
    return await reply(ctx, quest.id)


def _result(ctx: Context, result: str | None) -> str | None:
    if result is not None:
        check_text("result", result, empty=True)
        limit = ctx.config.executor.max_inline_output_bytes
        check_size("result", (result,), limit, "executor.max_inline_output_bytes")
    return result


async def done(ctx: Context, caller: Caller, request: Done) -> QuestReply:
    """The work is done. Raises StaleLease."""
    summary, commit = checked_reason("summary", request.summary), checked_reason("commit", request.commit)
    verdict = Verdict("ok", result=_result(ctx, request.result), summary=summary, commit=commit)
    return await _end(ctx, caller, request, "Done", verdict)


async def fail(ctx: Context, caller: Caller, request: Fail) -> QuestReply:
    """The work failed. Raises StaleLease."""
    reason = checked_reason("reason", request.reason) or "reported as failed"
    verdict = Verdict("failed", reason=reason, summary=checked_reason("summary", request.summary))
    return await _end(ctx, caller, request, "Fail", verdict)


async def release(ctx: Context, caller: Caller, request: Release) -> QuestReply:
    """Give the quest back. Raises StaleLease."""
    return await _end(
        ctx, caller, request, "Release", Verdict("released", reason=checked_reason("reason", request.reason))
    )


async def block(ctx: Context, caller: Caller, request: Block) -> QuestReply:
    """A person is needed. Raises StaleLease."""
    verdict = blocked(request.reason, request.question, request.choices)
    return await _end(ctx, caller, request, "Block", verdict)
