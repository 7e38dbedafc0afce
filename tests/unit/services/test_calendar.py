"""The calendar on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from questlined.clock import SystemClock
from questlined.core.calendar import upcoming, zone
from questlined.core.cron import parse
from questlined.services.calendar import TICK_S, Calendar
from questlined.services.service import Wake
from questlined.store.protocol import Pausing
from questlined.store.reading import Page
from questlined.store.recurrences import AddRecurrence, Fire, Fired, SteerRecurrence
from questlined.store.rows import Recurrence
from questlined.wire.errors import StoreFull
from tests.support.clock import ManualClock
from tests.support.parts import Parts, parts

MINUTE, HOUR = 60_000, 3_600_000
START = 1_800_000_000_000  # 08:00 UTC


class Watched(Wake):
    """Remembers how long its loop wanted to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float | None] = []

    async def wait(self, timeout_s: float | None = None) -> None:
        self.slept.append(timeout_s)
        await super().wait(timeout_s)


class Scene:
    """A calendar that has come round once."""

    def __init__(self, parts: Parts, clock: ManualClock) -> None:
        self.parts, self.clock, self.store = parts, clock, parts.runtime.store
        self.calendar = Calendar(parts.runtime, parts.changes, os.urandom)
        self.calendar.wake = self.wake = Watched()

    async def add(self, name: str = "hourly", cron: str = "0 * * * *", **fields: Any) -> str:
        """A rule of the project."""
        now, key = self.clock.wall_ms(), self.parts.project.key
        base: dict[str, Any] = dict.fromkeys(Recurrence.__dataclass_fields__)
        base |= {"id": f"r-{name}", "project": key, "name": name, "cron": cron, "timezone": "UTC", "role": "default"}
        base |= {"task": "true", "priority": 0, "max_attempts": 1, "backoff_base_ms": 0, "catch_up": "one"}
        base |= {"enabled": 1, "created_at": now, "updated_at": now, "external": 1} | fields
        if "next_run_at" not in fields:
            base["next_run_at"] = upcoming(parse(cron), zone("UTC"), now)
        return await self.store.add_recurrence(AddRecurrence(self.parts.project, Recurrence(**base), 1000))

    async def turn(self) -> None:
        """Whatever has happened by now is dealt with when this returns."""
        await self.parts.turn(self.calendar)

    async def occurrences(self) -> list[int | None]:
        """The times that have become quests, oldest first."""
        return sorted(quest.occurrence_at or 0 for quest in await self.store.page(Page(limit=1000)))


def on_scene(body: Callable[[Scene], Awaitable[None]]) -> Callable[[Path], None]:
    """A test whose body gets a scene."""

    async def run(folder: Path) -> None:
        clock = ManualClock()
        async with parts(folder, clock=clock) as made:
            scene = Scene(made, clock)
            await made.serve(scene.calendar)
            await body(scene)

    def test(tmp_path: Path) -> None:
        asyncio.run(run(tmp_path))

    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


@on_scene
async def test_without_rules_it_sleeps_for_good(scene: Scene) -> None:
    await scene.turn()
    assert set(scene.wake.slept) == {None}


@on_scene
async def test_a_new_rule_wakes_it_and_it_sleeps_until_the_rule_is_due(scene: Scene) -> None:
    """But no longer than a tick: a suspend and a clock that is set are noticed by nothing else."""
    rounds = scene.wake.rounds
    await scene.add()
    await scene.parts.rounds(scene.calendar, rounds + 1)
    assert scene.wake.slept[-1] == TICK_S
    scene.clock.advance(HOUR - 12_500)
    await scene.turn()
    assert scene.wake.slept[-1] == 12.5
    assert await scene.occurrences() == []
    scene.clock.advance(12_500)
    await scene.turn()
    assert await scene.occurrences() == [START + HOUR]


@on_scene
async def test_every_time_comes_once(scene: Scene) -> None:
    """Though it is woken again and again, and fires early by 10 ms."""
    await scene.add()
    for _ in range(3):
        for step in (HOUR - 10, 5, 5, 0):
            scene.clock.advance(step)
            await scene.turn()
    assert await scene.occurrences() == [START + HOUR, START + 2 * HOUR, START + 3 * HOUR]


@on_scene
async def test_a_tick_before_the_next_time_asks_nothing_of_the_store(scene: Scene) -> None:
    await scene.add()
    await scene.turn()
    asked = []

    async def next_occurrence(now: int) -> int | None:
        asked.append(now)
        return None

    scene.store.next_occurrence = next_occurrence  # type: ignore[method-assign]
    for _ in range(5):
        scene.clock.advance(MINUTE)
        await scene.turn()
    assert asked == []
    scene.clock.advance(HOUR)
    await scene.turn()
    assert len(asked) == 1


@on_scene
async def test_a_resume_of_rule_or_project_wakes_it(scene: Scene) -> None:
    """What was missed meanwhile is made up for at once."""
    rule = await scene.add()

    async def pause(paused: bool) -> None:
        await scene.store.pause(Pausing(scene.parts.project, paused, "", scene.clock.wall_ms()))

    async def switch(enabled: bool) -> None:
        await scene.store.switch_recurrence(SteerRecurrence(rule, scene.clock.wall_ms()), enabled)

    for close, lift, came in ((pause, False, 2), (switch, True, 4)):
        await close(not lift)
        scene.clock.advance(2 * HOUR)
        await scene.turn()
        assert START + came * HOUR not in await scene.occurrences()
        rounds = scene.wake.rounds
        await close(lift)
        await scene.parts.rounds(scene.calendar, rounds + 1)
        assert START + came * HOUR in await scene.occurrences()


