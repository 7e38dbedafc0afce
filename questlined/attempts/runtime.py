"""What all attempts of one daemon share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from questlined.attempts.disk import Disk
from questlined.attempts.execution import Units
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
    units: Units | None = None  # where attempts can be units
    records: Records = field(init=False)
    beside: set[asyncio.Task[None]] = field(default_factory=set)  # what may take for ever: given up at the daemon's end

    def __post_init__(self) -> None:
        self.records = Records(self.tasks, self.clock, self.watch, self.disk, self.artifacts)

    def aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do it beside everything else, until the daemon ends."""
        task = self.tasks.create_task(work)
        self.beside.add(task)
        task.add_done_callback(self.beside.discard)
        return task
