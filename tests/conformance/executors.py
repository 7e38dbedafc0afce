"""Ways to run an attempt's program, each behind the same door, and a stage on which programs tell what they do.

A way is opened as a context: `async with opened("cgroup", folder) as way`. One that cannot be had here skips the test
and says why. To add one, write such a context and name it in WAYS.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from questlined.attempts.execution import Execution, Process
from questlined.procs import procfs
from questlined.procs.cgroup import Cgroups
from questlined.procs.child import Exit
from questlined.procs.family import Family
from questlined.procs.spawn import Command
from tests.support.cgroups import delegation
from tests.support.units import by_unit

PATIENCE_S = 30
PATH = "/usr/bin:/bin"
STORE = "11111111-2222-3333-4444-555555555555"


class Way(Protocol):
    """How programs are run. `tells_all_apart`: whether it knows even a process that changed its session, dropped its
    environment and lost its parent; `adds` are variables that a program gets besides those that it is given;
    `any_value`: whether a variable may hold control characters."""

    tells_all_apart: bool
    adds: frozenset[str]
    any_value: bool

    async def start(self, command: Command, marker: str, name: str) -> Execution:
        """A running program. Raises OSError where it cannot be started."""
        ...

    def limit_memory(self, execution: Execution, limit_bytes: int) -> None:
        """From now on. Skips where the kernel has no memory controller for it."""
        ...


@dataclass
class Processes:
    """Children of ours, with a cgroup each or without."""

    family: Family
    tells_all_apart: bool
    adds: frozenset[str] = frozenset()
    any_value: bool = True

    async def start(self, command: Command, marker: str, name: str) -> Execution:
        return Process(self.family, self.family.spawn(command, marker, name))

    def limit_memory(self, execution: Execution, limit_bytes: int) -> None:
        group = execution.trace.cgroup
        if group is None or not Path(group, "memory.max").exists():
            pytest.skip("the kernel has no memory controller for this program")
        Path(group, "memory.max").write_text(str(limit_bytes))


@asynccontextmanager
async def processes(cgroups: Cgroups | None) -> AsyncIterator[Processes]:
    """A started family, the test's own children aside. Whatever still lives is killed in the end."""
    family = Family()
    family.start(cgroups)
    try:
        yield Processes(family, tells_all_apart=cgroups is not None)
    finally:
        for child in list(family._children.values()):
            await family.take_down(child, 0, at_once=True)
            await family.sweep(child)
            family.reap(child)
        family.stop()


@asynccontextmanager
async def by_group(_folder: Path) -> AsyncIterator[Way]:
    """Process group, session, subreaper and marker."""
    async with processes(None) as way:
        assert way.family.isolation == "group"
        yield way


@asynccontextmanager
async def by_cgroup(_folder: Path) -> AsyncIterator[Way]:
    """A cgroup each."""
    with delegation() as cgroups:
        async with processes(cgroups) as way:
            assert way.family.isolation == "cgroup"
            yield way
        assert cgroups.groups() == []


Opened = Callable[[Path], AbstractAsyncContextManager[Way]]
WAYS: dict[str, Opened] = {"group": by_group, "cgroup": by_cgroup, "unit": by_unit}


class Told:
    """The lines that programs write to a FIFO, which they open by its path."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        # Ours for writing as well, so that reading never meets an end between two writers.
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._read = b""

    def next(self) -> str:
        """Blocks: programs do not need the loop to write."""
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._fd], [], [], PATIENCE_S)
            assert ready, f"no line came, read so far: {self._read!r}"
            self._read += os.read(self._fd, 4096)
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def pid(self) -> int:
        return int(self.next())

    def nothing(self) -> bool:
        """Whether nothing more has been told."""
        return not self._read and not select.select([self._fd], [], [], 0)[0]

    def close(self) -> None:
        os.close(self._fd)


@dataclass
class Started:
    """A program, and the files that it writes."""

    execution: Execution
    stdout: Path
    stderr: Path


@dataclass
class Stage:
    """Starts programs in a directory of their own. In their environment `TELL` is the path of `told`."""

    way: Way
    folder: Path
    told: Told
    _count: int = 0
    _open: list[int] = field(default_factory=list)

    async def run(
        self,
        *argv: str,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        umask: int = 0o022,
        env: Mapping[str, str] = {},
    ) -> Started:
        """Start a program as an attempt of a quest of its own."""
        self._count += 1
        quest = f"q-{os.getpid()}x{self._count}"
        out, err, given = (self.folder / f"{self._count}.{name}" for name in ("out", "err", "in"))
        given.write_bytes(stdin or b"")
        marker = f"{STORE}:{quest}:1"
        command = Command(
            argv,
            str(cwd or self.folder),
            {"PATH": PATH, procfs.MARKER: marker, "TELL": self.told.path, **env},
            self._descriptor(given if stdin is not None else Path(os.devnull), os.O_RDONLY),
            self._descriptor(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            self._descriptor(err, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            umask,
        )
        return Started(await self.way.start(command, marker, f"{quest}-1"), out, err)

    async def sh(self, script: str, **options: object) -> Started:
        """Start a shell's script, which tells by `>"$TELL"`."""
        return await self.run("/bin/sh", "-c", script, **options)  # type: ignore[arg-type]

    async def end(self, started: Started, *, keep: bool = False) -> Exit:
        """Wait for its exit, then sweep and reap."""
        execution = started.execution
        async with asyncio.timeout(PATIENCE_S):
            await execution.exited.wait()
            await execution.sweep(keep)
            return await execution.reap()

    async def kill(self, started: Started) -> Exit:
        await started.execution.take_down(0, at_once=True)
        return await self.end(started)

    def close(self) -> None:
        self.told.close()
        for descriptor in self._open:
            os.close(descriptor)

    def _descriptor(self, path: Path, flags: int) -> int:
        self._open.append(os.open(path, flags | os.O_CLOEXEC, 0o600))
        return self._open[-1]


@asynccontextmanager
async def opened(way: str, folder: Path) -> AsyncIterator[Stage]:
    """A stage on which programs run that way."""
    async with WAYS[way](folder) as executor:
        stage = Stage(executor, folder, Told(folder / "told"))
        try:
            yield stage
        finally:
            stage.close()


def alive(pid: int) -> bool:
    seen = procfs.stat(pid)
    return seen is not None and not seen.dead
