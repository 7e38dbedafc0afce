"""A program run to its end beside everything else, for what it says."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from questlined.procs import pidfd
from questlined.procs.family import Family
from questlined.procs.spawn import Command

READ_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Said:
    """The end of a trial: `code` is None where a signal or the limit ended it. Of each stream the first READ_BYTES."""

    code: int | None
    output: bytes
    errors: bytes


async def run(family: Family, argv: Sequence[str], directory: str, env: Mapping[str, str], limit_s: float) -> Said:
    """Start a program of ours, and see it and all that it starts to the end. Raises OSError where it cannot be started,
    TimeoutError where it takes longer; then nothing is left of it."""
    with _streams() as (nothing, output, errors):
        child = family.spawn(Command(tuple(argv), directory, env, nothing, output, errors), "")
        try:
            async with asyncio.timeout(limit_s):
                await child.exited.wait()
        except TimeoutError:
            await family.take_down(child, 0, at_once=True)
            raise
        except asyncio.CancelledError:  # the daemon ends: nobody will sweep, and the family may have let go of it
            pidfd.send_group(child.pid, signal.SIGKILL)
            raise
        finally:
            if child.exited.is_set():
                await family.sweep(child)
                ended = family.reap(child)
        return Said(ended.code, os.pread(output, READ_BYTES, 0), os.pread(errors, READ_BYTES, 0))


@contextmanager
def _streams() -> Iterator[tuple[int, int, int]]:
    """Its stdin, which is empty, stdout and stderr."""
    opened = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    try:
        opened += [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("stdout", "stderr")]
        yield opened[0], opened[1], opened[2]
    finally:
        for descriptor in opened:
            os.close(descriptor)
