"""Programs as transient units of the manager that this user has, where there is one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from questlined.procs import unit_order
from questlined.procs.spawn import Command
from questlined.procs.systemd import Property
from questlined.procs.unit import Unit
from questlined.procs.unit_order import Order
from questlined.procs.units import Units, address

GRACE_S = 1000.0
STORE = "22222222-3333-4444-5555-666666666666"


@dataclass
class AsUnits:
    """Each program is a unit, its files in a directory of their own below `folder`."""

    units: Units
    folder: Path
    tells_all_apart: bool = True
    adds: frozenset[str] = frozenset()
    any_value: bool = False
    started: list[Unit] = field(default_factory=list)

    async def start(self, command: Command, marker: str, name: str, properties: tuple[Property, ...] = ()) -> Unit:
        directory = self.folder / name
        directory.mkdir(exist_ok=True)
        quest, _, generation = name.rpartition("-")
        unit_name = unit_order.name_of(quest, int(generation))
        order = Order(unit_name, marker, command, directory, GRACE_S, properties)
        unit_order.stage(order)
        try:
            self.started.append(await self.units.start(order))
        finally:
            unit_order.unstage(directory)
        return self.started[-1]

    def limit_memory(self, execution: Unit, limit_bytes: int) -> None:
        if execution.cgroup is None or not Path(execution.cgroup, "memory.max").exists():
            pytest.skip("the kernel has no memory controller for this unit")
        Path(execution.cgroup, "memory.max").write_text(str(limit_bytes))


def manager() -> str:
    """The bus of this user's manager, of the system's for root. Skips where there is none."""
    bus = address(os.environ, os.geteuid())
    if not Path(bus).exists() or not Path("/run/systemd/system").exists():
        pytest.skip(f"no systemd to start units with: {bus}")
    return bus


@asynccontextmanager
async def by_unit(folder: Path) -> AsyncIterator[AsUnits]:
    """A transient unit each. What still lives is killed in the end."""
    way = AsUnits(Units(STORE, manager(), os.geteuid()), folder)
    try:
        yield way
    finally:
        for unit in way.started:
            await unit.take_down(0, at_once=True)
            await unit.sweep()
            await unit.reap()
        way.units.close()
