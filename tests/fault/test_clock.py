"""Somebody sets the clock: what waits for a time of day waits for it, what waits for a while waits that while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from questlined.services.rescuer import Rescuer
from questlined.services.scheduler import Scheduler
from tests.support.clock import ManualClock
from tests.support.evidence import Fifo
from tests.support.parts import Parts, parts

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
EXACT = "backoff_jitter = 0\n"


class Scene:
    """A scheduler and a rescuer on a clock that is moved by hand."""

    def __init__(self, made: Parts, clock: ManualClock) -> None:
        self.made, self.clock = made, clock
        self.scheduler = Scheduler(made.runtime, made.changes, "daemon-1")
        self.rescuer = Rescuer(made.runtime, made.changes, self.scheduler.tick)

    async def step(self, ms: int) -> None:
        """Set the wall clock; returns when it was noticed."""
        self.clock.step(ms)
        await self.turn()

    async def pass_(self, ms: int) -> None:
        """Time passes, and is noticed."""
        self.clock.advance(ms)
        self.scheduler.tick()  # its timer runs by the real clock
        await self.turn()

    async def turn(self) -> None:
        await self.made.turn(self.rescuer)
        await self.made.turn(self.scheduler)

    async def until(self, quest: str, state: str) -> None:
        """Returns when the quest has come to this state."""
        with self.made.changes.watching(quest) as changed:
            while await self.made.bench.state(quest) != state:
                await changed.wait()
                changed.clear()


def play(folder: Path, story: Callable[[Scene], Awaitable[None]], config: str = "") -> None:
    async def run() -> None:
        clock = ManualClock()
        async with parts(folder, config, clock) as made:
            scene = Scene(made, clock)
            await made.serve(scene.rescuer)
            await made.serve(scene.scheduler)
            await story(scene)

    asyncio.run(run())


def test_a_time_of_day_is_met_by_the_clock_however_it_gets_there(tmp_path: Path) -> None:
    """Set forward past it the quest runs; set back it waits the longer; never before it."""

    async def story(scene: Scene) -> None:
        first, second = [await scene.made.add(scheduled_at=scene.clock.wall_ms() + hours * HOUR_MS) for hours in (1, 2)]
        await scene.step(HOUR_MS)
        await scene.until(first, "done")
        await scene.step(-HOUR_MS)
        await scene.pass_(2 * HOUR_MS - 1)
        assert await scene.made.bench.state(second) == "queued"
        await scene.pass_(1)
        await scene.until(second, "done")

    play(tmp_path, story)


@pytest.mark.parametrize("step", [DAY_MS, -DAY_MS], ids=["forward", "back"])
def test_a_backoff_is_as_long_as_it_was(tmp_path: Path, step: int) -> None:
    """Neither left out nor a day longer."""

    async def story(scene: Scene) -> None:
        quest = await scene.made.add(f'test -e "{tmp_path}/good"', max_attempts=2, backoff_base_ms=60_000)
        with scene.made.changes.watching(quest) as changed:
            while (found := await scene.made.bench.store.quest(quest)) is None or found.retry_at is None:
                await changed.wait()
                changed.clear()
        (tmp_path / "good").touch()
        await scene.step(step)
        await scene.pass_(59_999)
        assert await scene.made.bench.state(quest) == "queued"
        await scene.pass_(1)
        await scene.until(quest, "done")

    play(tmp_path, story, EXACT)


@pytest.mark.parametrize("step", [DAY_MS, -DAY_MS], ids=["forward", "back"])
def test_a_timeout_is_no_matter_of_the_clock(tmp_path: Path, step: int) -> None:
    """What runs is not ended by a step, and still ended by its timeout; what is queued goes on."""
    started, hold = Fifo(tmp_path / "started"), Fifo(tmp_path / "hold")

    async def story(scene: Scene) -> None:
        wait = f'echo x >"{started.path}"; read line <"{hold.path}"'
        long, short = await scene.made.add(wait, timeout_ms=600_000), await scene.made.add(wait, timeout_ms=1_000)
        for _ in range(2):
            await asyncio.to_thread(started.next)
        await scene.step(step)
        await scene.until(short, "failed")
        assert await scene.made.bench.state(long) == "running"
        later = await scene.made.add("true")
        await scene.until(later, "done")
        hold.put()
        await scene.until(long, "done")
        classes = [(await scene.made.bench.store.runs(quest, 0, 9))[0].class_ for quest in (short, long)]
        assert classes == ["timeout", "ok"]

    play(tmp_path, story)
    started.close()
    hold.close()


def test_a_queue_goes_on_when_the_clock_goes_back(tmp_path: Path) -> None:
    """What was added before the step and after it runs, each once; an add after it may be the earlier by the clock."""

    async def story(scene: Scene) -> None:
        before = [await scene.made.add(f'echo {n} >>"{tmp_path}/ran"') for n in range(5)]
        await scene.step(-HOUR_MS)
        after = [await scene.made.add(f'echo {n} >>"{tmp_path}/ran"') for n in range(5, 10)]
        for quest in (*before, *after):
            await scene.until(quest, "done")
        assert sorted((tmp_path / "ran").read_text().split(), key=int) == [str(n) for n in range(10)]

    play(tmp_path, story)
