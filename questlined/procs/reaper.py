"""Orphans we inherited as subreaper: killed by pidfd, awaited by its event, reaped one by one.

Never reaped by "any child": that would hand out the exit of a spawned child, whose zombie holds its group's number
until its sweep is over.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Container
from dataclasses import dataclass, field

from questlined.procs import pidfd, procfs


@dataclass(eq=False, slots=True)
class Dying:
    """A killed process; `gone` is set when it has ended. pidfd is -1 where no descriptor was to be had."""

    pid: int
    pidfd: int
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class Reaper:
    """Ends and reaps processes that are not spawned children. Used on the loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, spawned: Container[int]) -> None:
        self._loop = loop
        self._spawned = spawned
        self._dying: dict[int, Dying] = {}

    def orphans(self) -> list[procfs.Stat]:
        """Our children that we did not spawn and that live. Those that have ended are reaped on the way."""
        seen = [procfs.stat(pid) for pid in procfs.own_children() if pid not in self._spawned]
        for zombie in seen:
            if zombie is not None and zombie.dead:
                self._bury(zombie.pid)
        return [one for one in seen if one is not None and not one.dead]

    def bury_strays(self) -> None:
        """Reap orphans that ended by themselves. SIGCHLD only wakes this up: it may stand for any number of them."""
        try:
            self.orphans()
        except OSError:  # out of descriptors: the next sweep or child's end looks again
            pass

    def kill(self, seen: procfs.Stat) -> Dying | None:
        """SIGKILL, and the event of its end; None when it is gone already. Several may ask for the same one."""
        dying = self._dying.get(seen.pid)
        if dying is None:
            dying = self._watch(seen)
        if dying is not None and dying.pidfd >= 0:
            pidfd.send(dying.pidfd, signal.SIGKILL)
        return dying

    def close(self) -> None:
        """Let go of all descriptors."""
        for dying in list(self._dying.values()):
            self._forget(dying)

    def _watch(self, seen: procfs.Stat) -> Dying | None:
        try:
            fd = pidfd.open_same(seen)
        except OSError:
            return self._kill_without_descriptor(seen)
        if fd is None:
            return None
        dying = self._dying[seen.pid] = Dying(seen.pid, fd)
        self._loop.add_reader(fd, self._ended, dying)
        return dying

    def _kill_without_descriptor(self, seen: procfs.Stat) -> Dying | None:
        """Out of descriptors, an own child is killed by number, which only we can free, and SIGCHLD tells its end."""
        if seen.parent != os.getpid():
            return None
        os.kill(seen.pid, signal.SIGKILL)
        dying = self._dying[seen.pid] = Dying(seen.pid, -1)
        return dying

    def _ended(self, dying: Dying) -> None:
        try:
            os.waitid(os.P_PIDFD, dying.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:  # another process's child, or reaped through SIGCHLD
            pass
        self._forget(dying)

    def _bury(self, pid: int) -> None:
        try:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return
        dying = self._dying.get(pid)
        # Nothing is reaped while a debugger holds the zombie; its end wakes us again.
        if ended is not None and dying is not None:
            self._forget(dying)

    def _forget(self, dying: Dying) -> None:
        if self._dying.get(dying.pid) is dying:
            del self._dying[dying.pid]
        if dying.pidfd >= 0:
            self._loop.remove_reader(dying.pidfd)
            os.close(dying.pidfd)
            dying.pidfd = -1
        dying.gone.set()
