"""The daemon itself: Status and Health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from questlined.operations import find, recurrences, views
from questlined.operations.context import Caller, Context, Reply, Request
from questlined.wire.errors import StoreFull, Unavailable

TRIAL_S = 1.0


class Status(Request, frozen=True, kw_only=True):
    """Status takes nothing."""


class StatusReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of Status."""

    version: str
    pid: int
    started_at: int
    socket: str
    state_directory: str
    database: str
    isolation: str
    paused: bool
    paused_reason: str | None = None
    running_here: int
    max_concurrent: int
    counts: views.Counts


class Health(Request, frozen=True, kw_only=True):
    """Parameters of Health."""

    project: str | None = None
    directory: str | None = None
    all_projects: bool | None = None


class Problem(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """io.questline.Manager.Problem"""

    what: str
    hint: str


class HealthReply(Reply, frozen=True, kw_only=True):
    """Answer of Health."""

    ok: bool
    problems: list[Problem]
    paused: list[str]
    counts: views.Counts
    version: str
    running: int
    connections: int


async def status(ctx: Context, _caller: Caller, _request: Status) -> StatusReply:
    """Which daemon this is."""
    daemon, paused = ctx.daemon, await ctx.store.daemon_paused()
    return StatusReply(
        version=daemon.version,
        pid=daemon.pid,
        started_at=daemon.started_at,
        socket=daemon.socket,
        state_directory=daemon.state_directory,
        database=daemon.database,
        isolation=daemon.isolation(),
        paused=paused is not None,
        paused_reason=paused or None,
        running_here=daemon.running(),
        max_concurrent=ctx.config.max_concurrent,
        counts=views.Counts(**await ctx.store.counts(None)),
    )


async def health(ctx: Context, _caller: Caller, request: Health) -> HealthReply:
    """Whether all is well, and what is not."""
    project = None
    if not request.all_projects:
        project = (await find.project_ref(ctx, request.project, request.directory)).ref.key
    problems = [problem async for problem in _problems(ctx)]
    return HealthReply(
        ok=not problems,
        problems=problems,
        paused=await _paused(ctx, project),
        counts=views.Counts(**await ctx.store.counts(project)),
        version=ctx.daemon.version,
        running=ctx.daemon.running(),
        connections=ctx.daemon.connections(),
    )


async def _paused(ctx: Context, project: str | None) -> list[str]:
    """What is paused, with its reason."""
    row = None if project is None else await ctx.store.project(project)
    reasons = {
        "the whole daemon is paused": await ctx.store.daemon_paused(),
        "this project is paused": None if row is None else row.paused_reason,
    }
    return [f"{what}: {reason}" if reason else what for what, reason in reasons.items() if reason is not None]


async def _trouble(ctx: Context) -> str | None:
    """What is the matter with writing; where the last write failed, another is tried."""
    if ctx.daemon.store_trouble() is not None:
        try:
            async with asyncio.timeout(TRIAL_S):
                await ctx.store.touch()
        except (StoreFull, Unavailable, TimeoutError):
            pass  # it is as it was
    return ctx.daemon.store_trouble()


async def _problems(ctx: Context) -> AsyncIterator[Problem]:
    daemon = ctx.daemon
    if (fault := await ctx.store.fault()) is not None:
        yield Problem(what=fault, hint="stop the daemon and bring back a backup of the database")
    if (low := daemon.disk_low()) is not None:
        yield Problem(what=low, hint="free some space; claims go on by themselves")
    if daemon.store_busy():
        yield Problem(what="another program holds the database", hint=f"find it with: fuser -v {daemon.database}")
    if (trouble := await _trouble(ctx)) is not None:
        yield Problem(what=trouble, hint="is the disk well? What is running goes on, and its end is kept until then")
    no_units, remedy = daemon.no_units()
    if no_units is not None:
        yield Problem(what=no_units, hint=remedy)
    for what in daemon.stuck():
        yield Problem(what=what, hint="a process cannot be killed; its lane stays closed until it is gone")
    for key, path in await ctx.store.missing_paths():
        yield Problem(
            what=f"the path of project {key} is gone: {path}", hint="mount or restore it; it is looked for again"
        )
    async for what, hint in recurrences.broken(ctx):
        yield Problem(what=what, hint=hint)
