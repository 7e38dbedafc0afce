"""Watch: state changes as they happen, from any event on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from questlined.core.quest import check_integer
from questlined.operations import find, views
from questlined.operations.context import Caller, Context, Reply, Request
from questlined.operations.lookups import fitting
from questlined.wire.errors import InvalidInput

WALK = 500  # rows of the journal that are looked at for one page
# Between two looks of one watcher, and of all of them: however many there are, the store's reader is left to others.
LOOK_S, LOOK_ANY_S = 0.05, 0.002


class Watch(Request, frozen=True, kw_only=True):
    """Parameters of Watch."""

    project: str | None = None
    directory: str | None = None
    all_projects: bool | None = None
    after: int | None = None


class WatchReply(Reply, frozen=True, kw_only=True):
    """Answer of Watch."""

    events: list[views.Event]
    last: int


async def watch(ctx: Context, caller: Caller, request: Watch, more: bool) -> AsyncIterator[tuple[WatchReply, bool]]:
    """Pages of events, oldest first: one, or with `more` until the client goes. The first comes at once, be it empty.

    Of a watcher nothing is kept but its place and a flag: a slow one reads later what it missed."""
    project = None
    if not request.all_projects:
        project = (await find.project_ref(ctx, request.project, request.directory)).ref.key
    submitter = None if caller.owner else caller.uid
    loop = asyncio.get_running_loop()
    with ctx.changes.anything() as changed:
        after, first = await _begin(ctx, request.after), True
        while True:
            changed.clear()
            looked = loop.time()
            page = await ctx.store.events_after(after, project=project, submitter=submitter, walk=WALK)
            shown, cut = fitting([views.event(event) for event in page.events], WALK)
            after = shown[-1].seq if cut else page.last
            if shown or first or page.more:  # a page of what others did moves `last` on, too
                yield WatchReply(events=shown, last=after), not more
            if not more:
                return
            first = False
            if not (cut or page.more):
                await changed.wait()
                pause_s = max(LOOK_S, ctx.changes.watchers * LOOK_ANY_S)
                await asyncio.sleep(looked + pause_s - loop.time())


async def _begin(ctx: Context, after: int | None) -> int:
    """The event after which to begin: the last one there is, unless another was named."""
    last = await ctx.store.last_event()
    if after is None:
        return last
    check_integer("after", after, low=0)
    if after > last:
        raise InvalidInput(
            f"after: {after} is above the last event, {last}: the queue was restored from a backup, or is another one",
            hint="leave after out to go on from now; events lists what there is",
            field="after",
        )
    return after
