"""The parts that attempts and services work with, real ones, in the test's own process."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from questlined.attempts.runtime import Runtime
from questlined.clock import Clock, SystemClock
from questlined.config.load import from_text
from questlined.operations.context import Context, Daemon
from questlined.procs.family import Family
from questlined.procs.procfs import boot_id
from questlined.procs.pump import Pump
from questlined.procs.watch import Watch
from questlined.services.service import Service
from questlined.store.changes import Changes
from questlined.store.effects import Effects
from questlined.store.protocol import Add, Claim, Claimed, ProjectRef
from questlined.store.sqlite.store import SqliteStore
from tests.support.clock import ManualClock
from tests.support.daemon import SHELL
from tests.support.stores import Bench

PATIENCE_S = 30


@dataclass(slots=True)
class Parts:
    """A runtime on a real store. `bench` fills the store, `seen` has every batch's effects."""

    runtime: Runtime
    changes: Changes
    bench: Bench
    project: ProjectRef
    seen: list[Effects]
    serving: list[asyncio.Task[None]]

    async def serve(self, service: Service) -> None:
        """Run a service until the test ends; returns when it has come round once, and waits."""
        self.serving.append(self.runtime.tasks.create_task(service.run(lambda: None)))
        await self.rounds(service, 1)

    async def rounds(self, service: Service, number: int) -> None:
        """Returns when a service waits for the `number`th time."""
        while service.wake.rounds < number:  # noqa: ASYNC110  a count and no event
            await asyncio.sleep(0)

    async def turn(self, service: Service) -> None:
        """Wake a service, and return when it has come round from here. The first round may have begun before."""
        for _ in range(2):
            before = service.wake.rounds
            service.wake.set()
            await self.rounds(service, before + 1)

    async def add(self, task: str = "true", **fields: object) -> str:
        """A quest of the project; its id."""
        quest = self.bench.quest(project=self.project.key, task=task, **fields)
        request = Add(self.project, (quest,), self.runtime.clock.wall_ms(), max_waiting=1000)
        return (await self.runtime.store.add(request))[0]

    def context(self) -> Context:
        """What operations are given, without a daemon to ask."""
        run = self.runtime
        nothing = cast(Daemon, None)
        return Context(run.store, run.config, run.clock, self.changes, nothing, os.urandom, random.random, run.records)

    async def claim(self, owner: str = "daemon-1") -> Claimed:
        """The best quest, claimed as the daemon."""
        claim = Claim(owner, self.runtime.clock.wall_ms(), 120_000, own=True, limits=self.runtime.config.limits)
        return (await self.runtime.store.claim(claim))[0]


@asynccontextmanager
async def parts(
    folder: Path,
    config: str = "",
    clock: Clock | None = None,
    *,
    base: str = SHELL,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[Parts]:
    """All of them, started. Services are cancelled at the end."""
    clock = clock or SystemClock()
    changes, seen, serving = Changes(), list[Effects](), list[asyncio.Task[None]]()

    def publish(effects: Effects) -> None:
        seen.append(effects)
        changes.publish(effects)

    project = folder / "project"
    project.mkdir(exist_ok=True)
    store = await SqliteStore.open(folder / "quests.sqlite", clock, publish)
    try:
        async with asyncio.timeout(patience_s), asyncio.TaskGroup() as tasks:
            runtime = Runtime(
                store=store,
                store_uuid=store.uuid,
                config=from_text(base + config),
                clock=clock,
                tasks=tasks,
                family=Family(),
                pump=Pump(),
                watch=Watch(),
                boot_id=boot_id(),
                artifacts=folder / "artifacts",
                socket=str(folder / "no.sock"),
                environ=dict(os.environ),
                chance=lambda: 0.5,
            )
            runtime.artifacts.mkdir(exist_ok=True)
            runtime.family.start()
            runtime.pump.start()
            bench = Bench(store, clock if isinstance(clock, ManualClock) else ManualClock(), seen)
            try:
                yield Parts(runtime, changes, bench, ProjectRef(str(project), None, str(project)), seen, serving)
            finally:
                for task in serving:
                    task.cancel()
    finally:
        runtime.watch.close()
        runtime.pump.stop()
        runtime.family.stop()
        await store.close()
