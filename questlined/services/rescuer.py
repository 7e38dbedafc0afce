"""The rescuer: settles outside leases that ran out, and keeps leases right when the machine sleeps or its clock jumps.

It also turns the safety net: every TICK_S it wakes the scheduler, looks for project paths that are back, and forgets
old answers. Timers of the loop stand still during suspend, so no sleep is longer than that.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from questlined.attempts.runtime import Runtime
from questlined.clock import Clock
from questlined.services.service import Wake
from questlined.store.changes import Changes
from questlined.store.protocol import REQUEST_KEPT_MS, Reclaim
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)
TICK_S = 30.0
JUMP_MS = 2000  # what clocks may drift apart between two looks without anything having happened


@dataclass(frozen=True, slots=True)
class Reading:
    """The three clocks at one moment."""

    wall_ms: int
    boot_ms: int
    monotonic_ms: int

    @classmethod
    def of(cls, clock: Clock) -> Reading:
        """Now."""
        return cls(clock.wall_ms(), clock.boot_ms(), clock.monotonic_ms())

    def jump_since(self, before: Reading) -> int:
        """By how much leases must move: the length of a suspend plus a step of the wall clock; 0 below JUMP_MS."""
        boot = self.boot_ms - before.boot_ms
        suspended = boot - (self.monotonic_ms - before.monotonic_ms)
        stepped = (self.wall_ms - before.wall_ms) - boot
        return (suspended if suspended >= JUMP_MS else 0) + (stepped if abs(stepped) >= JUMP_MS else 0)


class Rescuer:
    """One loop for all that must be looked at now and then."""

    def __init__(self, runtime: Runtime, changes: Changes, tick: Callable[[], None]) -> None:
        self._runtime, self._tick = runtime, tick
        self.wake = Wake()
        self._reading = Reading.of(runtime.clock)
        self._ticked_ms = runtime.clock.monotonic_ms()
        changes.on_leases.append(self.wake.set)

    async def run(self, started: Callable[[], None]) -> None:
        """Look, and sleep until the next lease runs out or the net is due."""
        started()
        while True:
            sleep_s = TICK_S
            try:
                await self._follow_clocks()
                await self._expire()
                sleep_s = await self._sleep_s()
                if self._runtime.clock.monotonic_ms() - self._ticked_ms >= TICK_S * 1000:
                    await self._turn_net()
            except (StoreFull, Unavailable) as error:
                log.warning("leases could not be looked after: %s, ignoring", error)
            await self.wake.wait(sleep_s)

    async def _follow_clocks(self) -> None:
        """Move every lease by what the clocks jumped, before anything is reclaimed."""
        now = Reading.of(self._runtime.clock)
        jump = now.jump_since(self._reading)
        if jump:
            log.warning("the machine slept or its clock was set: leases move by %d ms", jump)
            await self._runtime.store.shift_leases(jump)
        self._reading = now

    async def _expire(self) -> None:
        runtime = self._runtime
        fail = runtime.config.on_lease_loss == "fail"
        while await runtime.store.expire(
            Reclaim(runtime.clock.wall_ms(), runtime.chance(), runtime.config.policy, runtime.config.limits, fail)
        ):
            pass

    async def _sleep_s(self) -> float:
        expiry = await self._runtime.store.next_expiry()
        if expiry is None:
            return TICK_S
        return max(0.0, min(TICK_S, (expiry - self._runtime.clock.wall_ms()) / 1000))

    async def _turn_net(self) -> None:
        runtime = self._runtime
        self._ticked_ms = runtime.clock.monotonic_ms()
        for key, path in await runtime.store.missing_paths():
            if await asyncio.to_thread(os.path.isdir, path):
                log.warning("the path of project %s is back: %s", key, path)
                await runtime.store.path_missing(key, False)
        await runtime.store.forget_requests(runtime.clock.wall_ms() - REQUEST_KEPT_MS)
        self._tick()
