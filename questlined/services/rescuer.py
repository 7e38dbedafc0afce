"""The rescuer: settles outside leases that ran out, and keeps leases right when the machine sleeps or its clock jumps.

It also looks for project paths that are back, and turns the safety net: every NET_S it looks for leases, wakes the
scheduler and forgets old answers. Timers of the loop stand still during suspend, so no sleep is longer than TICK_S; a
tick with no lease held outside and no path missing compares the clocks and asks nothing of the store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from questlined import probes
from questlined.attempts import index
from questlined.attempts.runtime import Runtime
from questlined.clock import Clock
from questlined.services.service import Complaint, Wake
from questlined.store.changes import Changes
from questlined.store.protocol import REQUEST_KEPT_MS, Reclaim
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)
TICK_S = 30.0
ANSWER_S = 1.0
NET_S = 300.0
LATE_S = 0.25
HEARD_S = 1.0
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
        suspended = (self.boot_ms - before.boot_ms) - (self.monotonic_ms - before.monotonic_ms)
        return (suspended if suspended >= JUMP_MS else 0) + self.step_since(before)

    def fresh_since(self, before: Reading) -> int:
        """From which moment of the wall clock on something was written after a jump. Where a step back makes that
        doubtful, it is taken for fresh: a lease that lives longer does less harm than one that is reclaimed."""
        passed = self.monotonic_ms - before.monotonic_ms
        unmoved = before.wall_ms + passed
        return unmoved + 1 if self.wall_ms > unmoved else self.wall_ms - passed

    def step_since(self, before: Reading) -> int:
        """By how much the wall clock was set; 0 below JUMP_MS."""
        stepped = (self.wall_ms - before.wall_ms) - (self.boot_ms - before.boot_ms)
        return stepped if abs(stepped) >= JUMP_MS else 0


def ask_for_directory(path: str) -> asyncio.Future[bool]:
    """Whether `path` is a directory, from a thread of its own, which may hang for ever on a dead mount."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def ask() -> None:
        found = os.path.isdir(path)
        try:
            loop.call_soon_threadsafe(answer.set_result, found)
        except RuntimeError:  # the loop is closed: nobody asks any more
            return

    threading.Thread(target=ask, name="path", daemon=True).start()
    return answer


