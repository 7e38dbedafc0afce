"""Wait: answers when a quest is final or blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from questlined.core.quest import check_integer
from questlined.core.states import FINAL
from questlined.operations import find, views
from questlined.operations.context import Caller, Context, Reply, Request
from questlined.operations.steering import reply

WAIT_MAX_MS = 40_000  # below the reply time-out of common Varlink clients


class Wait(Request, frozen=True, kw_only=True):
    """Parameters of Wait."""

    id: str
    timeout_ms: int | None = None


class WaitReply(Reply, frozen=True, kw_only=True):
    """Answer of Wait."""

    quest: views.Quest
    timed_out: bool


def _timeout_s(request: Wait, more: bool) -> float | None:
    """Seconds to wait; None is for ever, which only a stream may."""
    asked = request.timeout_ms
    if asked is not None:
        check_integer("timeoutMs", asked, low=0)
    if more:
        return None if asked is None else asked / 1000
    return min(WAIT_MAX_MS if asked is None else asked, WAIT_MAX_MS) / 1000


async def wait(ctx: Context, caller: Caller, request: Wait, more: bool) -> AsyncIterator[tuple[WaitReply, bool]]:
    """Every state from now on with `more`, else only the last. The last is final, blocked or timed out."""
    timeout_s = _timeout_s(request, more)
    row = await find.quest(ctx, caller, request.id)
    shown = None
    loop = asyncio.get_running_loop()
    until = None if timeout_s is None else loop.time() + timeout_s
    with ctx.changes.watching(row.id) as changed:
        while True:
            changed.clear()
            now = (await reply(ctx, row.id)).quest
            if now.state in FINAL or now.state == "blocked":
                yield WaitReply(quest=now, timed_out=False), True
                return
            if more and now.state != shown:
                shown = now.state
                yield WaitReply(quest=now, timed_out=False), False
            try:
                async with asyncio.timeout_at(until):
                    await changed.wait()
            except TimeoutError:
                yield WaitReply(quest=now, timed_out=True), True
                return
