"""Edits, blocks and claims by a person, mixed with all else: what is derived from the rows stays right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from questlined.core.limits import Limits
from questlined.store.protocol import Block, Claimed, ClaimNow, Edit, Pausing
from questlined.wire.errors import NotFound, WrongState
from tests.integration.store.scene import on_bench
from tests.support.invariants import broken
from tests.support.stores import PROJECT, Bench

STEPS = 150
LIMITS = Limits(role={"review": 1}, project=3)
SLOTS = {"wide": 2}


class History:
    """Random steps on a store, each of which may be refused by the state that it meets."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.bench, self.chance = bench, chance
        self.quests: list[str] = []
        self.held: list[Claimed] = []

    def now(self) -> int:
        return self.bench.clock.wall_ms()

    def time(self) -> int:
        return self.chance.choice([0, self.now() - 1, self.now() + self.chance.randrange(1, 3000)])

    async def add(self) -> None:
        quest = self.bench.quest(
            lane=self.chance.choice([None, "docs", "wide"]),
            role=self.chance.choice(["default", "review"]),
            priority=self.chance.randrange(3),
            scheduled_at=self.time(),
            depends_on=(self.chance.choice(self.quests),) if self.quests and self.chance.random() < 0.3 else (),
            external=self.chance.random() < 0.1,
            max_attempts=self.chance.randrange(4),
        )
        await self.bench.store.add(self.bench.request(quest, lane_slots=SLOTS))
        self.quests.append(quest.id)

    async def edit(self) -> None:
        some = {
            "task": self.chance.choice(["a", "b"]),
            "priority": self.chance.randrange(5),
            "lane": self.chance.choice(["", "docs", "wide", f"lane-{self.chance.randrange(3)}"]),
            "not_before": self.time(),
            "max_attempts": self.chance.randrange(4),
        }
        names = self.chance.sample(sorted(some), self.chance.randrange(1, 4))
        given = {name: some[name] for name in names}
        request = Edit(
            self.chance.choice(self.quests),
            self.now(),
            lambda _: None,
            lane_slots=SLOTS,
            **given,  # type: ignore[arg-type]
        )
        await self.bench.store.edit(request)

    async def block(self) -> None:
        await self.bench.store.block(Block(self.chance.choice(self.quests), self.now(), reason="r"))

    async def run(self) -> None:
        named = self.chance.random() < 0.7
        wish = ClaimNow(
            "daemon-1",
            self.now(),
            120_000,
            LIMITS,
            quest=self.chance.choice(self.quests) if named else None,
            project=None if named else "/p",
        )
        if claimed := await self.bench.store.claim_now(wish):
            self.held.append(claimed)

    async def claim(self) -> None:
        self.held += await self.bench.claim_own(most=2, limits=LIMITS)

    async def claim_outside(self) -> None:
        if claimed := await self.bench.claim():
            self.held.append(claimed)

    async def finish(self) -> None:
        if self.held:
            ended = self.held.pop(self.chance.randrange(len(self.held)))
            klass = self.chance.choice(["ok", "failed", "interrupted", "released", "blocked"])
            await self.bench.finish(ended, klass, limits=LIMITS)

    async def retry(self) -> None:
        await self.bench.store.retry(self.bench.steer(self.chance.choice(self.quests)))

    async def cancel(self) -> None:
        await self.bench.store.cancel(self.bench.steer(self.chance.choice(self.quests)))

    async def pause(self) -> None:
        await self.bench.store.pause(Pausing(PROJECT, self.chance.random() < 0.5, "", self.now()))

    async def wait(self) -> None:
        self.bench.clock.advance(self.chance.randrange(2000))

    async def step(self) -> str:
        steps = [self.edit, self.edit, self.block, self.run, self.run, self.claim, self.claim_outside, self.finish]
        steps += [self.finish, self.retry, self.cancel, self.pause, self.wait]
        step = self.chance.choice([self.add, self.add, *steps] if self.quests else [self.add])
        try:
            await step()
        except (WrongState, NotFound):
            return f"{step.__name__}, refused"
        return step.__name__


@pytest.mark.parametrize("seed", range(6))
def test_whatever_people_do_the_store_stays_sound(tmp_path: Path, seed: int) -> None:
    """Lane slots, bucket heads, gates, time gates, counts, refunds and run numbers, after each step."""

    async def story(bench: Bench) -> None:
        history, done = History(bench, random.Random(seed)), list[str]()
        for _ in range(STEPS):
            done.append(await history.step())
            assert broken(tmp_path / "quests.sqlite", role=LIMITS.role, project=LIMITS.project) == [], done[-5:]
            await right_times(bench, history)
        assert {"edit", "block", "run", "claim", "finish"} <= set(done)

    async def right_times(bench: Bench, history: History) -> None:
        """What waits for a time is due then, and nothing that is early is claimable."""
        await bench.store.promote(bench.clock.wall_ms())
        rows = [row for quest in history.quests if (row := await bench.store.quest(quest))]
        opens = [max(row.scheduled_at, row.retry_at or 0) for row in rows if row.state in ("queued", "interrupted")]
        early = [moment for moment in opens if moment > bench.clock.wall_ms()]
        assert await bench.store.next_due() == min(early, default=None)

    on_bench(tmp_path, story)
