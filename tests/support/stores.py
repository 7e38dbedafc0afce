"""Stores under test, and short ways to fill them. Every store must pass tests/conformance unchanged."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from questlined.core.limits import Limits
from questlined.core.quest import NewQuest
from questlined.core.retry import Policy
from questlined.store.effects import Effects
from questlined.store.protocol import Add, Claim, Claimed, Finish, ProjectRef, Reclaim, Steer
from questlined.store.sqlite.store import SqliteStore
from tests.support.clock import ManualClock

POLICY = Policy(backoff_jitter=0.0)
PROJECT = ProjectRef("/p", None, "/p")


class Bench:
    """An open store with a manual clock. Methods are the everyday requests with everything defaulted."""

    def __init__(self, store: SqliteStore, clock: ManualClock, seen: list[Effects]) -> None:
        self.store, self.clock, self.seen = store, clock, seen
        self._numbers = itertools.count(1)

    def quest(self, **fields: Any) -> NewQuest:
        """A NewQuest of project /p."""
        number = next(self._numbers)
        base: dict[str, Any] = {
            "id": f"q-{number:012x}",
            "project": "/p",
            "role": "default",
            "name": f"quest {number}",
            "task": "true",
            "context": None,
            "priority": 0,
            "max_attempts": 1,
            "backoff_base_ms": 1000,
            "scheduled_at": 0,
            "timeout_ms": None,
            "lane": None,
            "external": False,
            "depends_on": (),
            "created_at": self.clock.wall_ms(),
        }
        return NewQuest(**(base | fields))

    async def add(self, project: ProjectRef | None = None, **fields: Any) -> str:
        """Add one quest; its id."""
        where = project or PROJECT
        quest = self.quest(**({"project": where.key} | fields))
        return (await self.store.add(self.request(quest, project=where)))[0]

    def request(self, *quests: NewQuest, project: ProjectRef = PROJECT, **fields: Any) -> Add:
        """An Add of these."""
        return Add(project, quests, self.clock.wall_ms(), max_waiting=5_000_000, **fields)

    async def claim_own(self, most: int = 1, limits: Limits | None = None) -> list[Claimed]:
        """Claim as the daemon."""
        return await self.store.claim(
            Claim("daemon-1", self.clock.wall_ms(), 120_000, own=True, most=most, limits=limits or Limits())
        )

    async def claim(self, owner: str = "worker-1", **fields: Any) -> Claimed | None:
        """Claim from outside."""
        base = {"project": "/p", "lease_ms": 60_000} | fields
        found = await self.store.claim(Claim(owner, self.clock.wall_ms(), own=False, **base))
        return found[0] if found else None

    async def finish(self, claimed: Claimed, klass: str = "ok", **fields: Any) -> str:
        """End an attempt; the quest's new state."""
        base: dict[str, Any] = {"chance": 0.5, "policy": POLICY} | fields
        return await self.store.finish(Finish(claimed.fence, self.clock.wall_ms(), klass, **base))

    async def state(self, quest: str) -> str:
        """A quest's state."""
        found = await self.store.quest(quest)
        assert found is not None
        return found.state

    def steer(self, quest: str, **fields: Any) -> Steer:
        """A cancel or retry."""
        return Steer(quest, self.clock.wall_ms(), **fields)


async def open_bench(folder: Path, clock: ManualClock | None = None) -> Bench:
    """A bench on `folder`/quests.sqlite."""
    clock = clock or ManualClock()
    seen: list[Effects] = []
    return Bench(await SqliteStore.open(folder / "quests.sqlite", clock, seen.append), clock, seen)


def on_store(folder: Path, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    """Run a scenario against a new store."""

    async def run() -> None:
        bench = await open_bench(folder)
        try:
            await scenario(bench)
        finally:
            await bench.store.close()

    asyncio.run(run())


Scenario = Callable[[Bench], Awaitable[None]]


def scenario(body: Scenario) -> Callable[[Path], None]:
    """A test whose body gets a new store."""

    @functools.wraps(body, assigned=("__name__", "__doc__", "__module__"))
    def test(tmp_path: Path) -> None:
        on_store(tmp_path, body)

    del test.__wrapped__  # pytest would read the body's signature
    return test


def reclaim(bench: Bench, *, fail: bool = False) -> Reclaim:
    """Settle what is due now."""
    return Reclaim(bench.clock.wall_ms(), 0.5, POLICY, fail=fail)
