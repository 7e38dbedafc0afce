"""How an attempt may end: its class decides what happens next, never the exit code alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Then = Literal["done", "retry", "fail", "block", "park", "cancel", "interrupt", "release"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether the attempt counts against `max_attempts`, and where the quest goes."""

    charged: bool
    then: Then


CLASSES: Final[dict[str, Rule]] = {
    "ok": Rule(True, "done"),
    "failed": Rule(True, "retry"),
    "timeout": Rule(True, "retry"),
    "start_timeout": Rule(True, "retry"),
    "idle": Rule(True, "retry"),
    "protocol": Rule(True, "retry"),
    "no_result": Rule(True, "retry"),
    "verify": Rule(True, "retry"),
    "output_limit": Rule(True, "retry"),
    "oom": Rule(True, "retry"),
    "context_overflow": Rule(True, "retry"),
    "max_turns": Rule(True, "block"),
    "refused": Rule(True, "block"),
    "budget": Rule(False, "block"),
    "blocked": Rule(False, "block"),
    "limit": Rule(False, "park"),
    "transient": Rule(True, "retry"),
    "auth": Rule(False, "block"),
    "billing": Rule(False, "block"),
    "bad_config": Rule(False, "fail"),
    "cancelled": Rule(False, "cancel"),
    "interrupted": Rule(False, "interrupt"),
    "lost": Rule(False, "interrupt"),
    "released": Rule(False, "release"),
}

# What the journal's own `outcome` column calls each consequence: it knows four values.
OUTCOMES: Final[dict[Then, str]] = {
    "done": "done",
    "retry": "failed",
    "fail": "failed",
    "block": "interrupted",
    "park": "interrupted",
    "cancel": "cancelled",
    "interrupt": "interrupted",
    "release": "interrupted",
}
