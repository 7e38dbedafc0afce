"""Control groups, where systemd has delegated a part of their tree to us: one group for each attempt.

    <unit>/supervisor        the daemon: a group that gives controllers to groups below it may hold no process itself
    <unit>/attempts/<name>   an attempt and all that comes of it, with whatever groups it makes itself

A group is named by its directory. One that has gone is empty and has no processes. OSError is raised only when it could
not be looked at, such as for want of descriptors: nothing must look ended because we could not look.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import select
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from questlined.clock import SystemClock

log = logging.getLogger(__name__)

SUPERVISOR, ATTEMPTS = "supervisor", "attempts"
CONTROLLERS = ("memory", "pids", "cpu")
END_WITHIN_MS = 10_000
# A group that was removed, also between opening and reading one of its files; the file of a controller it has not.
_GONE = {errno.ENOENT, errno.ENODEV}
# Another user's group; one that shows in a sandbox only to be read; a threaded one.
_NOT_OURS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EOPNOTSUPP}
# cgroup.procs of a threaded group cannot be read: its processes stand in the group above.
_NOT_LISTED = errno.EOPNOTSUPP


@dataclass(frozen=True, slots=True)
class Figures:
    """What the kernel counted for a group and all below it; None where it has no such controller or file."""

    peak_memory_bytes: int | None
    cpu_ms: int | None
    oom: bool


NO_FIGURES = Figures(None, None, oom=False)


@dataclass(frozen=True, slots=True)
class Cgroups:
    """A delegated part of the tree. `path` is its name in /proc/PID/cgroup, `directory` where it is mounted."""

    path: str
    directory: str

    def enter(self) -> None:
        """Move this process to where it is to be, and give the groups of attempts what controllers there are.

        Raises OSError where it cannot move.
        """
        for name in (SUPERVISOR, ATTEMPTS):
            os.makedirs(f"{self.directory}/{name}", exist_ok=True)
        put(f"{self.directory}/{SUPERVISOR}", 0)
        for group in (self.directory, f"{self.directory}/{ATTEMPTS}"):
            _enable_controllers(group)

    def make(self, name: str) -> str:
        """The group of an attempt. One of an earlier daemon that could not be removed is taken again."""
        group = f"{self.directory}/{ATTEMPTS}/{name}"
        try:
            os.mkdir(group)
        except FileExistsError:
            pass
        return group

    def holding(self, pid: int) -> str | None:
        """The attempt's group that a process is in, if it is in one."""
        path = path_of(pid)
        below = f"{self.path.rstrip('/')}/{ATTEMPTS}/"
        if path is None or not path.startswith(below):
            return None
        return f"{self.directory}/{ATTEMPTS}/{path.removeprefix(below).partition('/')[0]}"

    def groups(self) -> list[str]:
        """The groups of attempts that there are."""
        with os.scandir(f"{self.directory}/{ATTEMPTS}") as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def delegated(environ: Mapping[str, str], *, again: bool = False) -> Cgroups | None:
    """The part of the tree that is ours to divide, or None. `environ` is what this process was started with; `again`:
    an earlier program of this process, before an exec, has divided it already."""
    try:
        found = _own()
        if found is None:
            return None
        others = set() if again else _others(found)
        if os.path.basename(found.path) == SUPERVISOR:
            found = Cgroups(os.path.dirname(found.path), os.path.dirname(found.directory))
            others |= _others(found)
        reason = f"others are there, too: {sorted(others)[:5]}" if others else _foreign(found, environ)
    except OSError as error:
        reason = str(error)
    if reason is None:
        return found
    log.debug("no cgroup for each attempt: %s", reason)
    return None


def _own() -> Cgroups | None:
    """The group this process is in, where its tree is mounted."""
    path = path_of(os.getpid())
    for mount in _mounts() if path is not None else ():
        directory = mount if path == "/" else f"{mount}{path}"
        # A mount may show another part of the tree than the one that our path begins at.
        if path is not None and os.getpid() in _listed(directory):
            return Cgroups(path, directory)
    return None


def _mounts() -> list[str]:
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        fields = [line.split(" ") for line in file]
    return [_unescaped(where) for _, where, kind, *_ in fields if kind == "cgroup2"]


def _unescaped(path: str) -> str:
    """Blanks and backslashes stand in octal."""
    return re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), path)


def _foreign(found: Cgroups, environ: Mapping[str, str]) -> str | None:
    """Why a group is not ours to divide, None if it is."""
    if not _told(found, environ):
        # Being able to make groups proves nothing: root always is, and a user in every group of their own manager.
        return f"{found.path} was not delegated to us"
    if not os.access(f"{found.directory}/cgroup.procs", os.W_OK):
        return f"{found.path} may not be written to"
    if not os.path.exists(f"{found.directory}/cgroup.kill"):
        return "this kernel has no cgroup.kill (Linux 5.14)"
    return None


def _others(found: Cgroups) -> set[str]:
    """The processes in this very group besides us; those of another PID namespace are there as 0."""
    return set((_read(found.directory, "cgroup.procs") or "").split()) - {str(os.getpid())}


def _told(found: Cgroups, environ: Mapping[str, str]) -> bool:
    """Whether systemd says so: by an attribute of the group, as the system's manager does and newer users' managers do.

    An older user's manager (252) marks none of its groups. There the main process of a service is believed to be
    alone in its group for good; where such a unit lacks Delegate=, it only gets no controllers.
    """
    marks = os.listxattr(found.directory)
    if "user.delegate" in marks:
        return os.getxattr(found.directory, "user.delegate") == b"1"
    main = environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()) and found.path.endswith(".service")
    return main and "user.invocation_id" not in marks and os.stat(found.directory).st_uid == os.geteuid()


