"""A program that was started for an attempt, as the attempt sees it: a process of ours, or a unit of systemd's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from questlined.attempts.output import Files
from questlined.procs.child import Child, Exit, Trace
from questlined.procs.family import Family
from questlined.procs.unit_order import Order
from questlined.store.rows import OpenRun


class Execution(Protocol):
    """One started program and all that comes of it. Everything is called on the loop's thread."""

    @property
    def survives(self) -> bool:
        """Whether it goes on without the daemon."""
        ...

    @property
    def trace(self) -> Trace:
        """Who it is."""
        ...

    @property
    def exited(self) -> asyncio.Event:
        """Set when the program itself has ended, or was let go."""
        ...

    @property
    def stuck(self) -> list[int]:
        """Processes that were killed and live on."""
        ...

    async def take_down(self, grace_s: float, *, at_once: bool = False) -> None:
        """The ladder: SIGTERM to all of it, SIGKILL to all of it after `grace_s`; returns when it has exited."""
        ...

    async def sweep(self, keep: bool) -> None:
        """After the exit: returns when nothing of it lives any more, or with `keep` at once."""
        ...

    async def reap(self) -> Exit:
        """How it ended. After the sweep, once."""
        ...

    def let_go(self) -> None:
        """Watch it no more and touch nothing of it; `exited` is set for who waits."""
        ...


class Units(Protocol):
    """Attempts as transient units. `trouble` is why none can be had, `hint` the remedy; None if all is well."""

    trouble: str | None

    @property
    def hint(self) -> str: ...

    async def start(self, order: Order) -> Execution:
        """Start one whose files are staged. Raises Unfit, OSError and Unavailable; nothing of it runs then."""
        ...

    async def find(self, run: OpenRun, marker: str, directory: Path) -> Execution | None:
        """The unit of an attempt that was left open: it runs, or there is a record of its end. None where there is
        neither. Raises Unavailable where that cannot be told now."""
        ...

    async def stop_strays(self, markers: Collection[str]) -> list[str]:
        """Stop every attempt's unit of this store but those with these markers; the units that were stopped. Raises
        Unavailable."""
        ...

    def close(self) -> None:
        """Let go of all; units that run go on."""
        ...


@dataclass(frozen=True, slots=True)
class Process:
    """A child of ours."""

    family: Family
    child: Child
    survives: bool = field(default=False, init=False)

    @property
    def trace(self) -> Trace:
        return Trace(self.child.pid, self.child.started, self.child.cgroup)

    @property
    def exited(self) -> asyncio.Event:
        return self.child.exited

    @property
    def stuck(self) -> list[int]:
        return self.child.stuck

    async def take_down(self, grace_s: float, *, at_once: bool = False) -> None:
        await self.family.take_down(self.child, grace_s, at_once=at_once)

    async def sweep(self, keep: bool) -> None:
        await self.family.sweep(self.child, keep)

    async def reap(self) -> Exit:
        return self.family.reap(self.child)

    def let_go(self) -> None:
        self.child.exited.set()


@dataclass(frozen=True, slots=True)
class Left:
    """An attempt's program that runs on, from the daemon that let it go to the one that adopts it.

    `files` and `sources` (read ends of the pipes that stdout and stderr are, by name) where they are handed over with
    it: else the files are opened again, and there are no pipes. `beyond`: a person ran it, it takes no slot. `stopped`:
    why its end was asked for already; `unkept`: why its output is not whole."""

    execution: Execution
    files: Files | None = None
    sources: Mapping[str, int] = field(default_factory=dict)
    beyond: bool = False
    stopped: str | None = None
    unkept: OSError | None = None
