"""The calendar: enqueues what recurrences have due, at its moment.

It sleeps until the next rule is due, and is woken where a rule or what holds it has changed. A timer of the loop stands
still during suspend and knows nothing of a wall clock that is set, so no sleep is longer than TICK_S while a rule is
enabled; a tick before the next moment asks nothing of the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from questlined import probes
from questlined.attempts.runtime import Runtime
from questlined.core import calendar, cron
from questlined.services.rescuer import Reading
from questlined.services.service import Complaint, Wake
from questlined.store.changes import Changes
from questlined.store.recurrences import Fire
from questlined.store.rows import DueRecurrence
from questlined.wire.errors import InvalidInput, LimitReached, NotFound, StoreFull, Unavailable

log = logging.getLogger(__name__)
TICK_S = 30.0
SEED_BYTES = 16
FIRST = (-1, "")  # before every rule


class Calendar:
    """One of the two drivers of recurrences; a timer unit is the other. `chance` gives random bytes."""

    def __init__(self, runtime: Runtime, changes: Changes, chance: Callable[[int], bytes]) -> None:
        self._runtime, self._chance = runtime, chance
        self.wake = Wake()
        self._reading = Reading.of(runtime.clock)
        self._set_back = True  # the clock may have been since the last look, also while no daemon was there
        self._moved = True  # whether a rule may have been made, changed or let go since the last look
        self._due: int | None = None  # when the next one is
        self._bad: set[tuple[str, str, str]] = set()  # rules of other programs that cannot be read, and were told
        self._hindered = Complaint(log, "recurring quests could not be enqueued")
        changes.on_rules.append(self._changed)

    def _changed(self) -> None:
        self._moved = True
        self.wake.set()

    async def run(self, started: Callable[[], None]) -> None:
        """Enqueue what is due, and sleep until the next."""
        started()
        while True:
            if probes.armed:
                await probes.round_begins("calendar.round")
            await self.wake.wait(await self._turn())

    async def _turn(self) -> float | None:
        """One look; seconds to sleep, None where nothing will be due by itself."""
        runtime = self._runtime
        now = Reading.of(runtime.clock)
        self._set_back = self._set_back or now.step_since(self._reading) < 0
        self._reading = now
        try:
            if self._set_back:
                await runtime.store.rewind_recurrences(now.wall_ms)
                self._set_back, self._moved = False, True
            if self._moved or (self._due is not None and self._due <= now.wall_ms):
                self._moved = False  # before the look: one that changes meanwhile is looked at again
                await self._enqueue(now.wall_ms)
                self._due = await runtime.store.next_occurrence(now.wall_ms)
            self._hindered.over()
        except (LimitReached, StoreFull, Unavailable) as error:
            self._moved = True
            self._hindered.because(error)
            return TICK_S
        if self._due is None:
            return None
        return max(0.0, min(TICK_S, (self._due - runtime.clock.wall_ms()) / 1000))

    async def _enqueue(self, now: int) -> None:
        """Fire every rule that is due. Raises LimitReached where the queue had no room for one, after all others."""
        runtime, after, full = self._runtime, FIRST, None
        while page := await runtime.store.due_recurrences(now, after):
            # A page at once, so that its rules share a transaction.
            refused = await asyncio.gather(*(self._fire(rule, now) for rule in page if self._readable(rule)))
            full = next(filter(None, refused), full)
            after = (page[-1].next_run_at, page[-1].id)
        if full is not None:
            raise full

    async def _fire(self, rule: DueRecurrence, now: int) -> LimitReached | None:
        config = self._runtime.config
        asked = Fire(rule.id, now, self._chance(SEED_BYTES), config.bounds.max_waiting, config.lanes)
        try:
            await self._runtime.store.fire(asked)
        except LimitReached as error:
            return error
        except (NotFound, InvalidInput):
            pass  # it was removed in this moment, or made one that cannot be read
        return None

    def _readable(self, rule: DueRecurrence) -> bool:
        """Whether it is a rule here. One that is not is told once; health names it."""
        try:
            cron.parse(rule.cron)
            calendar.zone(rule.timezone)
        except InvalidInput as error:
            if (what := (rule.id, rule.cron, rule.timezone)) not in self._bad:
                self._bad.add(what)
                log.warning("the recurring quest %s (%s): %s, ignoring", rule.name, rule.id, error)
            return False
        return True
