"""What all attempts of one daemon share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from questlined.clock import Clock
from questlined.config.shape import Config
from questlined.core.retry import Policy
from questlined.procs.family import Family
from questlined.procs.pump import Pump
from questlined.procs.watch import Watch
from questlined.store.protocol import Limits, Store


@dataclass(slots=True)
class Runtime:
    """The parts an attempt works with. `environ` is the daemon's own environment, `store_uuid` begins every marker."""

    store: Store
    store_uuid: str
    config: Config
    clock: Clock
    tasks: asyncio.TaskGroup
    family: Family
    pump: Pump
    watch: Watch
    boot_id: str
    artifacts: Path
    socket: str
    environ: Mapping[str, str]
    chance: Callable[[], float]

    @property
    def policy(self) -> Policy:
        """How attempts settle."""
        config = self.config
        return Policy(config.backoff_cap_ms, config.backoff_jitter, config.max_interruptions)

    @property
    def limits(self) -> Limits:
        """Concurrency of the daemon's own claims."""
        return Limits(self.config.role_concurrency, self.config.project_concurrency)
