"""What a program that goes on with a family of processes after an exec must know: what the kernel does not keep."""

from __future__ import annotations

from dataclasses import dataclass

from questlined.procs.child import Child


@dataclass(frozen=True, slots=True)
class HandedChild:
    """A spawned process, living or a zombie. `pidfd` is open in whoever has this."""

    pid: int
    pidfd: int
    started: int
    marker: str
    cgroup: str | None = None
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Handing:
    """The children, and what attempts with `keep_children` left running on purpose."""

    children: tuple[HandedChild, ...] = ()
    kept_sessions: tuple[int, ...] = ()
    kept_markers: tuple[str, ...] = ()


def handed(child: Child) -> HandedChild:
    """A child as it is handed over."""
    return HandedChild(child.pid, child.pidfd, child.started, child.marker, child.cgroup, child.terminating)
