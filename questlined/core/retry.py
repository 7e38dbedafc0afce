"""What an attempt's end makes of its quest: backoff, refunds, the bound on interruptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from questlined.core.classes import CLASSES
from questlined.core.states import NEXT, Event, State

FailureKind = Literal["execution", "dependency", "interrupted"]

_EVENTS: dict[str, Event] = {
    "done": "succeed",
    "fail": "reject",
    "block": "block",
    "park": "park",
    "cancel": "cancel",
    "release": "release",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that the end of an attempt needs."""

    backoff_cap_ms: int = 3_600_000
    backoff_jitter: float = 0.1
    max_interruptions: int = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """A running quest's counters. `max_attempts` 0 is unbounded and is never raised."""

    attempts: int
    max_attempts: int
    refunds: int
    interruptions: int
    backoff_base_ms: int

    @property
    def charged(self) -> int:
        """Attempts that count, this one included."""
        return self.attempts - self.refunds

    @property
    def exhausted(self) -> bool:
        """Whether no charged attempt is left."""
        return self.max_attempts > 0 and self.attempts >= self.max_attempts


@dataclass(frozen=True, slots=True)
class Settlement:
    """The quest after the attempt. `retry_at` is epoch milliseconds, None for at once."""

    event: Event
    state: State
    max_attempts: int
    refunds: int
    interruptions: int
    retry_at: int | None = None
    failure_kind: FailureKind | None = None


def backoff_ms(base_ms: int, charged: int, policy: Policy, chance: float) -> int:
    """base × 2^(charged−1), capped, ± the jitter's share. `chance` is uniform in [0, 1)."""
    doublings = min(max(charged - 1, 0), 62)  # past the cap whatever the base; keeps the number small
    raw = min(base_ms << doublings, policy.backoff_cap_ms)
    return max(0, round(raw * (1 + policy.backoff_jitter * (2 * chance - 1))))


def settle(
    standing: Standing, klass: str, *, now: int, chance: float, policy: Policy, until: int | None = None
) -> Settlement:
    """The quest's next state for an attempt that ended as `klass`. `until` is when a park ends."""
    rule = CLASSES[klass]
    refund = 0 if rule.charged else 1
    max_attempts = standing.max_attempts + refund if standing.max_attempts else 0
    refunds = standing.refunds + refund
    event: Event
    retry_at: int | None = None
    kind: FailureKind | None = None
    interruptions = standing.interruptions
    if rule.then == "retry":
        event = "fail" if standing.exhausted else "requeue"
        if event == "requeue":
            retry_at = now + backoff_ms(standing.backoff_base_ms, standing.charged, policy, chance)
        kind = "execution"
    elif rule.then == "interrupt":
        interruptions += 1
        event = "exhaust" if interruptions > policy.max_interruptions else "interrupt"
        kind = "interrupted" if event == "exhaust" else None
    else:
        event = _EVENTS[rule.then]
        retry_at = until if rule.then == "park" else None
        kind = "execution" if rule.then == "fail" else None
    return Settlement(event, NEXT["running", event], max_attempts, refunds, interruptions, retry_at, kind)
