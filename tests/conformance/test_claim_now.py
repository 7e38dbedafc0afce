"""Claims that a person makes for the daemon: past pause and concurrency, and past nothing else. Every store passes
these as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from questlined.core.limits import Limits
from questlined.store.protocol import Block, Claimed, ClaimNow, Pausing, ProjectRef, Token
from questlined.wire.errors import NotFound, WrongState
from tests.support.stores import PROJECT, Bench, scenario


async def now(bench: Bench, quest: str | None = None, **fields: Any) -> Claimed | None:
    """Claim a quest, or the best of /p."""
    base: dict[str, Any] = {"quest": quest, "project": "/p" if quest is None else None} | fields
    return await bench.store.claim_now(ClaimNow("daemon-1", bench.clock.wall_ms(), 120_000, **base))


async def taken(bench: Bench, quest: str, **fields: Any) -> Claimed:
    """Claim a quest, which must work."""
    claimed = await now(bench, quest, **fields)
    assert claimed
    assert (claimed.quest.id, claimed.quest.state, claimed.quest.own) == (quest, "running", 1)
    return claimed


async def gated(bench: Bench, quest: str, *says: str) -> None:
    """The quest is refused, and the message has these words; nothing has changed."""
    before = await bench.store.quest(quest)
    assert before
    with pytest.raises(WrongState) as caught:
        await now(bench, quest)
    assert [word for word in says if word not in caught.value.message] == []
    assert caught.value.details == {"id": quest, "state": before.state}
    assert caught.value.hint
    assert await bench.store.quest(quest) == before


@scenario
async def test_a_named_quest_is_claimed_before_better_ones(bench: Bench) -> None:
    """Under a lease, an attempt and a run number like any other."""
    urgent, quest = await bench.add(priority=9), await bench.add()
    claimed = await taken(bench, quest)
    assert (claimed.run.attempt, claimed.run.run_number, claimed.path, claimed.again) == (1, 1, "/p", False)
    assert bench.seen[-1].changed == {quest: "running"}
    (other,) = await bench.claim_own()
    assert (other.quest.id, other.run.run_number) == (urgent, 2)
    assert await bench.store.extend_own("daemon-1", bench.clock.wall_ms(), 120_000) == 2
    assert (await bench.finish(claimed), await bench.finish(other)) == ("done", "done")


@scenario
async def test_pause_and_concurrency_are_passed_by(bench: Bench) -> None:
    """A role's and a project's limits are exceeded, and still bind all other claims until the excess has ended."""
    limits = Limits(role={"review": 1}, project=1)
    quests = [await bench.add(role="review") for _ in range(4)]
    (held,) = await bench.claim_own(limits=limits)
    for pausing in (Pausing(PROJECT, True, "", 0), Pausing(None, True, "", 0)):
        await bench.store.pause(pausing)
    more = await taken(bench, quests[1], limits=limits)
    best = await now(bench, limits=limits)
    assert best
    assert best.quest.id == quests[2]
    for pausing in (Pausing(PROJECT, False, "", 0), Pausing(None, False, "", 0)):
        await bench.store.pause(pausing)
    for ended in (more, best):
        assert await bench.claim_own(most=9, limits=limits) == []
        await bench.finish(ended, limits=limits)
    assert await bench.claim_own(most=9, limits=limits) == []
    await bench.finish(held, limits=limits)
    assert [each.quest.id for each in await bench.claim_own(most=9, limits=limits)] == [quests[3]]


@scenario
async def test_what_a_person_runs_counts_for_the_limits_of_others(bench: Bench) -> None:
    """From its start to its end."""
    for limits, role in ((Limits(role={"review": 1}), "review"), (Limits(project=1), "build")):
        first, second = await bench.add(role=role), await bench.add(role=role)
        claimed = await taken(bench, first, limits=limits)
        assert await bench.claim_own(most=9, limits=limits) == []
        await bench.finish(claimed, limits=limits)
        (other,) = await bench.claim_own(most=9, limits=limits)
        assert other.quest.id == second
        await bench.finish(other, limits=limits)


@scenario
async def test_a_named_quest_is_claimed_before_its_time_and_waits_for_it_again(bench: Bench) -> None:
    """If it comes back; a backoff is over with the next attempt."""
    later = bench.clock.wall_ms() + 10_000
    quest = await bench.add(scheduled_at=later, max_attempts=3)
    assert await now(bench) is None
    claimed = await taken(bench, quest)
    assert await bench.finish(claimed, "interrupted") == "interrupted"
    assert bench.seen[-1].due == later
    assert (await bench.claim_own(), await bench.store.next_due()) == ([], later)
    assert await bench.finish(await taken(bench, quest), "failed") == "queued"
    bench.clock.advance(2000)
    assert (await bench.claim_own(), await bench.store.next_due()) == ([], later)
    bench.clock.advance(8000)
    (claimed,) = await bench.claim_own()
    assert await bench.finish(claimed, "failed") == "queued"
    assert (await taken(bench, quest)).run.attempt == 4


@scenario
async def test_the_best_of_a_project_is_the_daemons_own_choice(bench: Bench) -> None:
    """By priority, then by age; not what is external, early, of another project or in a busy lane."""
    other = ProjectRef("/q", None, "/q")
    await bench.add(other, priority=99)
    await bench.add(external=True, priority=9)
    await bench.add(scheduled_at=bench.clock.wall_ms() + 1, priority=9)
    in_lane, _ = await bench.add(lane="docs", priority=8), await bench.add(lane="docs", priority=8)
    plain, urgent = await bench.add(), await bench.add(priority=7)
    assert await bench.claim(lane="docs")
    got = [await now(bench) for _ in range(3)]
    assert [each and each.quest.id for each in got] == [urgent, plain, None]
    assert await bench.state(in_lane) == "running"
    assert await now(bench, project="/nowhere") is None


@scenario
async def test_a_dependency_binds(bench: Bench) -> None:
    quest = await bench.add()
    child = await bench.add(depends_on=(quest,))
    await gated(bench, child, "dependency", quest, "(queued)")
    await bench.finish(await taken(bench, quest))
    await taken(bench, child)


@scenario
async def test_a_lane_binds_whoever_holds_it(bench: Bench) -> None:
    """And its slots are kept apart."""
    quests = [bench.quest(lane="wide") for _ in range(3)]
    await bench.store.add(bench.request(*quests, lane_slots={"wide": 2}))
    outside = await bench.claim()
    assert outside
    mine = await taken(bench, quests[1].id)
    assert {outside.quest.lane_slot, mine.quest.lane_slot} == {1, 2}
    await gated(bench, quests[2].id, "lane wide", outside.quest.id, mine.quest.id)
    assert await now(bench) is None
    await bench.finish(outside)
    assert (await taken(bench, quests[2].id)).quest.lane_slot == outside.quest.lane_slot


@scenario
async def test_what_the_daemon_cannot_run_at_all_is_refused(bench: Bench) -> None:
    external = await bench.add(external=True)
    await gated(bench, external, "external")
    nowhere = ProjectRef("name:x", "x", None)
    homeless = await bench.add(nowhere)
    await gated(bench, homeless, "path", "no path")
    assert await now(bench, project="name:x") is None
    gone = await bench.add()
    await bench.store.path_missing("/p", True)
    await gated(bench, gone, "path", "/p is not there")
    assert await now(bench) is None
    await bench.store.path_missing("/p", False)
    await taken(bench, gone)


@scenario
async def test_only_what_waits_can_be_run(bench: Bench) -> None:
    """What runs, is over, or waits for a person says so."""
    running, done, failed = [await bench.add() for _ in range(3)]
    held = await bench.claim_own(most=3)
    await bench.finish(held[1])
    await bench.finish(held[2], "failed")
    blocked, cancelled = await bench.add(), await bench.add()
    await bench.store.block(Block(blocked, bench.clock.wall_ms()))
    await bench.store.cancel(bench.steer(cancelled))
    states = {running: "running", done: "done", failed: "failed", blocked: "blocked", cancelled: "cancelled"}
    for quest, state in states.items():
        await gated(bench, quest, f"is {state}")
    with pytest.raises(NotFound):
        await now(bench, "q-000000000bad")


@scenario
async def test_of_two_claims_of_one_quest_one_wins(bench: Bench) -> None:
    """Be the other a person's, or the daemon's own."""
    quest = await bench.add()
    won = await asyncio.gather(now(bench, quest), now(bench, quest), return_exceptions=True)
    assert [type(each) for each in won] == [Claimed, WrongState]
    second = await bench.add()
    own, mine = await asyncio.gather(bench.claim_own(most=5), now(bench, second), return_exceptions=True)
    assert not isinstance(own, BaseException)
    assert ([each.quest.id for each in own], type(mine)) == ([second], WrongState)
    third = await bench.add()
    mine, own = await asyncio.gather(now(bench, third), bench.claim_own(most=5))
    assert (isinstance(mine, Claimed), own) == (True, [])


@scenario
async def test_a_repeated_wish_gets_the_same_attempt_and_says_so(bench: Bench) -> None:
    """Though it is over by now. One that found nothing may be repeated until there is something."""
    token = Token(0, "r", "b")
    assert await now(bench, token=token) is None
    quest = await bench.add()
    first = await now(bench, token=token)
    assert first
    await bench.finish(first)
    await bench.add()
    again = await now(bench, token=token)
    assert again
    assert (again.fence, again.again, again.quest.state, again.run.class_) == (first.fence, True, "done", "ok")
    assert await bench.state(quest) == "done"
    assert (await bench.store.counts("/p"))["queued"] == 1
