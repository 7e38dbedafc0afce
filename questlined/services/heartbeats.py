"""Heartbeats: pushes the leases of the daemon's own attempts out. Sleeps while nothing runs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from questlined import probes
from questlined.attempts.runtime import Runtime
from questlined.services.service import Complaint, Wake
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)


class Heartbeats:
    """`running` tells how many attempts there are; wake this service when the first one starts."""

    def __init__(self, runtime: Runtime, owner: str, running: Callable[[], int]) -> None:
        self._runtime, self._owner, self._running = runtime, owner, running
        self.wake = Wake()
        self._last_ms = 0
        self._late = Complaint(log, "leases were not extended")

    def busy(self) -> None:
        """An attempt has started. Its lease is fresh: only a loop that sleeps without end must hear of it."""
        if self._running() == 1:
            self.wake.set()

    async def run(self, started: Callable[[], None]) -> None:
        """Extend every `heartbeat` while something runs."""
        started()
        while True:
            if probes.armed:
                await probes.round_begins("heartbeats.round")
            period_ms = self._runtime.config.heartbeat_ms
            await self.wake.wait(period_ms / 1000 if self._running() else None)
            now_ms = self._runtime.clock.monotonic_ms()
            if self._running() and now_ms - self._last_ms >= period_ms // 2:
                self._last_ms = now_ms
                await self._extend()

    async def _extend(self) -> None:
        runtime = self._runtime
        try:
            await runtime.store.extend_own(self._owner, runtime.clock.wall_ms(), runtime.config.lease_ttl_ms)
            self._late.over()
        except (StoreFull, Unavailable) as error:
            # The daemon's own attempts end with its lock and not by time, so nothing is lost by a late heartbeat.
            self._late.because(error)
