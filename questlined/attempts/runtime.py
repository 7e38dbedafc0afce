"""What all attempts of one daemon share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from questlined.attempts.disk import Disk
from questlined.attempts.records import Records
from questlined.clock import Clock
from questlined.config.shape import Config
from questlined.procs.family import Family
from questlined.procs.pump import Pump
from questlined.procs.watch import Watch
from questlined.store.protocol import Store


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
    undying: dict[str, list[int]] = field(default_factory=dict)  # quest → processes of an earlier daemon that live on
    disk: Disk = field(default_factory=Disk)
    records: Records = field(init=False)

    def __post_init__(self) -> None:
        self.records = Records(self.tasks, self.clock, self.watch, self.disk, self.artifacts)
