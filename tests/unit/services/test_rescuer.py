"""The rescuer on clocks that are moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from questlined.services.rescuer import NET_S, TICK_S, Reading, Rescuer
from questlined.services.scheduler import Scheduler
from questlined.store.protocol import Claimed, ProjectRef, Sealed, Token
from questlined.wire.errors import StoreFull
from tests.support.clock import ManualClock
from tests.support.parts import Parts, parts

LEASE_MS = 60_000
HOURS_MS = 8 * 3600 * 1000
START = Reading(1_000_000, 5_000, 5_000)


@pytest.mark.parametrize(
    ("wall", "boot", "monotonic", "jump"),
    [
        (0, 0, 0, 0),
        (30_000, 30_000, 30_000, 0),
        (31_900, 30_100, 30_000, 0),
        (28_100, 30_000, 30_000, 0),
        (HOURS_MS + 30_000, HOURS_MS + 30_000, 30_000, HOURS_MS),
        (3_630_000, 30_000, 30_000, 3_600_000),
        (-3_570_000, 30_000, 30_000, -3_600_000),
        (HOURS_MS + 3_630_000, HOURS_MS + 30_000, 30_000, HOURS_MS + 3_600_000),
        (30_000, HOURS_MS + 30_000, 30_000, 0),
    ],
    ids=["none", "time", "drift", "back", "suspend", "forward", "backward", "both", "suspended without wall"],
)
def test_a_jump_is_a_suspend_and_a_step(wall: int, boot: int, monotonic: int, jump: int) -> None:
    """Time that merely passes, with a little drift, is neither."""
    now = Reading(START.wall_ms + wall, START.boot_ms + boot, START.monotonic_ms + monotonic)
    assert now.jump_since(START) == jump


class Scene:
    """A rescuer that has come round once, and a quest held from outside."""

    def __init__(self, parts: Parts, clock: ManualClock) -> None:
        self.parts, self.clock = parts, clock
        self.ticks = 0
        self.rescuer = Rescuer(parts.runtime, parts.changes, self._tick)

    def _tick(self) -> None:
        self.ticks += 1

    async def held(self, **fields: object) -> Claimed:
        await self.parts.add(external=True, **fields)
        claimed = await self.parts.bench.claim(project=self.parts.project.key, lease_ms=LEASE_MS)
        assert claimed
        await self.turn()
        return claimed

    async def turn(self) -> None:
        await self.parts.turn(self.rescuer)

    async def left_ms(self, claimed: Claimed) -> int:
        """What is left of its lease; fails where it has ended."""
        quest = await self.parts.runtime.store.quest(claimed.quest.id)
        assert quest
        assert quest.lease_expires_at, quest.state
        return quest.lease_expires_at - self.clock.wall_ms()


def play(folder: Path, story: Callable[[Scene], Awaitable[None]], config: str = "") -> None:
    async def run() -> None:
        clock = ManualClock()
        async with parts(folder, config, clock) as made:
            scene = Scene(made, clock)
            await made.serve(scene.rescuer)
            await story(scene)

    asyncio.run(run())


def test_a_suspend_reclaims_nothing(tmp_path: Path) -> None:
    """A machine that sleeps eight hours extends every lease by as much; time gates are looked at again."""

    async def story(scene: Scene) -> None:
        claimed = await scene.held()
        scene.clock.advance(10_000)
        scene.clock.suspend(HOURS_MS)
        await scene.turn()
        assert await scene.left_ms(claimed) == LEASE_MS - 10_000
        assert scene.ticks == 1
        scene.clock.advance(LEASE_MS - 10_001)
        await scene.turn()
        assert await scene.left_ms(claimed) == 1

    play(tmp_path, story)


@pytest.mark.parametrize("step", [3_600_000, -3_600_000, 2_000, -2_000])
def test_a_step_of_the_wall_clock_shifts_every_lease(tmp_path: Path, step: int) -> None:
    """Nothing is reclaimed early, and nothing lives longer for it."""

    async def story(scene: Scene) -> None:
        claimed = await scene.held()
        scene.clock.step(step)
        await scene.turn()
        assert await scene.left_ms(claimed) == LEASE_MS
        scene.clock.advance(LEASE_MS)
        await scene.turn()
        assert await scene.parts.bench.state(claimed.quest.id) == "interrupted"

    play(tmp_path, story)


@pytest.mark.parametrize("jump", ["suspend", "forward", "backward"])
def test_a_lease_that_was_made_after_a_jump_is_not_moved_by_it(tmp_path: Path, jump: str) -> None:
    """It was made by the clock as it is: moved back it would be reclaimed at once, moved on it would live for hours."""

    async def story(scene: Scene) -> None:
        before = await scene.held()
        scene.clock.advance(10_000)
        if jump == "suspend":
            scene.clock.suspend(HOURS_MS)
        else:
            scene.clock.step(HOURS_MS if jump == "forward" else -HOURS_MS)
        scene.clock.advance(5_000)
        after = await scene.held()
        assert await scene.left_ms(after) == LEASE_MS
        assert await scene.left_ms(before) == LEASE_MS - 15_000

    play(tmp_path, story)


@pytest.mark.parametrize("step", [HOURS_MS, -HOURS_MS])
def test_a_backoff_that_began_after_a_step_is_not_moved_by_it(tmp_path: Path, step: int) -> None:
    async def story(scene: Scene) -> None:
        held = [await scene.held(max_attempts=3, backoff_base_ms=20_000) for _ in range(2)]
        await scene.parts.bench.finish(held[0], "failed")
        scene.clock.step(step)
        scene.clock.advance(5_000)
        await scene.parts.bench.finish(held[1], "failed")
        await scene.turn()
        rows = [await scene.parts.runtime.store.quest(claimed.quest.id) for claimed in held]
        waits = [row.retry_at - scene.clock.wall_ms() for row in rows if row and row.retry_at]
        assert waits == [15_000, 20_000]

    play(tmp_path, story)


@pytest.mark.parametrize("refused", ["shift_leases", "shift_retries"])
@pytest.mark.parametrize("step", [3_600_000, -3_600_000])
def test_a_store_that_refuses_half_of_a_shift_moves_no_lease_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, step: int
) -> None:
    """What it did not take is moved in the next round, with what the clock was set meanwhile."""

    async def story(scene: Scene) -> None:
        claimed, store = await scene.held(), scene.parts.runtime.store
        real, asked = getattr(store, refused), list[int]()

        async def refuse(delta_ms: int, fresh: tuple[int, int]) -> None:
            asked.append(delta_ms)
            if len(asked) == 1:
                scene.clock.step(5_000)
                raise StoreFull("the disk is full", hint="free some space")
            await real(delta_ms, fresh)

        monkeypatch.setattr(store, refused, refuse)
        scene.clock.step(step)
        await scene.turn()
        assert asked == [step, step + 5_000]
        assert await scene.left_ms(claimed) == LEASE_MS

    play(tmp_path, story)


@pytest.mark.parametrize(("loss", "state"), [("requeue", "interrupted"), ("fail", "failed")])
def test_a_lease_that_ran_out_is_settled(tmp_path: Path, loss: str, state: str) -> None:
    """As on_lease_loss says; not a millisecond early; the daemon's own end with its lock and not by time."""

    async def story(scene: Scene) -> None:
        own = await scene.parts.add(priority=9)
        await scene.parts.claim()
        claimed = await scene.held()
        scene.clock.advance(LEASE_MS - 1)
        await scene.turn()
        assert await scene.left_ms(claimed) == 1
        scene.clock.advance(1)
        await scene.turn()
        assert await scene.parts.bench.state(claimed.quest.id) == state
        scene.clock.advance(10 * LEASE_MS)
        await scene.turn()
        assert await scene.parts.bench.state(own) == "running"

    play(tmp_path, story, f'on_lease_loss = "{loss}"\n')


