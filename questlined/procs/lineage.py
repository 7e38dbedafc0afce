"""Whose is an orphan? Pure: decided from what can be seen of it and which attempts there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol


class Attempt(Protocol):
    """What is known of a spawned leader; a Child is one."""

    @property
    def pid(self) -> int: ...
    @property
    def started(self) -> int: ...
    @property
    def marker(self) -> str: ...
    @property
    def cgroup(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Trace:
    """What can be seen of a process: its session, start in clock ticks, and marker (None: absent or unreadable).

    `cgroup` is the attempt's group that it is in, None where it is in none. Where there is one, it alone decides."""

    session: int
    started: int
    marker: str | None
    cgroup: str | None = None


@dataclass(slots=True)
class Kept:
    """What attempts with `keep_children` left running on purpose."""

    markers: set[str] = field(default_factory=set)
    sessions: set[int] = field(default_factory=set)

    def holds(self, trace: Trace) -> bool:
        return trace.session in self.sessions or trace.marker in self.markers


def surely_of(trace: Trace, attempt: Attempt) -> bool:
    """Whether cgroup, or session or marker say so. The session's number cannot be reused while its leader is not
    reaped."""
    if trace.cgroup is not None:
        return trace.cgroup == attempt.cgroup
    return trace.session == attempt.pid or (bool(attempt.marker) and trace.marker == attempt.marker)


def falls_to(trace: Trace, ending: Attempt, others: Iterable[Attempt], kept: Kept) -> bool:
    """Whether an orphan is to end with `ending`, while `others` are held, too.

    Its session decides, then its marker. One that neither ties to an attempt that is held falls to whichever ends
    first, unless it was kept on purpose or is older than `ending`.
    """
    if trace.cgroup is not None:
        return trace.cgroup == ending.cgroup
    others = list(others)
    if trace.session == ending.pid:
        return True
    if any(trace.session == other.pid for other in others):
        return False
    if surely_of(trace, ending):
        return True
    if kept.holds(trace) or any(surely_of(trace, other) for other in others):
        return False
    return trace.started >= ending.started or _same_store(trace.marker, ending.marker)


def _same_store(one: str | None, other: str) -> bool:
    """Whether both markers are of one store: such an orphan's attempt has ended before, whenever it started."""
    return one is not None and ":" in other and one.partition(":")[0] == other.partition(":")[0]
