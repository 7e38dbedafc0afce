"""Why a quest does not run yet: every closed gate, and when it opens where that is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# Bits of buckets.closed: they bind every claim.
LANE, PAUSED, PARKED, ARCHIVED, BUDGET = 1, 2, 4, 8, 16
# Bits of buckets.closed_daemon: they bind the daemon's own claims only.
ROLE_FULL, PROJECT_FULL, PATH_MISSING = 1, 2, 4


# Gates that a person may pass by: they are about when the daemon would run it by itself.
PASSED = frozenset(
    {"not-before", "backoff", "paused", "role-concurrency", "project-concurrency", "concurrency", "disk"}
)


@dataclass(frozen=True, slots=True)
class Gate:
    """One closed gate. `opens_at` is epoch milliseconds, None where it depends on something other than time."""

    gate: str
    detail: str
    opens_at: int | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """All that decides whether a waiting quest may run, read in one snapshot."""

    now: int
    scheduled_at: int
    retry_at: int | None
    external: bool
    lane: str | None
    role: str
    project: str
    path: str | None
    closed: int
    closed_daemon: int
    daemon_paused: str | None  # reason, "" without one, None when not paused
    project_paused: str | None
    waiting_for: tuple[tuple[str, str], ...] = ()  # (dependency, its state), a first few
    unmet: int = 0
    lane_holders: tuple[str, ...] = ()
    running_here: int = 0
    max_concurrent: int = 0
    role_concurrency: Mapping[str, int] = field(default_factory=dict)
    project_concurrency: int | None = None
    disk_low: str | None = None


def closed_gates(at: Situation) -> Iterator[Gate]:
    """Every closed gate, those about the quest itself first."""
    if at.unmet:
        shown = ", ".join(f"{quest} ({state})" for quest, state in at.waiting_for)
        more = at.unmet - len(at.waiting_for)
        yield Gate("dependency", f"waits for {shown}" + (f" and {more} more" if more > 0 else ""))
    if at.scheduled_at > at.now:
        yield Gate("not-before", "not before its time", at.scheduled_at)
    if at.retry_at is not None and at.retry_at > at.now:
        yield Gate("backoff", "waits before the next attempt", at.retry_at)
    if at.external:
        yield Gate("external", "the daemon leaves it to a claim from outside")
    yield from _shared_gates(at)
    yield from _daemon_gates(at)


def binding(at: Situation) -> list[Gate]:
    """The closed gates that hold a quest which a person wants to run at once."""
    return [gate for gate in closed_gates(at) if gate.gate not in PASSED]


def _shared_gates(at: Situation) -> Iterator[Gate]:
    """Gates that bind every claim."""
    if at.closed & LANE:
        yield Gate("lane", f"lane {at.lane} is held by {', '.join(at.lane_holders) or 'another quest'}")
    if at.project_paused is not None:
        yield Gate("paused", f"project {at.project} is paused" + _because(at.project_paused))
    if at.daemon_paused is not None:
        yield Gate("paused", "the whole daemon is paused" + _because(at.daemon_paused))
    if at.closed & ARCHIVED:
        yield Gate("archived", f"project {at.project} is archived")
    if at.closed & PARKED:
        yield Gate("parked", "its provider's limit is reached")
    if at.closed & BUDGET:
        yield Gate("budget", "a budget is spent")


def _daemon_gates(at: Situation) -> Iterator[Gate]:
    """Gates that bind the daemon's own claims, and say nothing of a claim from outside."""
    if at.external:
        return
    if at.path is None:
        yield Gate("path", f"project {at.project} has no path yet")
    elif at.closed_daemon & PATH_MISSING:
        yield Gate("path", f"{at.path} is not there or no directory; it is looked for again every 30 s")
    if at.closed_daemon & ROLE_FULL:
        yield Gate("role-concurrency", f"{at.role}: {at.role_concurrency.get(at.role)} run already")
    if at.closed_daemon & PROJECT_FULL:
        yield Gate("project-concurrency", f"{at.project_concurrency} of this project run already")
    if at.max_concurrent and at.running_here >= at.max_concurrent:
        yield Gate("concurrency", f"{at.running_here} of scheduler.max_concurrent = {at.max_concurrent} run already")
    if at.disk_low is not None:
        yield Gate("disk", at.disk_low)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
