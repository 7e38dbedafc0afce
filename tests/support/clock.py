"""A clock that moves only when told."""

from __future__ import annotations


class ManualClock:
    """Starts at a round time; `advance` moves all three clocks, `step` the wall clock, `sleep` all but monotonic."""

    def __init__(self, wall_ms: int = 1_800_000_000_000) -> None:
        self._wall, self._boot, self._monotonic = wall_ms, 50_000, 50_000

    def wall_ms(self) -> int:
        return self._wall

    def boot_ms(self) -> int:
        return self._boot

    def monotonic_ms(self) -> int:
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Time passes."""
        self._wall += ms
        self._boot += ms
        self._monotonic += ms

    def step(self, ms: int) -> None:
        """Somebody sets the wall clock."""
        self._wall += ms

    def suspend(self, ms: int) -> None:
        """The machine sleeps."""
        self._wall += ms
        self._boot += ms
