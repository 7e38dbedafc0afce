"""What every service is: a loop that can be woken for no reason, and counts how often it came round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol


class Service(Protocol):
    """A loop. A spurious wake-up is always legal, which is how the watchdog proves a waiting service alive."""

    wake: Wake

    async def run(self, started: Callable[[], None]) -> None:
        """Serve until cancelled; call `started` once. A failure takes the daemon down, so that systemd restarts it."""
        ...


class Complaint:
    """A trouble that is met at each try and said once, until it is over."""

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log, self._what = log, what
        self._said = False

    def because(self, error: Exception) -> None:
        """It is met."""
        if not self._said:
            self._said = True
            self._log.warning("%s: %s, ignoring", self._what, error)

    def over(self) -> None:
        """It is not there: the next one is another."""
        self._said = False


class Wake:
    """A wake-up with a count of the rounds it began. `rounds` rises each time the loop comes to wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.rounds = 0

    def set(self) -> None:
        """Come round. Any number of calls before that are one."""
        self._event.set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Until woken or `timeout_s` has passed. What happened before this call counts."""
        self.rounds += 1
        if not self._event.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._event.wait()
            except TimeoutError:
                pass  # the safety net: the caller looks again
        self._event.clear()


class Looks:
    """A wake-up for a look at something that changes often: at most every `pace_s`, never while nothing changes."""

    def __init__(self, pace_s: float) -> None:
        self._pace_s = pace_s
        self.wake = Wake()
        self._dirty = True  # whether something changed since the last look; at first, whether it is as one left it
        self._next_s = 0.0

    def changed(self) -> None:
        """There is something to look at. Costs nothing where that is known already."""
        if not self._dirty:
            self._dirty = True
            self.wake.set()

    def hurry(self) -> None:
        """The next look need not wait for its time."""
        self._dirty, self._next_s = True, 0.0
        self.wake.set()

    async def due(self) -> None:
        """Until it is time for a look at something that changed. What changes after this call is for the next one."""
        now = asyncio.get_running_loop().time
        while True:
            await self.wake.wait(max(self._next_s - now(), 0.0) if self._dirty else None)
            if self._dirty and now() >= self._next_s:
                self._dirty, self._next_s = False, now() + self._pace_s
                return
