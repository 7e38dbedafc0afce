"""A spawned process group while we hold it, and how it ended."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended: an exit code or a signal. The figures hold it and what it waited for itself.

    `peak_memory_bytes` is the largest single process, None (unknown) where that was not above the daemon's own size:
    the kernel counts the memory of the moment before exec, which is the daemon's.
    """

    code: int | None
    signal: int | None
    peak_memory_bytes: int | None
    cpu_ms: int


@dataclass(eq=False, slots=True)
class Child:
    """A process of ours, leader of its own session and group, not reaped before its sweep.

    `started` is in clock ticks since boot. `exited` is set when it has ended (it stays a zombie until `reap`).
    `stuck` names processes of this attempt that do not die although killed, while somebody waits for them.
    """

    pid: int
    pidfd: int
    started: int
    marker: str
    popen: subprocess.Popen[bytes] = field(repr=False)
    exited: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    stuck: list[int] = field(default_factory=list)
    terminating: bool = False
    swept: bool = False