class Rescuer:
    """One loop for all that must be looked at now and then."""

    def __init__(self, runtime: Runtime, changes: Changes, tick: Callable[[], None]) -> None:
        self._runtime, self._tick = runtime, tick
        self.wake = Wake()
        self._reading = Reading.of(runtime.clock)
        self._leases_owed = self._retries_owed = 0  # ms by which they must still move
        self._fresh_since = 0  # what was written from then on was written after that jump
        self._net_ms = runtime.clock.monotonic_ms()
        self._moved = True  # whether an outside lease may have been made or moved since the last look
        self._expiry: int | None = None  # when the next one runs out
        self._asked: dict[str, asyncio.Future[bool]] = {}  # looks under way
        self._missing = True  # whether a project's path may be missing
        self._hindered = Complaint(log, "leases could not be looked after")
        self.forgetting: asyncio.Task[None] | None = None  # of records, beside the loop
        changes.on_leases.append(self._leases_moved)
        changes.on_paths.append(self._path_gone)

    async def run(self, started: Callable[[], None]) -> None:
        """Look, and sleep until the next lease runs out or the net is due."""
        started()
        while True:
            if probes.armed:
                await probes.round_begins("rescuer.round")
            sleep_s = TICK_S
            try:
                await self._follow_clocks()
                if self._runtime.clock.monotonic_ms() - self._net_ms >= NET_S * 1000:
                    await self._turn_net()
                if self._missing:
                    await self._look_for_paths()
                sleep_s = await self._expire()
                self._hindered.over()
            except (StoreFull, Unavailable) as error:
                self._moved = self._missing = True
                self._hindered.because(error)
            await self._sleep(sleep_s)

    async def _sleep(self, sleep_s: float) -> None:
        """Until woken or `sleep_s` has passed. A process that was stopped comes back late: heartbeats that were sent
        to it meanwhile are taken before any lease is looked at."""
        loop = asyncio.get_running_loop()
        due = loop.time() + sleep_s
        await self.wake.wait(sleep_s)
        late_s = loop.time() - due
        if late_s >= LATE_S:
            log.warning("the daemon stood still for %.1f s: who knocked meanwhile is heard first", late_s)
            await asyncio.sleep(HEARD_S)

    async def _follow_clocks(self) -> None:
        """Move every lease by what the clocks jumped, before anything is reclaimed. What the store does not take now
        is owed to it: nothing is moved twice."""
        now, store = Reading.of(self._runtime.clock), self._runtime.store
        if not self._leases_owed and not self._retries_owed:
            self._fresh_since = now.fresh_since(self._reading)
        self._leases_owed += now.jump_since(self._reading)
        self._retries_owed += now.step_since(self._reading)
        self._reading = now
        if not self._leases_owed and not self._retries_owed:
            return
        fresh = (self._fresh_since, now.wall_ms)
        if self._leases_owed:
            log.warning("the machine slept or its clock was set: leases move by %d ms", self._leases_owed)
            await store.shift_leases(self._leases_owed, fresh)
            self._leases_owed = 0
        if self._retries_owed:
            await store.shift_retries(self._retries_owed, fresh)
            self._retries_owed = 0
        self._tick()  # time gates may be open by now

    def _leases_moved(self) -> None:
        self._moved = True
        self.wake.set()

    def _path_gone(self) -> None:
        self._missing = True

    async def _expire(self) -> float:
        """Settle what has run out; seconds to sleep until the next lease does."""
        runtime, now = self._runtime, self._runtime.clock.wall_ms()
        if self._moved or (self._expiry is not None and self._expiry <= now):
            self._moved = False  # before the look: one that moves meanwhile is looked at again
            fail = runtime.config.on_lease_loss == "fail"
            while await runtime.store.expire(
                Reclaim(now, runtime.chance(), runtime.config.policy, runtime.config.limits, fail)
            ):
                pass
            self._expiry = await runtime.store.next_expiry()
        if self._expiry is None:
            return TICK_S
        return max(0.0, min(TICK_S, (self._expiry - now) / 1000))

    async def _look_for_paths(self) -> None:
        runtime = self._runtime
        self._missing = False  # before the look, likewise
        for key, path in await runtime.store.missing_paths():
            if await self._is_there(path):
                log.warning("the path of project %s is back: %s", key, path)
                await runtime.store.path_missing(key, False)
            else:
                self._missing = True

    async def _is_there(self, path: str) -> bool:
        """Whether the path is a directory. A dead mount does not answer: it is asked once, in a thread of its own, and
        nobody waits for it longer than ANSWER_S."""
        if path not in self._asked:
            self._asked[path] = ask_for_directory(path)
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await asyncio.shield(self._asked[path])
        except TimeoutError:
            return False
        del self._asked[path]
        return found

    async def _forget_records(self) -> None:
        """Delete a page of indexes whose time is over: the files, then what is known of them. Their disk may hang, and
        leases do not wait for it."""
        runtime = self._runtime
        try:
            old = await runtime.store.old_records(runtime.clock.wall_ms() - runtime.config.records_keep_ms)
            if old:
                await runtime.disk.do(lambda: index.remove([Path(each.path) for each in old]))
                await runtime.store.forget_records(old)
        except (StoreFull, Unavailable) as error:
            log.warning("old records could not be deleted: %s, ignoring", error)

    async def _turn_net(self) -> None:
        runtime = self._runtime
        self._net_ms = runtime.clock.monotonic_ms()
        self._moved = self._missing = True
        while await runtime.store.forget_requests(runtime.clock.wall_ms() - REQUEST_KEPT_MS):
            pass  # a page each, so that others have their turn
        if self.forgetting is None or self.forgetting.done():
            self.forgetting = runtime.aside(self._forget_records())
        self._tick()
