"""Run: a quest at once, for a person who looks on or for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from questlined.operations import find, following, views
from questlined.operations.context import Caller, Changing, Context, Reply
from questlined.operations.following import Position, Record
from questlined.store.protocol import Claimed
from questlined.wire.errors import NothingToClaim


class Run(Changing, frozen=True, kw_only=True):
    """Parameters of Run."""

    id: str | None = None
    project: str | None = None
    directory: str | None = None
    after: str | None = None


class RunReply(Reply, frozen=True, kw_only=True):
    """Answer of Run."""

    run: views.Run | UnsetType = UNSET
    records: list[Record]
    state: str
    quest: views.Quest | UnsetType = UNSET


async def run(ctx: Context, caller: Caller, request: Run, more: bool) -> AsyncIterator[tuple[RunReply, bool]]:
    """Start a quest, or the project's next one, past pause and concurrency. With `more` its records follow, and a
    client that goes away interrupts it; without, it runs on. Raises WrongState, NothingToClaim."""
    caller.must_own("run quests past the queue")  # what others may add waits for its turn
    after = None if request.after is None else following.position(request.after)
    claimed = await _claimed(ctx, caller, request, attended=more)
    quest, attempt = claimed.quest.id, claimed.run.attempt
    try:
        shown = views.run(claimed.run, now=ctx.clock.wall_ms())
        yield RunReply(run=shown, records=[], state=claimed.quest.state), not more
        if more:
            start = after if after is not None and after.attempt == attempt else Position(attempt)
            records = following.records(ctx, quest, start, only=attempt)
            async with aclosing(records) as pages:
                async for page, last in pages:
                    yield RunReply(records=page.records, state=page.state, quest=page.quest), last
    except (asyncio.CancelledError, GeneratorExit):
        if more:
            ctx.daemon.interrupt(quest, attempt)
        raise


async def _claimed(ctx: Context, caller: Caller, request: Run, *, attended: bool) -> Claimed:
    token = ctx.token(caller, "Run", replace(request, after=None))  # who comes back has seen more by then
    if request.id is not None:
        quest = (await find.quest(ctx, caller, request.id)).id
        claimed = await ctx.daemon.run_now(quest, None, token, attended=attended)
        if claimed is None:  # a repeated call, whose quest was removed meanwhile
            raise find.gone(quest)
        return claimed
    project = (await find.project_ref(ctx, request.project, request.directory)).ref.key
    while await ctx.store.promote(ctx.clock.wall_ms()):
        pass  # a page each; what is due is weighed with the rest
    claimed = await ctx.daemon.run_now(None, project, token, attended=attended)
    if claimed is None:
        raise NothingToClaim(f"nothing to run in {project}", hint="qlctl why ID names a quest's gates", reason="none")
    return claimed
