"""A family with real children that tell what they do on a pipe."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from questlined.procs import procfs
from questlined.procs.cgroup import Cgroups
from questlined.procs.child import Child, Exit
from questlined.procs.family import Family
from questlined.procs.spawn import Command

PATH = "/usr/bin:/bin"
PATIENCE_S = 30
LONG_S = 1000


class Lines:
    """The lines that several processes write to one pipe."""

    def __init__(self) -> None:
        self.source, self.sink = os.pipe()
        self._read = b""

    def next(self) -> str:
        """Blocks: processes do not need the loop to write."""
        while b"\n" not in self._read:
            ready, _, _ = select.select([self.source], [], [], PATIENCE_S)
            assert ready, "no line came"
            block = os.read(self.source, 4096)
            assert block, f"the writers are gone, left: {self._read!r}"
            self._read += block
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def pid(self) -> int:
        return int(self.next())

    def rest(self) -> bytes:
        """What is left when all writers have ended."""
        self.close_sink()
        while block := os.read(self.source, 4096):
            self._read += block
        return self._read

    def close_sink(self) -> None:
        if self.sink >= 0:
            os.close(self.sink)
            self.sink = -1

    def close(self) -> None:
        self.close_sink()
        os.close(self.source)


class Scene:
    """Spawns shell scripts whose output is `lines`."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._before = set(procfs.children(os.getpid()))  # a test run has other children
        self.lines = Lines()
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def spawn(
        self,
        script: str,
        marker: str = "store:q-1:1",
        *,
        stdin: int | None = None,
        group: str | None = None,
        **more: str,
    ) -> Child:
        return self.execute(("/bin/sh", "-c", script), marker, stdin=stdin, group=group, **more)

    def execute(
        self,
        argv: tuple[str, ...],
        marker: str = "store:q-1:1",
        *,
        stdin: int | None = None,
        group: str | None = None,
        **more: str,
    ) -> Child:
        env: Mapping[str, str] = {"PATH": PATH, procfs.MARKER: marker, **more}
        given = self.null if stdin is None else stdin
        return self.family.spawn(Command(argv, "/", env, given, self.lines.sink, self.null), marker, group)

    async def finish(self, child: Child) -> tuple[list[int], Exit]:
        async with asyncio.timeout(PATIENCE_S):
            killed = await self.family.sweep(child)
        return killed, self.family.reap(child)

    def children(self) -> list[int]:
        """Our children that came with this scene, zombies included."""
        return [pid for pid in procfs.children(os.getpid()) if pid not in self._before]

    async def end(self, child: Child) -> tuple[list[int], Exit]:
        """Kill, sweep and reap."""
        await self.family.take_down(child, 0, at_once=True)
        return await self.finish(child)

    def close(self) -> None:
        self.lines.close()
        os.close(self.null)


@asynccontextmanager
async def scene(stuck_after_s: float = 10.0, cgroups: Cgroups | None = None) -> AsyncIterator[Scene]:
    family = Family(stuck_after_s=stuck_after_s)
    family.start(cgroups)
    played = Scene(family)
    try:
        yield played
    finally:
        for child in list(family._children.values()):
            await played.end(child)
        played.close()
        family.stop()


def alive(pid: int) -> bool:
    seen = procfs.stat(pid)
    return seen is not None and not seen.dead


def known(pid: int) -> bool:
    """Whether the kernel still has it, if only as a zombie."""
    return procfs.stat(pid) is not None


async def until_unknown(pid: int) -> None:
    """Turn the loop until the process is reaped."""
    async with asyncio.timeout(PATIENCE_S):
        while known(pid):  # noqa: ASYNC110  its reaping is no event that a test could have
            await asyncio.sleep(0)


def until_stopped(child: Child) -> None:
    """Block until a signal has stopped the child."""
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)


def run_another() -> None:
    """Have subprocess start and reap a process of its own, which also reaps every Popen that was dropped."""
    subprocess.run(["true"], check=True)


def start_outsider() -> int:
    """A child of ours past the family, as the program that executed the daemon may have left one."""
    return os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}, setsid=True)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
