"""Reexec: the running program is replaced by the installed one."""

from __future__ import annotations

from questlined.operations.context import Caller, Changing, Context, Reply


class Reexec(Changing, frozen=True, kw_only=True):
    """Parameters of Reexec. Nothing is kept for the requestId: a repeated call replaces a new program by itself."""


class ReexecReply(Reply, frozen=True, kw_only=True):
    """Answer of Reexec. `started_at` is that of the program which goes."""

    version: str
    running: int
    started_at: int


async def reexec(ctx: Context, caller: Caller, _request: Reexec) -> ReexecReply:
    """Replace the program; the answer comes when only that is left to do. Raises what the new program says against it,
    Busy while this is under way, Unavailable where something does not come to rest."""
    caller.must_own("replace the program")
    replaced = await ctx.daemon.reexec()
    return ReexecReply(version=replaced.version, running=replaced.running, started_at=ctx.daemon.started_at)
