"""No-op quests drained, two at a time, beside what the machine does without a queue."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

from questlined.clock import SystemClock
from questlined.core.retry import Policy
from questlined.store.protocol import Claim, Finish, Pausing
from questlined.store.sqlite.store import SqliteStore
from tests.bench.baselines import commit_ms, kept_per_second, spawns_per_second
from tests.bench.figures import Figure
from tests.bench.rig import Rig, now_ms, rig

# 500 of the 900 quests per second that a trial did where the bar was set.
PER_SECOND, SHARE = 500, 500 / 900


def drained(rounds: int, number: int, finished: int = 0) -> Iterator[Figure]:
    """Quests per second; with `finished` the same again among so many that have ended."""
    rates, bare, kept, commits = [], [], [], []
    with rig() as one:
        for _ in range(rounds):
            bare.append(spawns_per_second(number))
            rates.append(_rate(one, number))
            kept.append(kept_per_second(number))
            commits.append(commit_ms())
        yield Figure("no-op quests drained per second", "/s", rates, PER_SECOND, "high")
        name = "  the same to a trial with commits and files"
        yield Figure(name, "/s", rates, SHARE, "high", base=kept, base_name="the trial")
        yield Figure("  bare spawn and wait", "/s", bare)
        yield Figure("  one durable commit", "ms", commits)
        if finished:
            _finish(one, finished)
            among = [_rate(one, number) for _ in range(rounds)]
            name = f"  drained among {finished:,} finished"
            yield Figure(name, "/s", among, 0.9, "high", base=rates, base_name="with none")


def _rate(one: Rig, number: int) -> float:
    """Drain `number` quests that wait already; from the moment they may start to the end of the last."""
    before = one.counts()["done"]
    one.pause()
    ids = one.fill(number)
    began = now_ms()
    one.resume()
    states = {one.wait(quest) for quest in ids[-2:]}
    spent = now_ms() - began
    assert states == {"done"}, states
    assert one.counts()["done"] == before + number
    return 1000 * number / spent


def _finish(one: Rig, number: int) -> None:
    """Let `number` quests end without running them: claimed and finished in the store, while no daemon has it."""
    one.pause()
    one.fill(number)
    one.daemon.stop()
    asyncio.run(_end_all(one.daemon.state / "quests.sqlite"))
    one.restart()
    assert one.counts()["queued"] == 0


async def _end_all(database: Path) -> None:
    clock = SystemClock()
    store = await SqliteStore.open(database, clock)
    policy = Policy()
    wanted = Claim("bench", clock.wall_ms(), 600_000, own=True, most=200)
    await store.pause(Pausing(None, False, "", clock.wall_ms()))
    while claimed := await store.claim(wanted):
        ends = (Finish(one.fence, clock.wall_ms(), "ok", random.random(), policy, result="x") for one in claimed)
        await asyncio.gather(*(store.finish(end) for end in ends))
    await store.close()