def test_a_heartbeat_puts_the_end_off(tmp_path: Path) -> None:
    """However often, and for every one of many."""

    async def story(scene: Scene) -> None:
        held = [await scene.held() for _ in range(3)]
        for _ in range(5):
            scene.clock.advance(LEASE_MS - 1)
            for claimed in held[:2]:
                await scene.parts.runtime.store.heartbeat(claimed.fence, scene.clock.wall_ms(), LEASE_MS)
            await scene.turn()
        scene.clock.advance(1)
        await scene.turn()
        states = [await scene.parts.bench.state(claimed.quest.id) for claimed in held]
        assert states == ["running", "running", "interrupted"]

    play(tmp_path, story)


def test_more_leases_than_a_page_are_all_settled(tmp_path: Path) -> None:
    """In one round."""

    async def story(scene: Scene) -> None:
        bench, project = scene.parts.bench, scene.parts.project
        quests = [bench.quest(project=project.key, external=True) for _ in range(450)]
        await scene.parts.runtime.store.add(bench.request(*quests, project=project))
        for _ in quests:
            await bench.claim(project=project.key, lease_ms=LEASE_MS)
        scene.clock.advance(LEASE_MS)
        await scene.turn()
        assert (await scene.parts.runtime.store.counts(None))["interrupted"] == 450

    play(tmp_path, story)


