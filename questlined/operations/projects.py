"""Projects: Pause and Resume."""

from __future__ import annotations

from questlined.operations import find, views
from questlined.operations.context import Caller, Changing, Context, Reply
from questlined.operations.steering import checked_reason
from questlined.store.protocol import Pausing, ProjectRef
from questlined.wire.errors import NotFound


class Project(views.View, frozen=True, kw_only=True, omit_defaults=True):
    """io.questline.Projects.Project"""

    key: str
    name: str | None = None
    path: str | None = None
    archived: bool
    paused: bool
    paused_reason: str | None = None
    runs_started: int
    counts: views.Counts


class Pause(Changing, frozen=True, kw_only=True):
    """Parameters of Pause."""

    project: str | None = None
    directory: str | None = None
    all: bool | None = None
    reason: str | None = None


class Resume(Changing, frozen=True, kw_only=True):
    """Parameters of Resume."""

    project: str | None = None
    directory: str | None = None
    all: bool | None = None


class ProjectReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """A project as it is now; absent where the whole daemon was meant."""

    project: Project | None = None


async def _change(ctx: Context, caller: Caller, request: Pause | Resume, reason: str) -> ProjectReply:
    paused = isinstance(request, Pause)
    caller.must_own("pause and resume")
    token = ctx.token(caller, "Pause" if paused else "Resume", request)
    ref: ProjectRef | None = None
    if not request.all:
        ref = (await find.project_ref(ctx, request.project, request.directory)).ref
        if not paused:
            await view(ctx, ref.key)  # only a pause makes a project
    await ctx.store.pause(Pausing(ref, paused, reason, ctx.clock.wall_ms(), token))
    return ProjectReply(project=None if ref is None else await view(ctx, ref.key))


async def view(ctx: Context, key: str) -> Project:
    """A project with its counts. Raises NotFound."""
    row = await ctx.store.project(key)
    if row is None:
        raise NotFound(f"there is no project {key}", hint="it is made by the first quest added to it", id=key)
    return Project(
        key=row.key,
        name=row.name,
        path=row.path,
        archived=bool(row.archived),
        paused=row.paused_reason is not None,
        paused_reason=row.paused_reason or None,
        runs_started=row.runs_started,
        counts=views.Counts(**await ctx.store.counts(key)),
    )


async def pause(ctx: Context, caller: Caller, request: Pause) -> ProjectReply:
    """Close a project's gate, or the daemon's. What runs goes on."""
    return await _change(ctx, caller, request, checked_reason("reason", request.reason) or "")


async def resume(ctx: Context, caller: Caller, request: Resume) -> ProjectReply:
    """Open it again."""
    return await _change(ctx, caller, request, "")
