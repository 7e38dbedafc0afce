"""From what a client wrote to the quest, attempt or project it means."""

from __future__ import annotations

import os
from functools import partial

from questlined.core.ids import split_attempt
from questlined.core.quest import check_integer, check_text, check_word
from questlined.operations.context import Caller, Context, Place
from questlined.store import rows
from questlined.store.protocol import ProjectRef
from questlined.wire.errors import Ambiguous, InvalidInput, NotFound

ID_LENGTH = 14  # q- and twelve digits
ID_MAX = 100
MATCHING_MAX = 10  # ids that the store looks for
PLACE_KEPT_MS = 1000
PLACES_MAX = 1024
MARKS = (".questline.toml", ".questline")


async def quest_id(ctx: Context, caller: Caller, text: str) -> str:
    """A full id from a full id or a prefix unique among what the caller may see, with or without its `q-`.

    Raises NotFound, Ambiguous."""
    check_text("id", text)
    wanted = text if text.startswith("q-") else f"q-{text}"
    if len(wanted) > ID_MAX:
        raise NotFound(f"there is no quest {text[:40]}…", hint="see qlctl list --all-projects", id=text[:ID_MAX])
    if len(wanted) >= ID_LENGTH:
        return wanted
    found = await ctx.store.matching(wanted, None if caller.owner else caller.uid)
    if len(found) == 1 or wanted in found:
        return wanted if wanted in found else found[0]
    if found:
        raise Ambiguous(
            f"{text} fits {len(found)}{' or more' * (len(found) == MATCHING_MAX)} quests",
            hint=f"write more of it: {', '.join(found[:5])}",
            id=text,
            candidates=found,
        )
    raise NotFound(f"there is no quest {text}", hint="see qlctl list --all-projects", id=text)


def gone(quest: str) -> NotFound:
    """The error for a quest that was there a moment ago."""
    return NotFound(f"there is no quest {quest} any more", hint="see qlctl list", id=quest)


async def quest(ctx: Context, caller: Caller, text: str) -> rows.Quest:
    """The quest, if the caller may see it. Raises NotFound, Ambiguous."""
    wanted = await quest_id(ctx, caller, text)
    found = await ctx.store.quest(wanted)
    if found is None or not (caller.owner or found.submitter_uid == caller.uid):
        raise NotFound(f"there is no quest {text}", hint="see qlctl list --all-projects", id=text)
    return found


async def run(
    ctx: Context,
    caller: Caller,
    *,
    attempt: str | None,
    project: str | None,
    directory: str | None,
    number: int | None,
) -> rows.Run:
    """The attempt named by its id, or by a project and a run number. Raises InvalidInput, NotFound."""
    if attempt is not None:
        parts = split_attempt(check_text("attempt", attempt))
        if parts is None:
            raise InvalidInput(
                f"attempt: {attempt[:80]!r} is no attempt id", hint="write <quest>/<attempt>", field="attempt"
            )
        found = await ctx.store.run(await quest_id(ctx, caller, parts[0]), parts[1])
    elif number is not None:
        check_integer("run", number, low=1)
        found = await ctx.store.run_numbered((await project_ref(ctx, project, directory)).ref.key, number)
    else:
        raise InvalidInput("attempt: it is missing", hint="name the attempt, or a project and a run", field="attempt")
    if found is None:
        raise NotFound(f"there is no attempt {attempt or number}", hint="see qlctl runs", id=attempt or str(number))
    return found


async def project_ref(ctx: Context, project: str | None, directory: str | None) -> Place:
    """The project named, or the nearest one at or above `directory`. Raises InvalidInput."""
    if project is not None and "/" not in project:
        check_word("project", project)
        key = f"name:{project}"
        known = await ctx.store.project(key)
        return Place(ProjectRef(key, project, known.path if known else None))
    named, field = (project, "project") if project is not None else (directory, "directory")
    if named is None:
        raise InvalidInput(
            "project: it is missing", hint="give project, or the directory where the caller stands", field="project"
        )
    check_text(field, named)
    return await _place(ctx, project, field, named)


async def _place(ctx: Context, project: str | None, field: str, named: str) -> Place:
    """A directory's project. What was found is taken again for PLACE_KEPT_MS: calls come in bursts, from one place."""
    now = ctx.clock.monotonic_ms()
    if (kept := _kept(ctx, field, named, now)) is not None:
        return kept
    found = await _looked_up(ctx, project, field, named)
    if len(ctx.places) >= PLACES_MAX:
        ctx.places.clear()
    ctx.places[field, named] = (found, now)
    return found


def _kept(ctx: Context, field: str, named: str, now: int) -> Place | None:
    kept = ctx.places.get((field, named))
    return kept[0] if kept is not None and now - kept[1] < PLACE_KEPT_MS else None


def place_at_hand(ctx: Context, project: str | None, directory: str | None) -> Place | None:
    """What `project_ref` gives, where that is known without waiting."""
    if project is not None:
        return _kept(ctx, "project", project, ctx.clock.monotonic_ms())
    return None if directory is None else _kept(ctx, "directory", directory, ctx.clock.monotonic_ms())


async def _looked_up(ctx: Context, project: str | None, field: str, named: str) -> Place:
    registered = [] if project is not None else await ctx.store.registered_paths()
    try:
        return await ctx.directories.do(partial(_on_disk, field, named, dict(registered)))
    except InvalidInput:
        # a project that is known stays one while its directory is gone: its quests wait, and can be steered
        if project is None or not os.path.isabs(named):
            raise
        known = await ctx.store.project(await ctx.directories.do(partial(os.path.realpath, named)))
        if known is None:
            raise
        return Place(ProjectRef(known.key, known.name, known.path))


def _on_disk(field: str, directory: str, registered: dict[str, str]) -> Place:
    """Look the directory up; blocks, a mount may hang. An explicit project is meant as it is, without a search."""
    if not os.path.isabs(directory):
        raise InvalidInput(f"{field}: {directory[:200]!r} is not absolute", hint="send an absolute path", field=field)
    path = check_text(field, os.path.realpath(directory))  # a link may lead to a name that is no text
    if not os.path.isdir(path):
        raise InvalidInput(
            f"{field}: {directory[:200]} is no directory", hint="name a directory that is there", field=field
        )
    here = path
    while field == "directory":
        if path in registered:
            return Place(ProjectRef(registered[path], registered[path].removeprefix("name:"), path), _ignored(path))
        if any(os.path.exists(os.path.join(path, mark)) for mark in MARKS):
            break
        parent = os.path.dirname(path)
        if parent == path:
            path = here
            break
        path = parent
    return Place(ProjectRef(path, None, path), _ignored(path))


def _ignored(path: str) -> str | None:
    """Project files come with a later version; until then one that is there is named, never skipped in silence."""
    file = os.path.join(path, ".questline.toml")
    return f"{file} is there, but this version does not read project files, ignoring" if os.path.exists(file) else None
