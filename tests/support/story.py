"""A store's life for others to record: `python -m tests.support.story FOLDER MARKS SEED`.

Each step is one transaction. Before the first and after each, what the store says of its quests is written to MARKS as
one line of JSON; that is the acknowledgement.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

from questlined.store.effects import Effects
from questlined.store.protocol import Claimed, Pausing, Started
from questlined.store.sqlite.requests import Operation
from questlined.wire.errors import WrongState
from tests.support.stores import PROJECT, Bench, open_bench

STEPS = 40
BULK = 15
PAGES = 30  # that the log may hold before they are copied to the database: it happens several times
ENDS = ("ok", "ok", "failed", "blocked", "interrupted", "released", "timeout")


def _checkpoint_early(db: sqlite3.Connection, _request: None, _effects: Effects) -> None:
    db.execute(f"PRAGMA wal_autocheckpoint = {PAGES}")


def states(db: sqlite3.Connection) -> dict[str, list[Any]]:
    """Every quest with what an acknowledgement says of it."""
    rows = db.execute("SELECT id, state, attempts, refunds, length(task), ifnull(length(result), 0) FROM quests")
    return {quest: found for quest, *found in rows}


class Story:
    """Random steps on a bench."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench, self.chance = bench, random.Random(seed)
        self.held: list[Claimed] = []
        self.known: list[str] = []

    async def step(self) -> None:
        """One transaction."""
        self.bench.clock.advance(self.chance.randint(1, 40_000))
        steps = [self.add, self.add, self.bulk, self.claim, self.claim, self.steer, self.others]
        if self.held:
            steps += [self.end, self.end, self.end]
        await self.chance.choice(steps)()

    async def add(self) -> None:
        depends = (self.chance.choice(self.known),) if self.known and self.chance.random() < 0.3 else ()
        lane = self.chance.choice((None, None, "a"))
        external = self.chance.random() < 0.2
        task = "x" * self.chance.choice((4, 100, 5_000))
        self.known.append(
            await self.bench.add(depends_on=depends, lane=lane, external=external, max_attempts=2, task=task)
        )

    async def bulk(self) -> None:
        if len(self.known) > 6 * BULK:
            return await self.add()
        quests = [self.bench.quest(task="y" * 300) for _ in range(BULK)]
        self.known += await self.bench.store.add(self.bench.request(*quests))

    async def claim(self) -> None:
        if self.chance.random() < 0.3:
            found = await self.bench.claim()
            self.held += [found] if found else []
        else:
            self.held += await self.bench.claim_own(self.chance.randint(1, 3))

    async def end(self) -> None:
        """Two quests may end in one transaction, as they do under group commit."""
        ending = [self.held.pop(self.chance.randrange(len(self.held))) for _ in range(min(2, len(self.held)))]
        classes = [self.chance.choice(ENDS) for _ in ending]
        result = "z" * self.chance.choice((3, 5_000))
        calls = [self.bench.finish(each, how, result=result) for each, how in zip(ending, classes, strict=True)]
        await asyncio.gather(*calls)

    async def steer(self) -> None:
        if not self.known:
            return
        request = self.bench.steer(self.chance.choice(self.known))
        try:
            await (self.bench.store.cancel if self.chance.random() < 0.5 else self.bench.store.retry)(request)
        except WrongState:
            return

    async def others(self) -> None:
        now = self.bench.clock.wall_ms()
        match self.chance.randrange(4):
            case 0:
                await self.bench.store.pause(Pausing(PROJECT, self.chance.random() < 0.3, "a reason", now))
            case 1:
                await self.bench.store.promote(now)
            case 2:
                await self.bench.store.shift_leases(5_000)
            case _ if self.held and self.held[-1].quest.own:
                await self.bench.store.started(Started(self.held[-1].fence, now, 77, 88, "boot"))


async def tell(folder: Path, marks: Path, seed: int) -> None:
    """Live it."""
    descriptor = os.open(marks, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    bench = await open_bench(folder)
    try:
        await bench.store.writer.submit(Operation("checkpoint", _checkpoint_early), None)
        story = Story(bench, seed)
        for number in range(STEPS):
            if number:
                await story.step()
            found = await bench.store.reader.submit(states)
            os.write(descriptor, json.dumps(found).encode())
    finally:
        await bench.store.close()
        os.close(descriptor)


if __name__ == "__main__":
    asyncio.run(tell(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
