"""Backup: a copy of the whole queue in one file."""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path

from questlined.core.quest import check_text
from questlined.operations.context import Caller, Changing, Context, Reply
from questlined.wire.errors import InvalidInput, Unavailable

log = logging.getLogger(__name__)

KEPT = 7
KEPT_MAX = 10_000
_OURS = re.compile(r"quests-\d{8}-\d{6}\.sqlite")


class Backup(Changing, frozen=True, kw_only=True):
    """Parameters of Backup. Nothing is kept for the requestId: a repeated call makes another copy."""

    file: str | None = None
    keep: int | None = None


class BackupReply(Reply, frozen=True, kw_only=True):
    """Answer of Backup."""

    path: str
    bytes: int
    removed: list[str]


async def backup(ctx: Context, caller: Caller, request: Backup) -> BackupReply:
    """Copy the queue: to the file that is named, else beside the queue, where the oldest copies above `keep` go."""
    caller.must_own("back up the queue")
    reserve = ctx.config.min_free_bytes
    if request.file is not None:
        path = _named(request)
        return BackupReply(path=str(path), bytes=await ctx.store.backup(path, reserve), removed=[])
    keep, folder = _kept(request), Path(ctx.daemon.state_directory) / "backups"
    path = await ctx.directories.do(lambda: _free_name(folder, ctx.clock.wall_ms()))
    size = await ctx.store.backup(path, reserve)
    return BackupReply(path=str(path), bytes=size, removed=await ctx.directories.do(lambda: _prune(path, keep)))


def _named(request: Backup) -> Path:
    """The file of a request. Raises InvalidInput."""
    assert request.file is not None
    check_text("file", request.file)
    if request.keep is not None:
        raise InvalidInput(
            "keep: it counts the copies that have no name of yours", hint="leave out keep, or file", field="keep"
        )
    if not os.path.isabs(request.file) or request.file.endswith("/"):
        raise InvalidInput(
            f"file: {request.file!r} is no absolute path of a file",
            hint="begin with a slash, end with a name",
            field="file",
        )
    return Path(request.file)


def _kept(request: Backup) -> int:
    keep = KEPT if request.keep is None else request.keep
    if not 1 <= keep <= KEPT_MAX:
        raise InvalidInput(f"keep: {keep} is not between 1 and {KEPT_MAX}", hint="7 keeps a week", field="keep")
    return keep


def _free_name(folder: Path, now: int) -> Path:
    """A name for a copy made now, in a folder that is made where it is missing. Raises Unavailable."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"no backup was made: {folder}: {error.strerror}", hint="it is to be a directory") from error
    while (path := folder / time.strftime("quests-%Y%m%d-%H%M%S.sqlite", time.gmtime(now // 1000))).exists():
        now += 1000
    return path


def _prune(made: Path, keep: int) -> list[str]:
    """Delete the oldest copies above `keep`; their paths. What has another name is nobody's business here, and the one
    just `made` stays: the clock may have been ahead when others were."""
    ours = sorted(path for path in made.parent.iterdir() if _OURS.fullmatch(path.name) and path != made)
    removed = []
    for path in ours[: max(len(ours) + 1 - keep, 0)]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("an old backup cannot be removed: %s: %s, ignoring", path, error.strerror)
        else:
            removed.append(str(path))
    return removed
