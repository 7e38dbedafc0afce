"""Leases, fencing, order, retries and run numbers. Every store passes these as they are."""

from __future__ import annotations

import asyncio

import pytest

from questlined.store.protocol import Fence, ProjectRef
from questlined.wire.errors import StaleLease
from tests.support.stores import POLICY, Bench, reclaim, scenario


@scenario
async def test_a_quest_goes_to_at_most_one_live_attempt(bench: Bench) -> None:
    """Eight claimers, one quest: one wins."""
    await bench.add()
    won = await asyncio.gather(*(bench.claim(f"worker-{n}") for n in range(8)))
    assert sum(claimed is not None for claimed in won) == 1


@scenario
async def test_run_numbers_are_monotonic_and_gapless_per_project(bench: Bench) -> None:
    other = ProjectRef("/q", None, "/q")
    for number in range(6):
        await bench.add(other if number % 3 == 0 else None)
    numbers: dict[str, list[int]] = {"/p": [], "/q": []}
    for klass in ("ok", "failed", "interrupted", "ok", "ok", "ok", "ok"):
        for claimed in await bench.claim_own():
            numbers[claimed.quest.project].append(claimed.run.run_number)
            await bench.finish(claimed, klass)
    assert numbers["/p"] == list(range(1, len(numbers["/p"]) + 1))
    assert numbers["/q"] == list(range(1, len(numbers["/q"]) + 1))
    assert len(numbers["/p"]) + len(numbers["/q"]) == 7


@scenario
async def test_an_expired_lease_is_reaped_and_its_quest_returned(bench: Bench) -> None:
    quest = await bench.add(external=True)
    first = await bench.claim(lease_ms=1000)
    assert first
    assert await bench.store.expire(reclaim(bench)) == 0
    bench.clock.advance(1001)
    assert await bench.store.expire(reclaim(bench)) == 1
    assert await bench.state(quest) == "interrupted"
    second = await bench.claim("worker-2")
    assert second
    assert (second.run.lease_gen, second.run.attempt) == (2, 2)
    with pytest.raises(StaleLease):
        await bench.finish(first)
    with pytest.raises(StaleLease):
        await bench.store.heartbeat(first.fence, bench.clock.wall_ms(), 1000)
    assert await bench.finish(second) == "done"


@scenario
async def test_expiry_may_fail_the_quest_instead(bench: Bench) -> None:
    quest = await bench.add()
    await bench.claim(lease_ms=1000)
    bench.clock.advance(2000)
    assert await bench.store.expire(reclaim(bench, fail=True)) == 1
    assert await bench.state(quest) == "failed"


@scenario
async def test_finishing_twice_is_refused(bench: Bench) -> None:
    """Two finalizers racing: one wins, side effects are recorded once."""
    await bench.add()
    claimed = await bench.claim()
    assert claimed
    ends = await asyncio.gather(
        bench.finish(claimed, notify=frozenset({"done"})),
        bench.finish(claimed, notify=frozenset({"done"})),
        return_exceptions=True,
    )
    assert [end for end in ends if end == "done"] == ["done"]
    assert sum(isinstance(end, StaleLease) for end in ends) == 1


@scenario
async def test_another_owner_or_generation_cannot_write(bench: Bench) -> None:
    quest = await bench.add()
    claimed = await bench.claim()
    assert claimed
    for fence in (Fence(quest, "somebody", 1), Fence(quest, "worker-1", 2), Fence("q-none", "worker-1", 1)):
        with pytest.raises(StaleLease):
            await bench.store.heartbeat(fence, bench.clock.wall_ms(), 1)
        with pytest.raises(StaleLease):
            await bench.store.verdict(fence, "{}", None)
    assert await bench.state(quest) == "running"


@scenario
async def test_fail_requeues_with_backoff_until_no_attempt_is_left(bench: Bench) -> None:
    quest = await bench.add(max_attempts=2)
    (first,) = await bench.claim_own()
    assert await bench.finish(first, "failed", error="boom") == "queued"
    assert not await bench.claim_own()
    assert await bench.store.next_due() == bench.clock.wall_ms() + 1000
    bench.clock.advance(1000)
    (second,) = await bench.claim_own()
    assert await bench.finish(second, "failed", error="boom") == "failed"
    found = await bench.store.quest(quest)
    assert found
    assert (found.failure_kind, found.error, found.attempts) == ("execution", "boom", 2)


@scenario
async def test_block_does_not_requeue(bench: Bench) -> None:
    quest = await bench.add(max_attempts=5)
    claimed = await bench.claim()
    assert claimed
    assert await bench.finish(claimed, "blocked", question="which one?") == "blocked"
    assert await bench.claim() is None
    await bench.store.retry(bench.steer(quest))
    assert await bench.claim()


@scenario
async def test_order_is_priority_then_age(bench: Bench) -> None:
    first, second = await bench.add(), await bench.add()
    urgent = await bench.add(priority=5)
    got = [(await bench.claim_own())[0].quest.id for _ in range(3)]
    assert got == [urgent, first, second]


@scenario
async def test_an_uncharged_end_is_refunded_and_bounded(bench: Bench) -> None:
    quest = await bench.add(max_attempts=1)
    for _ in range(POLICY.max_interruptions):
        (claimed,) = await bench.claim_own()
        assert await bench.finish(claimed, "interrupted") == "interrupted"
    found = await bench.store.quest(quest)
    assert found
    assert (found.attempts, found.refunds, found.max_attempts) == (5, 5, 6)
    (claimed,) = await bench.claim_own()
    assert await bench.finish(claimed, "interrupted") == "failed"
    found = await bench.store.quest(quest)
    assert found
    assert found.failure_kind == "interrupted"
    await bench.store.retry(bench.steer(quest))
    found = await bench.store.quest(quest)
    assert found
    assert (found.interruptions, found.state) == (0, "queued")


@scenario
async def test_a_suspend_moves_every_lease(bench: Bench) -> None:
    await bench.add()
    claimed = await bench.claim(lease_ms=1000)
    assert claimed
    bench.clock.suspend(8 * 3_600_000)
    await bench.store.shift_leases(8 * 3_600_000)
    assert await bench.store.expire(reclaim(bench)) == 0
    assert await bench.finish(claimed) == "done"


@scenario
async def test_what_was_made_after_a_jump_does_not_move_with_it(bench: Bench) -> None:
    """Leases that were made or extended since, and backoffs that began since."""
    early, extended, late = [await bench.add(max_attempts=2, backoff_base_ms=1000) for _ in range(3)]
    held = [claimed for _ in (early, extended) if (claimed := await bench.claim(lease_ms=1000))]
    bench.clock.advance(10)
    since = bench.clock.wall_ms()
    await bench.store.heartbeat(held[1].fence, since, 1000)
    held += [claimed for claimed in [await bench.claim(lease_ms=1000)] if claimed]
    await bench.store.shift_leases(-10_000, (since, since))
    assert await bench.store.expire(reclaim(bench)) == 1
    assert [await bench.state(quest) for quest in (early, extended, late)] == ["interrupted", "running", "running"]
    await bench.finish(held[1], "failed")
    bench.clock.advance(10)
    await bench.finish(held[2], "failed")
    await bench.store.shift_retries(-500, (since + 10, since + 10))
    rows = [await bench.store.quest(quest) for quest in (extended, late)]
    assert [row.retry_at for row in rows if row] == [since + 1000 - 500, since + 10 + 1000]
