"""A spawned process group while we hold it, and how it ended."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended: an exit code or a signal. The figures hold it and what it waited for itself.

    `peak_memory_bytes` is the largest single process, None (unknown) where that was not above the daemon's own size:
    the kernel counts the memory of the moment before exec, which is the daemon's. With a cgroup of its own the figures
    are of all that ever ran in it, and `oom` says that the kernel killed some of it for want of memory.
    `not_executed`: the kernel refused the program (its interpreter is not there, say), and the code is the launcher's.
    `timed_out`: it ran longer than its unit may (RuntimeMaxSec=). `stopped`: systemd was asked to stop its unit.
    """

    code: int | None
    signal: int | None
    peak_memory_bytes: int | None
    cpu_ms: int
    oom: bool = False
    not_executed: bool = False
    timed_out: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """What is to be known of a started program to find it again. `started` is in clock ticks since boot."""

    pid: int
    started: int
    cgroup: str | None = None
    unit: str | None = None


@dataclass(eq=False, slots=True)
class Child:
    """A process of ours, leader of its own session and group, not reaped before its sweep.

    `started` is in clock ticks since boot. `cgroup` is the directory of its cgroup, where it has one of its own.
    `exited` is set when it has ended (it stays a zombie until `reap`). `stuck` names processes of this attempt that do
    not die although killed, while somebody waits for them.
    """

    pid: int
    pidfd: int
    started: int
    marker: str
    popen: subprocess.Popen[bytes] | None = field(default=None, repr=False)  # None: an earlier daemon started it
    exited: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    stuck: list[int] = field(default_factory=list)
    cgroup: str | None = None
    terminating: bool = False
    swept: bool = False
    reaped: bool = False
