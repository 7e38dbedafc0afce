"""The state machine of a quest, as one table.

A quest is `queued`, is claimed and `running`, and ends `done`, `failed` or `cancelled`; `interrupted` is claimable
again; `blocked` waits for a person. The database's CHECKs refuse what this table forbids.
"""

from __future__ import annotations

from typing import Final, Literal

State = Literal["queued", "running", "interrupted", "blocked", "done", "failed", "cancelled"]
Event = Literal[
    "claim",
    "succeed",
    "requeue",
    "fail",
    "reject",
    "block",
    "interrupt",
    "exhaust",
    "release",
    "park",
    "adopt",
    "cancel",
    "answer",
    "retry",
    "dependency_failed",
]

STATES: Final[tuple[State, ...]] = ("queued", "running", "interrupted", "blocked", "done", "failed", "cancelled")
FINAL: Final[frozenset[str]] = frozenset({"done", "failed", "cancelled"})
EDITABLE: Final[frozenset[str]] = frozenset({"queued", "interrupted", "blocked"})
CLAIMABLE: Final[frozenset[str]] = frozenset({"queued", "interrupted"})

NEXT: Final[dict[tuple[State, Event], State]] = {
    ("queued", "claim"): "running",
    ("interrupted", "claim"): "running",
    ("running", "succeed"): "done",
    ("running", "requeue"): "queued",  # failed, attempts left
    ("running", "fail"): "failed",  # failed, none left
    ("running", "reject"): "failed",  # can never work: not retried
    ("running", "block"): "blocked",
    ("queued", "block"): "blocked",  # by a person
    ("interrupted", "block"): "blocked",
    ("running", "interrupt"): "interrupted",
    ("running", "exhaust"): "failed",  # interrupted once too often
    ("running", "release"): "queued",
    ("running", "park"): "queued",
    ("running", "adopt"): "running",
    ("running", "cancel"): "cancelled",
    ("queued", "cancel"): "cancelled",
    ("interrupted", "cancel"): "cancelled",
    ("blocked", "cancel"): "cancelled",
    ("blocked", "answer"): "queued",
    ("failed", "retry"): "queued",
    ("cancelled", "retry"): "queued",
    ("interrupted", "retry"): "queued",
    ("blocked", "retry"): "queued",
    ("queued", "dependency_failed"): "failed",
    ("interrupted", "dependency_failed"): "failed",
    ("blocked", "dependency_failed"): "failed",
}


def allowed(state: str, event: Event) -> bool:
    """Whether the table has this edge."""
    return (state, event) in NEXT


def sources(event: Event) -> tuple[str, ...]:
    """The states that `event` may leave, in the order of STATES."""
    return tuple(state for state in STATES if (state, event) in NEXT)
