"""Concurrency of the daemon's own attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """How many of the daemon's own attempts may run: of a role, and of one project (None: no bound)."""

    role: Mapping[str, int] = field(default_factory=dict)
    project: int | None = None


NO_LIMITS = Limits()
