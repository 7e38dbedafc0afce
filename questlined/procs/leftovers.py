"""What an earlier daemon left running when it was killed. Nothing of it is our child, so all of /proc is searched."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from questlined.clock import SystemClock
from questlined.procs import cgroup, pidfd, procfs
from questlined.procs.procfs import boot_id, start_ticks

__all__ = ["Recorded", "boot_id", "kill_leftovers", "start_ticks"]

log = logging.getLogger(__name__)

_ROUND_MS = 10_000
# So many descriptors are open at once; a daemon may start with a limit of 1,024 and thousands of leftovers.
_BATCH = 128
_QUIET_PASSES = 2


@dataclass(frozen=True, slots=True)
class Recorded:
    """A leader as the store knows it: pid, start in clock ticks, the boot both belong to, its cgroup if it had one."""

    pid: int
    started: int
    boot_id: str
    cgroup: str | None = None


def kill_leftovers(store_uuid: str, recorded: Sequence[Recorded], spare: Collection[str] = ()) -> list[int]:
    """Kill every process of this store's attempts; the pids that died. Blocks: call it in a thread.

    They are told by the cgroup that was recorded, by a marker of this store (full values in `spare` excepted), or by a
    recorded leader that is still the same process, with its group, its session and what hangs below. Done when two
    passes find none: a process that was just forking or executing is missed by one. A survivor is named in a warning
    after 10 s. Raises OSError only when descriptors or memory have run out.
    """
    here = boot_id()
    leaders = {(one.pid, one.started) for one in recorded if one.boot_id == here}
    killed = cgroup.end([one.cgroup for one in recorded if one.boot_id == here and _is_attempts(one.cgroup)], _ROUND_MS)
    survivors: set[tuple[int, int]] = set()
    quiet = 0
    while quiet < _QUIET_PASSES:
        found = [one for one in _search(store_uuid, leaders, spare) if (one.pid, one.started) not in survivors]
        quiet = 0 if found else quiet + 1
        for start in range(0, len(found), _BATCH):
            alive = _kill(batch := found[start : start + _BATCH])
            killed += [one.pid for one in batch if one.pid not in alive]
            survivors |= {(one.pid, one.started) for one in batch if one.pid in alive}
    if survivors:
        log.warning("an earlier daemon's processes do not end: %s, ignoring", sorted(pid for pid, _ in survivors))
    return killed


def marked(store_uuid: str) -> dict[str, list[procfs.Stat]]:
    """Living processes by the marker of this store that they have. Blocks. After kill_leftovers: those that did not
    die, because the kernel holds them or they are another user's."""
    found: dict[str, list[procfs.Stat]] = {}
    for pid in procfs.pids():
        mark = procfs.marker(pid)
        seen = procfs.stat(pid) if mark and mark.startswith(f"{store_uuid}:") and pid != os.getpid() else None
        if mark and seen is not None and not seen.dead:
            found.setdefault(mark, []).append(seen)
    return found


async def outlast(processes: Sequence[procfs.Stat]) -> None:
    """Returns when every one of these has ended."""
    loop = asyncio.get_running_loop()
    for seen in processes:
        descriptor = pidfd.open_same(seen)
        if descriptor is None:
            continue
        gone = asyncio.Event()
        loop.add_reader(descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _is_attempts(group: str | None) -> TypeGuard[str]:
    """Whether it is an attempt's cgroup, and we are not in it: a daemon may have been started by an agent."""
    if group is None or os.path.basename(os.path.dirname(group)) != cgroup.ATTEMPTS:
        return False
    return os.getpid() not in cgroup.pids(group)


def _search(store_uuid: str, leaders: Collection[tuple[int, int]], spare: Collection[str]) -> list[procfs.Stat]:
    """All living processes of this store's attempts, but for ourselves and what another marker protects."""
    everyone = [seen for pid in procfs.pids() if (seen := procfs.stat(pid)) and not seen.dead]
    markers = {seen.pid: procfs.marker(seen.pid) for seen in everyone}
    ours = f"{store_uuid}:"

    def may_die(seen: procfs.Stat) -> bool:
        marker = markers[seen.pid]
        unprotected = marker is None or (marker.startswith(ours) and marker not in spare)
        # A daemon that was started by an agent has that agent's marker itself.
        return unprotected and seen.pid != os.getpid()

    living = {seen.pid: seen for seen in everyone if may_die(seen)}
    heads = {pid for pid, seen in living.items() if (pid, seen.started) in leaders}
    roots = {pid for pid, seen in living.items() if markers[pid] or seen.group in heads or seen.session in heads}
    return [living[pid] for pid in sorted(_with_descendants(roots, living))]


def _with_descendants(roots: Iterable[int], living: dict[int, procfs.Stat]) -> set[int]:
    """The roots and all that hangs below them without a gap: `env -i` takes the marker away, not the parent."""
    below: dict[int, list[int]] = {}
    for seen in living.values():
        below.setdefault(seen.parent, []).append(seen.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += below.get(pid, [])
    return found


def _kill(batch: Sequence[procfs.Stat]) -> set[int]:
    """SIGKILL each and wait for its end, up to a round's time; the pids that live on."""
    open_fds: dict[int, int] = {}
    alive: set[int] = set()
    for seen in batch:
        try:
            fd = pidfd.open_same(seen)
        except OSError:
            alive.add(seen.pid)
            continue
        if fd is not None:
            open_fds[fd] = seen.pid
            pidfd.send(fd, signal.SIGKILL)
    alive |= _await_ends(dict(open_fds))
    for fd in open_fds:
        os.close(fd)
    return alive


def _await_ends(waiting: dict[int, int]) -> set[int]:
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    clock = SystemClock()
    deadline = clock.monotonic_ms() + _ROUND_MS
    while waiting and (left_ms := deadline - clock.monotonic_ms()) > 0:
        for fd, _ in poll.poll(left_ms):
            poll.unregister(fd)
            waiting.pop(fd, None)
    return set(waiting.values())