def _enable_controllers(group: str) -> None:
    """For the groups below this one: each that there is, one by one, for one that is refused refuses all."""
    there = (_read(group, "cgroup.controllers") or "").split()
    for controller in CONTROLLERS:
        if controller in there:
            try:
                _write(f"{group}/cgroup.subtree_control", f"+{controller}")
            except OSError as error:
                log.debug("%s: no controller %s: %s", group, controller, error.strerror)


def path_of(pid: int) -> str | None:
    """A process's group as /proc tells it, None where it is gone or has none."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)


def directory_of(pid: int) -> str | None:
    """The group that a process is in, None where it is gone or has none that can be seen."""
    path = path_of(pid)
    found = (mount if path == "/" else f"{mount}{path}" for mount in _mounts()) if path is not None else ()
    return next((directory for directory in found if pid in _listed(directory)), None)


def directory_at(path: str) -> str | None:
    """Where a group is mounted that has this name in /proc/PID/cgroup, None where it is not."""
    return next((found for mount in _mounts() if os.path.isdir(found := f"{mount}{path}")), None)


def put(group: str, pid: int) -> None:
    """Move a process, 0 being this one. Raises OSError."""
    _write(f"{group}/cgroup.procs", str(pid))


def populated(group: str) -> bool:
    """Whether something lives in it or in a group below it. Zombies do not."""
    events = _read(group, "cgroup.events")
    return events is not None and "populated 1" in events.splitlines()


def pids(group: str) -> list[int]:
    """The processes in it and in the groups below it. To be asked of a populated one."""
    return [pid for directory in _tree(group) for pid in _listed(directory)]


def kill(group: str) -> None:
    """SIGKILL to all in it and below, in one step: what is being forked does not get away."""
    try:
        _write(f"{group}/cgroup.kill", "1")
    except OSError as error:
        _unless_gone(error)


def remove(group: str) -> bool:
    """Remove it with the groups below it; whether it is gone. What is populated stays."""
    if _rmdir(group):  # as nearly all are: without groups below
        return True
    return not populated(group) and all(_rmdir(directory) for directory in reversed(list(_tree(group))))


def _rmdir(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        pass
    except OSError:  # something lives in it, or there are groups below
        return False
    return True


def figures(group: str) -> Figures:
    """What was used by all that ever ran in it; to be asked when it is empty, and before it is removed."""
    used = _counters(group, "cpu.stat").get("usage_usec")
    peak = (_read(group, "memory.peak") or "").strip()
    killed = _counters(group, "memory.events").get("oom_kill", 0)
    return Figures(int(peak) if peak.isdecimal() else None, None if used is None else round(used / 1000), killed > 0)


def end(groups: Sequence[str], within_ms: int = END_WITHIN_MS) -> list[int]:
    """Kill all in them and remove them; the pids that died. Blocks. What does not die in time is named in a warning, as
    is a group that cannot be killed."""
    before = {group: pids(group) for group in groups}
    deadline_ms = SystemClock().monotonic_ms() + within_ms
    killed = []
    for group in [group for group in groups if _kill_if_we_may(group)]:
        living = [] if _await_empty(group, deadline_ms) else pids(group)
        if living:
            log.warning("processes of %s do not end: %s, ignoring", group, living)
        remove(group)
        killed += [pid for pid in before[group] if pid not in living]
    return killed


def _kill_if_we_may(group: str) -> bool:
    try:
        kill(group)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        log.warning("%s cannot be killed: %s, ignoring", group, error.strerror)
        return False
    return True


def _await_empty(group: str, deadline_ms: int) -> bool:
    """Whether it is empty in time. The kernel tells each change of cgroup.events, to be read before the next."""
    try:
        events = os.open(f"{group}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _unless_gone(error)
        return True
    poll, clock = select.poll(), SystemClock()
    poll.register(events, select.POLLPRI)
    try:
        while b"populated 1" in os.pread(events, 4096, 0):
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                return False
            poll.poll(left_ms)
    except OSError as error:
        _unless_gone(error)
    finally:
        os.close(events)
    return True


def _tree(group: str) -> Iterator[str]:
    """The group and all below it, parents first."""
    yield group
    try:
        with os.scandir(group) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        _unless_gone(error)
        return
    for directory in below:
        yield from _tree(directory)


def _listed(directory: str) -> list[int]:
    """The processes in this very group. One that is of another PID namespace than ours stands there as 0."""
    try:
        return [int(pid) for pid in (_read(directory, "cgroup.procs") or "").split() if pid != "0"]
    except OSError as error:
        if error.errno == _NOT_LISTED:
            return []
        raise


def _counters(group: str, name: str) -> dict[str, int]:
    """A file of `name number` lines."""
    fields = [line.split() for line in (_read(group, name) or "").splitlines()]
    return {key: int(value) for key, value in fields}


def _read(group: str, name: str) -> str | None:
    """A file of a group; None where there is none."""
    try:
        descriptor = os.open(f"{group}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _unless_gone(error)
        return None
    try:
        whole = b""
        while block := os.read(descriptor, 64 << 10):
            whole += block
        return whole.decode()
    except OSError as error:
        _unless_gone(error)
        return None
    finally:
        os.close(descriptor)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _unless_gone(error: OSError) -> None:
    """Raise the error again when it says anything but that the group or the file is not there."""
    if error.errno not in _GONE:
        raise error
