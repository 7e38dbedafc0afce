"""Every process the daemon runs, from spawn to reaping, and what they leave behind. One Family a daemon."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Iterable

from questlined.procs import ladder, libc, pidfd, procfs, spawn
from questlined.procs.child import Child, Exit
from questlined.procs.lineage import Kept, Trace, falls_to, surely_of
from questlined.procs.reaper import Dying, Reaper

__all__ = ["Child", "Exit", "Family"]

# What getrusage and a child's own peak may differ by although they mean the same memory: the kernel counts in batches.
_PEAK_SLACK_BYTES = 1 << 20
# Between two looks when no descriptor was to be had, so that there is no event to wait for.
_NO_DESCRIPTOR_PAUSE_S = 0.1


class Family:
    """Spawns, takes down, sweeps and reaps. All methods are for the loop's thread, which must be the main thread.

    Nothing else in this process may start processes: they would be taken for orphans, reaped and swept.

    `stuck_after_s`: how long a killed process may live on before it is reported.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, *, stuck_after_s: float = 10.0) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._stuck_after_s = stuck_after_s
        self._children: dict[int, Child] = {}
        self._reaper = Reaper(self._loop, self._children)
        self._kept = Kept()
        self._own_peak_bytes = 0

    def start(self) -> None:
        """Inherit orphans from now on, and reap them. Raises OSError where the kernel cannot do it."""
        if not procfs.has_children_files():
            raise OSError(errno.ENOSYS, "this kernel does not list children in /proc (CONFIG_PROC_CHILDREN)")
        libc.set_subreaper(True)
        self._loop.add_signal_handler(signal.SIGCHLD, self._reaper.bury_strays)

    def stop(self) -> None:
        """Undo start. Children that still live are let go of, not touched."""
        self._loop.remove_signal_handler(signal.SIGCHLD)
        libc.set_subreaper(False)
        self._reaper.close()
        for child in list(self._children.values()):
            self._drop(child, returncode=0)

    def spawn(self, command: spawn.Command, marker: str) -> Child:
        """Start a program; `marker` is the QUESTLINE_ATTEMPT of its environment, of no other living child.

        Raises OSError as it comes (no such program or directory, not executable, too large, out of descriptors).
        """
        popen = spawn.launch(command)
        try:
            child = self._watched(popen, marker)
        except OSError:
            # Nobody would see it end: better none than one like that.
            pidfd.send_group(popen.pid, signal.SIGKILL)
            popen.wait()
            raise
        self._children[child.pid] = child
        self._kept.sessions.discard(child.pid)
        return child

    async def take_down(self, child: Child, grace_s: float, *, at_once: bool = False) -> None:
        """End the child: SIGTERM to all of it, up to `grace_s`, SIGKILL to all of it; returns when it has exited.

        `at_once` stops everything and kills it without grace, also while another call waits out its own.
        """
        await ladder.take_down(
            child, self._members, grace_s=grace_s, at_once=at_once, stuck_after_s=self._stuck_after_s
        )

    async def sweep(self, child: Child, keep: bool = False) -> list[int]:
        """After the exit (waited for): kill what the child left, until nothing of it lives; the pids that were killed.

        With `keep` nothing is killed, by this sweep or a later one of another child.
        """
        await child.exited.wait()
        killed: dict[int, None] = {}
        while self._children.get(child.pid) is child:
            left = await self._look_for(child)
            if keep:
                self._keep(child, left)
                break
            pidfd.send_group(child.pid, signal.SIGKILL)
            if not left:
                break
            dying = [one for seen in left if (one := self._reaper.kill(seen)) is not None]
            killed.update((one.pid, None) for one in dying)
            await self._end_of(child, dying)
        child.swept = True
        return list(killed)

    def reap(self, child: Child) -> Exit:
        """Take the exit status of a swept child; its numbers are free for others from now on.

        Raises RuntimeError before its sweep.
        """
        if not child.swept:
            raise RuntimeError(f"child {child.pid} is reaped before its sweep")
        try:
            _, status, used = os.wait4(child.pid, 0)
        except ChildProcessError:  # somebody else took it: how it ended is unknown
            self._drop(child, returncode=0)
            return Exit(None, None, None, 0)
        code = os.waitstatus_to_exitcode(status)
        self._drop(child, returncode=code)
        cpu_ms = round((used.ru_utime + used.ru_stime) * 1000)
        return Exit(code if code >= 0 else None, -code if code < 0 else None, self._peak_bytes(used), cpu_ms)

    def _peak_bytes(self, used: resource.struct_rusage) -> int | None:
        """What a child used at most, None where that was not above our own size. Ours only grows: ask when in doubt."""
        peak = used.ru_maxrss * 1024
        if peak > self._own_peak_bytes:
            self._own_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + _PEAK_SLACK_BYTES
        return peak if peak > self._own_peak_bytes else None

    def _watched(self, popen: subprocess.Popen[bytes], marker: str) -> Child:
        """The new process as a Child whose exit will be noticed. Raises OSError, with nothing left open."""
        seen = procfs.stat(popen.pid)
        if seen is None:
            raise OSError(errno.ENOENT, "a new process does not show in /proc", f"/proc/{popen.pid}")
        child = Child(popen.pid, os.pidfd_open(popen.pid), seen.started, marker, popen)
        try:
            self._loop.add_reader(child.pidfd, self._exited, child)
        except OSError:
            os.close(child.pidfd)
            raise
        return child

    def _exited(self, child: Child) -> None:
        self._loop.remove_reader(child.pidfd)
        child.exited.set()

    def _drop(self, child: Child, *, returncode: int) -> None:
        """Close what we hold. Popen must know that its process is not to be waited for any more."""
        child.popen.returncode = returncode
        self._children.pop(child.pid, None)
        self._loop.remove_reader(child.pidfd)
        os.close(child.pidfd)
        child.pidfd = -1

    def _members(self, child: Child) -> Iterable[procfs.Stat]:
        """Living processes that are surely of a running child, but for itself."""
        orphans = [one for one in self._reaper.orphans() if surely_of(_trace(one), child)]
        for root in orphans:
            yield root
            yield from procfs.descendants(root.pid)
        yield from procfs.descendants(child.pid)

    def _left_of(self, child: Child) -> list[procfs.Stat]:
        """Living processes that end with this exited child. What hangs below them comes up when they are dead."""
        others = [other for other in self._children.values() if other is not child]
        left = []
        orphans = self._reaper.orphans()
        if not orphans:
            self._kept = Kept()
        for orphan in orphans:
            if falls_to(_trace(orphan), child, others, self._kept):
                left.append(orphan)
            else:
                left += [one for one in procfs.descendants(orphan.pid) if surely_of(_trace(one), child)]
        return left

    async def _look_for(self, child: Child) -> list[procfs.Stat]:
        while True:
            try:
                return self._left_of(child)
            except OSError:  # out of descriptors: what lives cannot be seen now
                await asyncio.sleep(_NO_DESCRIPTOR_PAUSE_S)

    def _keep(self, child: Child, left: list[procfs.Stat]) -> None:
        self._kept.sessions.update(one.session for one in left)
        self._kept.sessions.add(child.pid)
        if child.marker:
            self._kept.markers.add(child.marker)

    async def _end_of(self, child: Child, dying: list[Dying]) -> None:
        if dying:
            await ladder.until_gone(child, [(one.pid, one.gone) for one in dying], self._stuck_after_s)
        else:
            await asyncio.sleep(_NO_DESCRIPTOR_PAUSE_S)


def _trace(seen: procfs.Stat) -> Trace:
    return Trace(seen.session, seen.started, procfs.marker(seen.pid))
