"""Lanes, pause, concurrency, paths and bounds. Every store passes these as they are."""

from __future__ import annotations

import asyncio

import pytest

from questlined.core.limits import Limits
from questlined.store.protocol import ClaimNow, Pausing, ProjectRef
from questlined.wire.errors import LimitReached
from tests.support.stores import PROJECT, Bench, scenario


@scenario
async def test_one_running_quest_per_lane(bench: Bench) -> None:
    """Four tasks in one lane, eight claimers: one runs; at its end the next."""
    for _ in range(4):
        await bench.add(lane="docs")
    won = [c for c in await asyncio.gather(*(bench.claim(f"w{n}") for n in range(8))) if c]
    assert len(won) == 1
    assert not await bench.claim_own(most=8)
    await bench.finish(won[0])
    assert len(await bench.claim_own(most=8)) == 1


@scenario
async def test_a_lane_is_free_in_another_project(bench: Bench) -> None:
    other = ProjectRef("/q", None, "/q")
    await bench.add(lane="docs")
    await bench.add(other, lane="docs")
    assert len(await bench.claim_own(most=8)) == 2


@scenario
async def test_a_lane_with_more_slots_runs_that_many(bench: Bench) -> None:
    quests = [bench.quest(lane="wide") for _ in range(4)]
    await bench.store.add(bench.request(*quests, lane_slots={"wide": 2}))
    held = await bench.claim_own(most=8)
    assert sorted(c.quest.lane_slot or 0 for c in held) == [1, 2]
    await bench.finish(held[0])
    assert len(await bench.claim_own(most=8)) == 1
    await bench.store.configure(Limits(), {"wide": 3})
    assert len(await bench.claim_own(most=8)) == 1


@scenario
async def test_external_quests_wait_for_a_claim_from_outside(bench: Bench) -> None:
    quest = await bench.add(external=True)
    assert not await bench.claim_own()
    claimed = await bench.claim()
    assert claimed
    assert claimed.quest.id == quest


@scenario
async def test_role_and_project_concurrency_bind_only_the_daemon(bench: Bench) -> None:
    for role in ("review", "review", "build", "build"):
        await bench.add(role=role)
    limits = Limits(role={"review": 1}, project=2)
    held = await bench.claim_own(most=9, limits=limits)
    assert sorted(c.quest.role for c in held) == ["build", "review"]
    assert not await bench.claim_own(most=9, limits=limits)
    assert await bench.claim("outside", role="review")
    await bench.finish(next(c for c in held if c.quest.role == "review"), limits=limits)
    (again,) = await bench.claim_own(most=9, limits=limits)
    assert again.quest.role == "build"
    await bench.add(role="review", priority=9)
    assert not await bench.claim_own(most=9, limits=limits)


@scenario
async def test_pause_stops_every_claim_of_a_project_and_new_lanes_too(bench: Bench) -> None:
    await bench.add()
    pausing = Pausing(PROJECT, True, "night", bench.clock.wall_ms())
    await bench.store.pause(pausing)
    await bench.add(lane="new")
    assert not await bench.claim_own(most=5)
    assert await bench.claim() is None
    await bench.store.pause(Pausing(PROJECT, False, "", bench.clock.wall_ms()))
    assert len(await bench.claim_own(most=5)) == 2


@scenario
async def test_pause_of_the_whole_daemon(bench: Bench) -> None:
    await bench.add()
    await bench.store.pause(Pausing(None, True, "", bench.clock.wall_ms()))
    assert await bench.store.daemon_paused() == ""
    assert not await bench.claim_own()
    await bench.store.pause(Pausing(None, False, "", bench.clock.wall_ms()))
    assert await bench.claim_own()


@scenario
async def test_a_project_without_a_path_or_with_its_path_gone_is_left_alone_by_the_daemon(bench: Bench) -> None:
    nowhere = ProjectRef("name:x", "x", None)
    await bench.add(nowhere)
    assert not await bench.claim_own()
    assert await bench.claim(project="name:x")
    quest = await bench.add(max_attempts=1)
    (claimed,) = await bench.claim_own()
    assert await bench.finish(claimed, "released", path_missing=True) == "queued"
    assert not await bench.claim_own()
    assert await bench.store.missing_paths() == [("/p", "/p")]
    await bench.store.path_missing("/p", False)
    (claimed,) = await bench.claim_own()
    assert claimed.quest.id == quest


@scenario
async def test_waiting_quests_are_bounded(bench: Bench) -> None:
    await bench.add()
    with pytest.raises(LimitReached):
        await bench.store.add(type(bench.request())(PROJECT, (bench.quest(),), bench.clock.wall_ms(), max_waiting=1))


@scenario
async def test_of_many_that_are_due_together_the_best_is_claimed_first(bench: Bench) -> None:
    """However many time gates open at once: nothing is claimed before all of them are open."""
    later = bench.clock.wall_ms() + 1000
    quests = [bench.quest(scheduled_at=later) for _ in range(1100)]
    urgent = bench.quest(scheduled_at=later, priority=9)
    await bench.store.add(bench.request(*quests, urgent))
    bench.clock.advance(1000)
    turns = 0
    while not (claimed := await bench.claim_own(most=2)):
        turns += 1
        assert turns < 5
    assert [each.quest.priority for each in claimed] == [9, 0]


@scenario
async def test_the_next_that_a_person_runs_may_have_come_due_this_moment(bench: Bench) -> None:
    first = await bench.add(scheduled_at=bench.clock.wall_ms() + 1000)
    await bench.add()
    bench.clock.advance(1000)
    claimed = await bench.store.claim_now(ClaimNow("daemon-1", bench.clock.wall_ms(), 120_000, project="/p"))
    assert claimed
    assert claimed.quest.id == first