@on_scene
async def test_a_clock_set_back_is_noticed(scene: Scene) -> None:
    """The rule does not sleep until the clock has caught up, and no time comes twice: the second is there already."""
    await scene.add()
    scene.clock.advance(2 * HOUR)
    await scene.turn()
    scene.clock.step(-HOUR - MINUTE)
    await scene.turn()
    for _ in range(3):
        scene.clock.advance(HOUR)
        await scene.turn()
    assert await scene.occurrences() == [START + hour * HOUR for hour in (1, 2, 3)]


@on_scene
async def test_a_suspend_and_a_clock_set_forward_are_catch_up(scene: Scene) -> None:
    await scene.add()
    scene.clock.suspend(3 * HOUR)
    await scene.turn()
    scene.clock.step(5 * HOUR)
    await scene.turn()
    assert await scene.occurrences() == [START + 3 * HOUR, START + 8 * HOUR]


def test_what_cannot_be_read_is_told_once_and_keeps_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other programs write rules unchecked."""

    @on_scene
    async def body(scene: Scene) -> None:
        await scene.add("reboot", cron="@reboot", next_run_at=START)
        await scene.add("nowhere", timezone="No/Where", next_run_at=START)
        await scene.add(cron="* * * * *")
        for _ in range(3):
            scene.clock.advance(MINUTE)
            await scene.turn()
        assert await scene.occurrences() == [START + minute * MINUTE for minute in (1, 2, 3)]
        assert scene.wake.slept[-1] == TICK_S

    with caplog.at_level(logging.WARNING, "questlined.services.calendar"):
        body(tmp_path)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert any("reboot (r-reboot)" in text and text.endswith(", ignoring") for text in told)


def test_what_cannot_be_read_is_told_once_though_its_time_is_moved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the program that made it, which knows more kinds of rules."""

    @on_scene
    async def body(scene: Scene) -> None:
        for _ in range(3):
            await scene.add("often", cron="@hourly", next_run_at=scene.clock.wall_ms())
            await scene.turn()
            await scene.store.remove_recurrence(SteerRecurrence("r-often", scene.clock.wall_ms()))
            scene.clock.advance(HOUR)

    with caplog.at_level(logging.WARNING, "questlined.services.calendar"):
        body(tmp_path)
    assert len(caplog.records) == 1


@on_scene
async def test_rules_of_one_moment_share_a_transaction(scene: Scene) -> None:
    """A thousand of them are no thousand waits for the disk."""
    for number in range(50):
        await scene.add(f"rule-{number:02}")
    await scene.turn()
    before = len(scene.parts.seen)
    scene.clock.advance(HOUR)
    await scene.turn()
    assert len(await scene.occurrences()) == 50
    assert len(scene.parts.seen) - before == 1


@on_scene
async def test_what_the_store_does_not_take_now_comes_later(scene: Scene) -> None:
    """Without a time lost, and all others meanwhile."""
    await scene.add()
    fire, refused = scene.store.fire, []

    async def full(request: Fire) -> Fired:
        refused.append(request.now)
        raise StoreFull("the disk is full", hint="free some space")

    scene.store.fire = full  # type: ignore[method-assign]
    scene.clock.advance(HOUR)
    await scene.turn()
    assert refused
    assert scene.wake.slept[-1] == TICK_S
    scene.store.fire = fire  # type: ignore[method-assign]
    scene.clock.advance(MINUTE)
    await scene.turn()
    assert await scene.occurrences() == [START + HOUR]


class AlmostNext(SystemClock):
    """The machine's clock, set to shortly before a full minute."""

    def __init__(self, before_ms: int) -> None:
        self._offset = MINUTE - before_ms - super().wall_ms() % MINUTE

    def wall_ms(self) -> int:
        return super().wall_ms() + self._offset


def test_nobody_has_to_wake_it(tmp_path: Path) -> None:
    """Its own alarm goes off at the moment, and the commit tells those who wait for a quest."""

    async def run() -> None:
        clock = AlmostNext(before_ms=400)
        async with parts(tmp_path, clock=clock) as made:
            scene = Scene(made, cast(ManualClock, clock))
            await made.serve(scene.calendar)
            minute = clock.wall_ms() // MINUTE * MINUTE + MINUTE
            with made.changes.claimable(made.project.key) as claimable:
                await scene.add("minutely", cron="* * * * *")
                await claimable.wait()
            (quest,) = await scene.store.page(Page(limit=9))
            assert quest.occurrence_at == minute
            assert minute <= quest.created_at < minute + MINUTE

    asyncio.run(run())


def test_a_full_queue_holds_its_own_rules_only(tmp_path: Path) -> None:
    """Each is tried, and comes when there is room."""

    async def run() -> None:
        clock = ManualClock()
        async with parts(tmp_path, "bounds.max_waiting = 2\n", clock=clock) as made:
            scene = Scene(made, clock)
            for number in range(3):
                await scene.add(f"rule-{number}")
            await made.serve(scene.calendar)
            clock.advance(HOUR)
            await scene.turn()
            assert len(await scene.occurrences()) == 2
            assert scene.wake.slept[-1] == TICK_S

    asyncio.run(run())
