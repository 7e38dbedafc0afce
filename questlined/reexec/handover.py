"""What one program hands to the next in the same process: descriptors, and what each of them is.

It travels as JSON in a memfd whose number is in an environment variable, with the pid it is meant for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from questlined.attempts.execution import Left, Process
from questlined.attempts.output import Files
from questlined.core.ids import marker
from questlined.procs.family import Family
from questlined.procs.handing import Handing
from questlined.store.protocol import Claimed
from questlined.wire.errors import Internal

FORMAT = 1  # raised when an older program's handover cannot be read any more; a field with a default is no reason
VARIABLE = "QUESTLINED_HANDOVER"


@dataclass(frozen=True, slots=True)
class HandedAttempt:
    """An attempt whose program is a child. `files` are stdin, stdout, stderr; the rest is as in Left."""

    quest: str
    generation: int
    directory: str
    files: tuple[int, int, int]
    sources: dict[str, int]
    beyond: bool
    stopped: str | None = None
    unkept: str | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    """All of it. `version` and `started_at` are of the program that wrote it. `activated`: the sockets are systemd's,
    not made by the daemon; `locks` are by the file's path. `in_terminal`: whether SIGHUP ends the daemon, which could
    not be told again: what it ignored at its start is forgotten."""

    version: str
    started_at: int
    sockets: tuple[int, ...]
    activated: bool
    locks: dict[str, int]
    family: Handing
    attempts: tuple[HandedAttempt, ...]
    in_terminal: bool = False
    format: int = FORMAT

    def descriptors(self) -> Iterator[int]:
        """Each one that the next program is given."""
        yield from self.sockets
        yield from self.locks.values()
        yield from (child.pidfd for child in self.family.children)
        for attempt in self.attempts:
            yield from attempt.files
            yield from attempt.sources.values()


def packed(claimed: Claimed, left: Left) -> HandedAttempt | None:
    """An attempt that was let go of, None for one that the next program finds by itself: its files are closed."""
    files = left.files
    assert files is not None
    if left.execution.survives:
        files.close()
        return None
    return HandedAttempt(
        claimed.quest.id,
        claimed.run.lease_gen,
        str(files.directory),
        (files.stdin, files.stdout, files.stderr),
        dict(left.sources),
        left.beyond,
        left.stopped,
        None if left.unkept is None else str(left.unkept),
    )


def unpacked(handover: Handover, family: Family, store_uuid: str) -> dict[tuple[str, int], Left]:
    """What is to be adopted, by quest and generation. The family takes the children over."""
    children = {child.marker: child for child in family.adopt(handover.family)}
    found = {}
    for one in handover.attempts:
        child = children[marker(store_uuid, one.quest, one.generation)]
        files = Files(Path(one.directory), *one.files)
        unkept = None if one.unkept is None else OSError(one.unkept)
        left = Left(Process(family, child), files, one.sources, one.beyond, one.stopped, unkept)
        found[one.quest, one.generation] = left
    return found


async def abandon(left: Left) -> None:
    """End what nobody has adopted: its attempt was over for the store, or was claimed again."""
    await left.execution.take_down(0, at_once=True)
    await left.execution.sweep(keep=False)
    await left.execution.reap()
    if left.files is not None:
        left.files.close()
    for source in left.sources.values():
        os.close(source)


def write(handover: Handover) -> int:
    """A memfd with it. Raises OSError."""
    # Paths may hold bytes that are no UTF-8, which only the standard library's encoder takes.
    text = json.dumps(msgspec.to_builtins(handover)).encode()
    descriptor = os.memfd_create("questlined-handover", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def read(descriptor: int) -> Handover:
    """The handover in a memfd, which is closed; its descriptors are closed on exec again. Raises Internal."""
    try:
        with open(descriptor, "rb") as file:
            handover = msgspec.convert(json.load(file), Handover)
        for each in handover.descriptors():
            os.set_inheritable(each, False)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise Internal(f"the handover cannot be read: {error}", hint="start the daemon again") from error
    if handover.format != FORMAT:
        raise Internal(f"a handover of format {handover.format} is not known here", hint="start the daemon again")
    return handover


def take(environ: MutableMapping[str, str]) -> Handover | None:
    """What the program before this one in the same process has left, None where there was none. Raises Internal."""
    pid, _, number = environ.pop(VARIABLE, "").partition(":")
    if pid != str(os.getpid()) or not number.isdecimal():
        return None
    return read(int(number))