def test_leases_that_are_left_alone_hide_none_behind_them(tmp_path: Path) -> None:
    """More than a page of the daemon's own ran out earlier: they stay, and the one from outside is settled."""

    async def story(scene: Scene) -> None:
        bench, project = scene.parts.bench, scene.parts.project
        quests = [bench.quest(project=project.key) for _ in range(450)]
        await scene.parts.runtime.store.add(bench.request(*quests, project=project))
        assert len(await bench.claim_own(most=450)) == 450
        scene.clock.advance(200_000)
        claimed = await scene.held()
        scene.clock.advance(LEASE_MS)
        await scene.turn()
        assert await bench.state(claimed.quest.id) == "interrupted"
        assert (await scene.parts.runtime.store.counts(None))["running"] == 450

    play(tmp_path, story)


def test_old_answers_are_forgotten_after_a_day(tmp_path: Path) -> None:
    """A request that comes again within it is answered as before."""

    async def story(scene: Scene) -> None:
        bench, store = scene.parts.bench, scene.parts.runtime.store
        asked = bench.request(
            bench.quest(project=scene.parts.project.key), project=scene.parts.project, token=Token(1, "r", "b")
        )
        await store.add(asked)
        scene.clock.advance(24 * 3600 * 1000 - 1)
        await scene.turn()
        assert scene.ticks == 1
        assert await store.add(asked) == [asked.quests[0].id]
        scene.clock.advance(int(NET_S * 1000))
        await scene.turn()
        assert scene.ticks == 2
        assert await store.forget_requests(scene.clock.wall_ms()) == 0

    play(tmp_path, story)


def test_a_quest_whose_directory_is_back_runs(tmp_path: Path) -> None:
    """It waited at no cost, however often it was looked for."""

    async def run() -> None:
        clock = ManualClock()
        async with parts(tmp_path, "", clock) as made:
            scheduler = Scheduler(made.runtime, made.changes, "daemon-1")
            rescuer = Rescuer(made.runtime, made.changes, scheduler.tick)
            place = tmp_path / "unmounted"
            made.project = ProjectRef(str(place), None, str(place))
            with made.changes.watching("q-000000000001") as changed:
                quest = await made.add("pwd")
                assert quest == "q-000000000001"
                await made.serve(scheduler)
                await made.serve(rescuer)
                while (await made.bench.store.missing_paths()) == []:
                    await changed.wait()
                    changed.clear()
                for _ in range(3):
                    clock.advance(int(TICK_S * 1000))
                    await made.turn(rescuer)
                found = await made.bench.store.quest(quest)
                assert found
                assert (found.state, found.attempts, found.refunds) == ("queued", 1, 1)
                place.mkdir()
                clock.advance(int(TICK_S * 1000))
                await made.turn(rescuer)
                while await made.bench.state(quest) != "done":
                    await changed.wait()
                    changed.clear()
            assert await made.bench.store.missing_paths() == []

    asyncio.run(run())


def test_the_index_of_old_records_is_deleted(tmp_path: Path) -> None:
    """After records.keep, the file and then what is known of it; one that is gone already is no trouble, one that
    cannot be deleted is left to its quest."""

    async def story(scene: Scene) -> None:
        bench, store = scene.parts.bench, scene.parts.runtime.store
        paths = [tmp_path / name for name in ("there", "gone", "odd", "young")]
        for path in paths:
            if path.name == "young":
                scene.clock.advance(400_000)
            await scene.parts.add()
            claimed = await scene.parts.claim()
            await bench.finish(claimed, artifacts=(Sealed("records", str(path), 32),))
        paths[0].touch()
        paths[2].mkdir()
        paths[3].touch()
        scene.clock.advance(3_600_000 - 400_000)
        await scene.turn()
        assert len(await store.old_records(2**60)) == 4
        scene.clock.advance(int(NET_S * 1000))
        await scene.turn()
        assert scene.rescuer.forgetting
        await scene.rescuer.forgetting
        assert [path.exists() for path in paths] == [False, False, True, True]
        assert [old.path for old in await store.old_records(2**60)] == [str(paths[3])]

    play(tmp_path, story, 'records.keep = "1h"\n')
