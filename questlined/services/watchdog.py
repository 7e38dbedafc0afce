"""The watchdog: feeds systemd's only while the loop, the writer and every service come round.

Each period it wakes all of them; one that waits for hours is thereby proven alive, and one that hangs is not covered
up. Sent from the loop, so that a loop that hangs is seen, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from questlined.services.service import Service, Wake
from questlined.sysd.notify import Notifier
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)


class Watchdog:
    """`services` by name; `touch_store` returns when the writer has come round."""

    def __init__(
        self,
        notifier: Notifier,
        services: Mapping[str, Service],
        touch_store: Callable[[], Awaitable[object]],
        store_busy: Callable[[], bool],
    ) -> None:
        self._notifier, self._services, self._touch = notifier, services, touch_store
        self._store_busy = store_busy
        self.wake = Wake()

    async def run(self, started: Callable[[], None]) -> None:
        """Feed every WatchdogSec/3; without a watchdog, wait for ever."""
        started()
        if self._notifier.watchdog_ms is None:
            await asyncio.Event().wait()
            return
        period_s = self._notifier.watchdog_ms / 3000
        before = dict.fromkeys(self._services, -1)
        while True:
            late = [name for name, service in self._services.items() if service.wake.rounds <= before[name]]
            before = {name: service.wake.rounds for name, service in self._services.items()}
            for service in self._services.values():
                service.wake.set()
            try:
                async with asyncio.timeout(period_s):
                    await self._touch()
            except TimeoutError:
                late.append("writer")
            except (StoreFull, Unavailable):
                pass  # it came round; that nothing can be written is no fault that a restart would mend
            if late and self._store_busy():
                late = []  # the writer tries again and again for another program's lock, and they all wait for it
            if late:
                fields = {"QUESTLINE_EVENT": "watchdog_late"}
                log.error("the watchdog is not fed: %s did not come round", ", ".join(late), extra={"fields": fields})
            else:
                self._notifier.watchdog()
            await asyncio.sleep(period_s)
