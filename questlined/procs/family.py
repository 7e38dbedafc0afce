"""Every process the daemon runs, from spawn to reaping, and what they leave behind. One Family a daemon."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import subprocess
from collections.abc import Collection

from questlined.procs import cgroup, ladder, libc, pidfd, procfs, spawn
from questlined.procs.cgroup import Cgroups
from questlined.procs.child import Child, Exit
from questlined.procs.handing import Handing, handed
from questlined.procs.lineage import Kept, Trace, falls_to, surely_of
from questlined.procs.reaper import Dying, Reaper
from questlined.procs.vacancy import Vacancy

__all__ = ["Child", "Exit", "Family"]

log = logging.getLogger(__name__)

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
        self._cgroups: Cgroups | None = None
        self._vacancy = Vacancy(self._loop)
        self._own_peak_bytes = 0

    @property
    def isolation(self) -> str:
        """What holds an attempt together: `cgroup`, or `group` (its process group, session and marker)."""
        return "group" if self._cgroups is None else "cgroup"

    def start(self, cgroups: Cgroups | None = None) -> None:
        """Inherit orphans from now on, and reap them. Raises OSError where the kernel cannot do it.

        With `cgroups` what is spawned under a name gets a group of its own there, and this process moves to its own.
        """
        if not procfs.has_children_files():
            raise OSError(errno.ENOSYS, "this kernel does not list children in /proc (CONFIG_PROC_CHILDREN)")
        libc.set_subreaper(True)
        self._loop.add_signal_handler(signal.SIGCHLD, self._reaper.bury_strays)
        self._reaper.bury_strays()  # of those that have ended before, no signal tells
        try:
            if cgroups is not None:
                cgroups.enter()
                self._cgroups = cgroups
        except OSError as error:
            log.debug("no cgroup for each attempt: %s", error)

    async def clear_groups(self, spare: Collection[str]) -> list[int]:
        """End what an earlier daemon left in attempts' cgroups, and remove those; the pids that died.

        Spared are the groups of our children, and those named in `spare`, which go when they are empty.
        """
        if self._cgroups is None:
            return []
        held = {child.cgroup for child in self._children.values()}
        groups = [group for group in self._cgroups.groups() if group not in held]
        spared = [group for group in groups if os.path.basename(group) in spare]
        for group in spared:
            self._vacancy.remove(group)
        return await asyncio.to_thread(cgroup.end, [group for group in groups if group not in spared])

    def stop(self) -> None:
        """Undo start. Children that still live are let go of, not touched."""
        self._loop.remove_signal_handler(signal.SIGCHLD)
        libc.set_subreaper(False)
        self._reaper.close()
        self._vacancy.close()
        for child in list(self._children.values()):
            self._drop(child, returncode=0)

    def hand_over(self) -> Handing:
        """In place of `stop`, for who goes on with all of it: nothing is touched, descriptors stay open, and orphans
        come to this process still."""
        self._loop.remove_signal_handler(signal.SIGCHLD)
        self._reaper.close()
        self._vacancy.close()
        children = list(self._children.values())
        for child in children:
            self._disown(child, 0)
        kept = self._kept
        return Handing(tuple(map(handed, children)), tuple(kept.sessions), tuple(kept.markers))

    def adopt(self, given: Handing) -> list[Child]:
        """Before `start`: take over what `hand_over` gave, of this family or of one before an exec. Raises OSError."""
        self._kept = Kept(set(given.kept_markers), set(given.kept_sessions))
        for one in given.children:
            child = Child(one.pid, one.pidfd, one.started, one.marker, cgroup=one.cgroup, terminating=one.terminating)
            self._loop.add_reader(child.pidfd, self._exited, child)
            self._children[child.pid] = child
        return list(self._children.values())

    def spawn(self, command: spawn.Command, marker: str, name: str | None = None) -> Child:
        """Start a program; `marker` is the QUESTLINE_ATTEMPT of its environment, of no other living child.

        `name` is that of its cgroup, where there are cgroups. Raises OSError as it comes (no such program or directory,
        not executable, too large, out of descriptors); with a cgroup some of that is told by the exit instead.
        """
        group = self._group(name)
        try:
            child = self._started(spawn.launch(command, group), marker, group)
        except OSError:
            if group is not None:
                self._vacancy.remove(group)
            raise
        self._children[child.pid] = child
        self._kept.sessions.discard(child.pid)
        return child

    def _group(self, name: str | None) -> str | None:
        """A cgroup for a new child, None where there is none to be had: session and marker tell as much of it then."""
        try:
            return self._cgroups.make(name) if self._cgroups is not None and name is not None else None
        except OSError as error:
            log.warning("%s gets no cgroup: %s, ignoring", name, error.strerror)
            return None

    def _started(self, popen: subprocess.Popen[bytes], marker: str, group: str | None) -> Child:
        try:
            return self._watched(popen, marker, group)
        except OSError:
            # Nobody would see it end: better none than one like that.
            pidfd.send_group(popen.pid, signal.SIGKILL)
            popen.wait()
            raise

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
            left, hidden = await self._look_for(child)
            if keep:
                self._keep(child, left)
                break
            pidfd.send_group(child.pid, signal.SIGKILL)
            if not left and not hidden:
                break
            # In one step first: what is being forked there is killed with it, or found by the next look.
            ladder.kill_cgroup(child)
            dying = [one for seen in left if (one := self._reaper.kill(seen)) is not None]
            killed.update((one.pid, None) for one in dying)
            await (self._end_of(child, dying) if left else self._vacated(child))
        child.swept = True
        return list(killed)

    def reap(self, child: Child) -> Exit:
        """Take the exit status of a swept child; its numbers are free for others from now on.

        Raises RuntimeError before its sweep.
        """
        if not child.swept:
            raise RuntimeError(f"child {child.pid} is reaped before its sweep")
        name = _name(child)
        try:
            _, status, used = os.wait4(child.pid, 0)
        except ChildProcessError:  # somebody else took it: how it ended is unknown
            ended = Exit(None, None, None, 0)
            self._drop(child, returncode=0)
        else:
            code = os.waitstatus_to_exitcode(status)
            ended = self._exit(child, code, used, name)
            self._drop(child, returncode=code)
        if child.cgroup is not None:
            self._vacancy.remove(child.cgroup)
        return ended

    def _exit(self, child: Child, code: int, used: resource.struct_rusage, name: str | None) -> Exit:
        counted = _figures(child.cgroup)  # nothing where it could not enter
        return Exit(
            code if code >= 0 else None,
            -code if code < 0 else None,
            counted.peak_memory_bytes or self._peak_bytes(used),
            max(counted.cpu_ms or 0, round((used.ru_utime + used.ru_stime) * 1000)),
            counted.oom,
            spawn.refused(code, name),
        )

    def _peak_bytes(self, used: resource.struct_rusage) -> int | None:
        """What a child used at most, None where that was not above our own size. Ours only grows: ask when in doubt."""
        peak = used.ru_maxrss * 1024
        if peak > self._own_peak_bytes:
            self._own_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + _PEAK_SLACK_BYTES
        return peak if peak > self._own_peak_bytes else None

    def _watched(self, popen: subprocess.Popen[bytes], marker: str, group: str | None) -> Child:
        """The new process as a Child whose exit will be noticed. Raises OSError, with nothing left open."""
        seen = procfs.stat(popen.pid)
        if seen is None:
            raise OSError(errno.ENOENT, "a new process does not show in /proc", f"/proc/{popen.pid}")
        child = Child(popen.pid, os.pidfd_open(popen.pid), seen.started, marker, popen, cgroup=group)
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
        self._disown(child, returncode)
        os.close(child.pidfd)
        child.pidfd = -1

    def _disown(self, child: Child, returncode: int) -> None:
        child.reaped = True
        if child.popen is not None:
            child.popen.returncode = returncode
        self._children.pop(child.pid, None)
        self._loop.remove_reader(child.pidfd)

    def _members(self, child: Child) -> list[procfs.Stat]:
        """Living processes that are surely of a running child, but for itself."""
        orphans = [one for one in self._reaper.orphans() if surely_of(self._trace(one), child)]
        found = {one.pid: one for one in self._in_cgroup(child)}
        for root in (*(one.pid for one in orphans), child.pid):
            found |= {one.pid: one for one in procfs.descendants(root)}
        return list((found | {one.pid: one for one in orphans}).values())

    def _left_of(self, child: Child) -> tuple[list[procfs.Stat], bool]:
        """Living processes that end with this exited child. What hangs below them comes up when they are dead.

        And whether its cgroup holds something of which nothing can be seen.
        """
        others = [other for other in self._children.values() if other is not child]
        held = child.cgroup is not None and cgroup.populated(child.cgroup)
        left = {one.pid: one for one in self._in_cgroup(child)} if held else {}
        orphans = self._reaper.orphans()
        if not orphans:
            self._kept = Kept()
        for orphan in orphans:
            if falls_to(self._trace(orphan), child, others, self._kept):
                left[orphan.pid] = orphan
            else:
                below = procfs.descendants(orphan.pid)
                left |= {one.pid: one for one in below if surely_of(self._trace(one), child)}
        return list(left.values()), held and not left

    def _in_cgroup(self, child: Child) -> list[procfs.Stat]:
        if child.cgroup is None:
            return []
        seen = [procfs.stat(pid) for pid in cgroup.pids(child.cgroup) if pid != child.pid]
        return [one for one in seen if one is not None and not one.dead]

    def _trace(self, seen: procfs.Stat) -> Trace:
        group = self._cgroups.holding(seen.pid) if self._cgroups is not None else None
        return Trace(seen.session, seen.started, None if group else procfs.marker(seen.pid), group)

    async def _look_for(self, child: Child) -> tuple[list[procfs.Stat], bool]:
        while True:
            try:
                return self._left_of(child)
            except OSError:  # out of descriptors: what lives cannot be seen now
                await asyncio.sleep(_NO_DESCRIPTOR_PAUSE_S)

    async def _vacated(self, child: Child) -> None:
        """The last of it is just ending, or is out of sight."""
        try:
            if child.cgroup is not None:
                await self._vacancy.of(child.cgroup)
        except OSError:
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


def _name(child: Child) -> str | None:
    """What a child of the launcher's calls itself, where that can be looked at."""
    try:
        return procfs.name(child.pid) if child.cgroup else None
    except OSError:  # out of descriptors
        return None


def _figures(group: str | None) -> cgroup.Figures:
    try:
        return cgroup.NO_FIGURES if group is None else cgroup.figures(group)
    except OSError:  # out of descriptors
        return cgroup.NO_FIGURES
