"""The only reader of time. Everything else is handed a Clock, so that tests can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, boot time (which counts suspend) for leases, monotonic time for waiting."""

    def wall_ms(self) -> int:
        """Epoch milliseconds. May be stepped; only ever written down, never waited on."""
        ...

    def boot_ms(self) -> int:
        """Milliseconds since boot, suspend included. Never stepped."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of CLOCK_MONOTONIC, which stands still during suspend, as the event loop's timers do."""
        ...


class SystemClock:
    """The kernel's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
