"""The one way down: SIGTERM, a grace, SIGKILL. What outlives its leader is the sweep's."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Sequence

from questlined.procs import cgroup, pidfd, procfs
from questlined.procs.child import Child

log = logging.getLogger(__name__)

Members = Callable[[Child], Iterable[procfs.Stat]]


async def take_down(child: Child, members: Members, *, grace_s: float, at_once: bool, stuck_after_s: float) -> None:
    """Returns when the child has exited. `members` finds its living processes outside of its own group.

    Of several calls for one child the first to run out of grace kills; only one sends SIGTERM.
    """
    if child.exited.is_set():
        return
    if at_once:
        # Stopped first, so that none of them can write or fork while the others are being found and killed. A cgroup
        # is killed in one step.
        if child.cgroup is None:
            _signal_all(child, members, signal.SIGSTOP)
    elif await _ends_politely(child, members, grace_s):
        return
    _signal_all(child, members, signal.SIGKILL)
    await until_gone(child, [(child.pid, child.exited)], stuck_after_s)


async def _ends_politely(child: Child, members: Members, grace_s: float) -> bool:
    if not child.terminating:
        child.terminating = True
        # A stopped process takes no SIGTERM before it is continued.
        _signal_all(child, members, signal.SIGTERM, signal.SIGCONT)
    try:
        async with asyncio.timeout(grace_s):
            await child.exited.wait()
    except TimeoutError:
        return child.exited.is_set()
    return True


def _signal_all(child: Child, members: Members, *numbers: signal.Signals) -> None:
    """To the group, and to each process that made a session or group of its own, as agents do for every tool."""
    # Found before the group is signalled: once its parent is dead a process can no longer be told by descent.
    try:
        apart = [one for one in members(child) if one.group != child.pid]
    except OSError:  # out of descriptors: the group at least, the rest is the sweep's
        apart = []
    for number in numbers:
        if number == signal.SIGKILL:
            kill_cgroup(child)
        # Another call may have seen the child through to its reaping; its number may be a stranger's then.
        if not child.reaped:
            pidfd.send_group(child.pid, number)
        for one in apart:
            pidfd.send_same(one, number)


def kill_cgroup(child: Child) -> None:
    """All in its cgroup in one step, where it has one."""
    try:
        if child.cgroup is not None:
            cgroup.kill(child.cgroup)
    except OSError:  # out of descriptors: one by one, then, and the sweep
        pass


async def until_gone(child: Child, awaited: Sequence[tuple[int, asyncio.Event]], stuck_after_s: float) -> None:
    """Wait for processes that were killed, however long it takes; after `stuck_after_s` name them once."""
    try:
        async with asyncio.timeout(stuck_after_s):
            for _, gone in awaited:
                await gone.wait()
    except TimeoutError:
        await _outwait(child, [(pid, gone) for pid, gone in awaited if not gone.is_set()])


async def _outwait(child: Child, left: Sequence[tuple[int, asyncio.Event]]) -> None:
    child.stuck.extend(pid for pid, _ in left)
    if left:
        log.warning("killed processes do not end: %s, waiting", ", ".join(str(pid) for pid, _ in left))
    for pid, gone in left:
        try:
            await gone.wait()
        finally:
            child.stuck.remove(pid)
