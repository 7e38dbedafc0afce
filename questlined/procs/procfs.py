"""What /proc says about processes. An answer may be stale when it arrives: who acts on it holds a pidfd or looks again.

A process that is gone, or that we may not look at, is None or an empty list. OSError is raised only when descriptors
or memory have run out: nothing must look ended because we could not look.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

MARKER = "QUESTLINE_ATTEMPT"
_MARKER_ENTRY = b"\0" + MARKER.encode() + b"="
# Each costs some 30 µs and yields the processor to the process that is being executed.
_LOOKS = 1000
_BARE_LOOKS = 50
_BLOCK = 64 << 10
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@dataclass(frozen=True, slots=True)
class Stat:
    """One process. `started` is in clock ticks since boot; with the pid it names a process for good, within a boot.

    `memory`: zombies and threads of the kernel have none. `bare`: its environment is empty, or just being written;
    while a program is being loaded the bounds are 0, which is another thing.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    threads: int
    started: int
    memory: bool
    bare: bool

    @property
    def dead(self) -> bool:
        """Whether it has ended and only waits to be reaped. One whose first thread alone ended looks like a zombie."""
        return self.state in "ZX" and self.threads <= 1


def parse_stat(raw: bytes) -> Stat:
    """/proc/PID/stat. The name in parentheses may hold spaces and parentheses, so fields count from the last one."""
    pid = int(raw[: raw.index(b" ")])
    fields = raw[raw.rindex(b")") + 2 :].split()
    parent, group, session, threads, started = (int(fields[index]) for index in (1, 2, 3, 17, 19))
    memory, environ_start, environ_end = (int(fields[index]) for index in (20, 47, 48))
    bare = environ_start == environ_end != 0
    return Stat(pid, fields[0].decode(), parent, group, session, threads, started, memory != 0, bare)


def stat(pid: int) -> Stat | None:
    """The process with this pid now, a zombie included."""
    raw = _read(f"/proc/{pid}/stat")
    return parse_stat(raw) if raw else None


def name(pid: int) -> str | None:
    """What the process calls itself: its program, unless it said otherwise. Zombies keep theirs."""
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").removesuffix("\n") or None


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot."""
    found = stat(pid)
    return found.started if found else None


def boot_id() -> str:
    """Names this boot of the machine: pids and start times mean nothing in another one."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def marker(pid: int) -> str | None:
    """The value of QUESTLINE_ATTEMPT with which the process was executed; None also where that cannot be read.

    A process that is just being executed shows no environment for a moment. It is looked at again: taken for one
    without a marker it would fall to whichever attempt is ending.
    """
    bare = 0
    for _ in range(_LOOKS):
        try:
            environ = _load(f"/proc/{pid}/environ")
        except OSError as error:
            _unless_exhausted(error)
            return None
        if environ:
            return parse_marker(environ)
        if (seen := stat(pid)) is None or not seen.memory:
            return None
        # The kernel sets both bounds to the beginning before it writes the variables: once is no proof.
        bare = bare + 1 if seen.bare else 0
        if bare == _BARE_LOOKS:
            return None
        os.sched_yield()
    return None


def parse_marker(environ: bytes) -> str | None:
    """The marker in a block of NUL-ended NAME=value entries."""
    _, found, rest = (b"\0" + environ).partition(_MARKER_ENTRY)
    return rest.partition(b"\0")[0].decode("utf-8", "replace") if found else None


def pids() -> list[int]:
    """Every process that /proc shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def children(pid: int) -> list[int]:
    """The children of all threads of a process, zombies included; complete for our own, a moment's view of others."""
    listed = (_read(f"/proc/{pid}/task/{task}/children") for task in _tasks(pid))
    return [int(child) for line in listed for child in line.split()]


def own_children() -> list[int]:
    """The children of our main thread, zombies included: all there are, as it alone spawns, and orphans fall to it.

    The kernel gives them to a subreaper's first living thread (find_alive_thread in kernel/exit.c).
    """
    pid = os.getpid()
    return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]


def descendants(pid: int) -> list[Stat]:
    """Living processes below pid, parents first. One that loses its parent during the walk may be missed."""
    found: list[Stat] = []
    todo = [pid]
    while todo:
        parent = todo.pop()
        below = [seen for child in children(parent) if (seen := stat(child)) and not seen.dead]
        # A pid that was reused since the list was read has another parent: that process is a stranger.
        related = [seen for seen in below if seen.parent == parent]
        found += related
        todo += [seen.pid for seen in related]
    return found


def has_children_files() -> bool:
    """Whether the kernel was built with CONFIG_PROC_CHILDREN, without which orphans cannot be found."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _read(path: str) -> bytes:
    try:
        return _load(path)
    except OSError as error:  # ENOENT, ESRCH when it went away in between, EACCES
        _unless_exhausted(error)
        return b""


def _load(path: str) -> bytes:
    # Not open(): its file object asks five more things of the kernel, and this is read several times an attempt.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = b""
        while block := os.read(descriptor, _BLOCK):
            whole += block
        return whole
    finally:
        os.close(descriptor)


def _unless_exhausted(error: OSError) -> None:
    """Raise the error again when it says nothing about the process."""
    if error.errno in _EXHAUSTED:
        raise error


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        _unless_exhausted(error)
        return []
