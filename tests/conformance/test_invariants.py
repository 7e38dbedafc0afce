"""The seven invariants, and what guards them. Every store passes these as they are."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from questlined.store.protocol import Fence, Limits, Page, Pausing, ProjectRef, Reclaim, Token
from questlined.wire.errors import Conflict, DependencyInvalid, LimitReached, StaleLease, WrongState
from tests.support.stores import POLICY, PROJECT, Bench, on_store

Scenario = Callable[[Bench], Awaitable[None]]


def scenario(body: Scenario) -> Callable[[Path], None]:
    """A test whose body gets a new store."""

    @functools.wraps(body, assigned=("__name__", "__doc__", "__module__"))
    def test(tmp_path: Path) -> None:
        on_store(tmp_path, body)

    del test.__wrapped__  # pytest would read the body's signature
    return test


def reclaim(bench: Bench, **fields: object) -> Reclaim:
    return Reclaim(bench.clock.wall_ms(), 0.5, POLICY, **fields)  # type: ignore[arg-type]


@scenario
async def test_a_quest_goes_to_at_most_one_live_attempt(bench: Bench) -> None:
    """Eight claimers, one quest: one wins."""
    await bench.add()
    won = await asyncio.gather(*(bench.claim(f"worker-{n}") for n in range(8)))
    assert sum(claimed is not None for claimed in won) == 1


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
async def test_an_unfinished_dependency_holds_a_quest_back_even_when_its_lane_is_free(bench: Bench) -> None:
    root = await bench.add(lane="a")
    child = await bench.add(lane="b", depends_on=(root,), priority=9)
    (claimed,) = await bench.claim_own(most=5)
    assert claimed.quest.id == root
    await bench.finish(claimed)
    (claimed,) = await bench.claim_own(most=5)
    assert claimed.quest.id == child


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
async def test_failure_cascades_and_retry_revives_only_what_failed_through_it(bench: Bench) -> None:
    """root → a → b, other → c, and d depends on both: d stays failed until both are back."""
    root, other = await bench.add(priority=9), await bench.add(priority=8)
    a = await bench.add(depends_on=(root,))
    b = await bench.add(depends_on=(a,))
    c = await bench.add(depends_on=(other,))
    d = await bench.add(depends_on=(root, other))
    for claimed in await bench.claim_own(most=2):
        assert await bench.finish(claimed, "failed") == "failed"
    assert [await bench.state(q) for q in (a, b, c, d)] == ["failed"] * 4
    found = await bench.store.quest(b)
    assert found
    assert (found.failure_kind, found.failed_dependency_id) == ("dependency", a)
    await bench.store.retry(bench.steer(root))
    assert [await bench.state(q) for q in (root, a, b, c, d)] == ["queued", "queued", "queued", "failed", "failed"]
    with pytest.raises(WrongState):
        await bench.store.retry(bench.steer(d))
    await bench.store.retry(bench.steer(other))
    assert [await bench.state(q) for q in (other, c, d)] == ["queued"] * 3


@scenario
async def test_a_chain_of_5000_fails_and_comes_back(bench: Bench) -> None:
    quests = [bench.quest()]
    for _ in range(4999):
        quests.append(bench.quest(depends_on=(quests[-1].id,)))
    await bench.store.add(bench.request(*quests))
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed, "failed")
    assert (await bench.store.counts("/p"))["failed"] == 5000
    await bench.store.retry(bench.steer(quests[0].id))
    assert (await bench.store.counts("/p"))["queued"] == 5000
    assert [c.quest.id for c in await bench.claim_own(most=5)] == [quests[0].id]


@scenario
async def test_a_quest_added_on_a_dead_dependency_is_failed_by_it(bench: Bench) -> None:
    root = await bench.add()
    await bench.store.cancel(bench.steer(root))
    child = await bench.add(depends_on=(root,))
    assert await bench.state(child) == "failed"
    await bench.store.retry(bench.steer(root))
    assert await bench.state(child) == "queued"


@scenario
async def test_dependencies_must_exist_in_the_same_project(bench: Bench) -> None:
    far = await bench.add(ProjectRef("/q", None, "/q"))
    for wrong, reason in (("q-nothing", "not_found"), (far, "cross_project")):
        with pytest.raises(DependencyInvalid) as refused:
            await bench.add(depends_on=(wrong,))
        assert refused.value.details["reason"] == reason
    assert sum((await bench.store.counts("/p")).values()) == 0


@scenario
async def test_add_many_is_all_or_nothing(bench: Bench) -> None:
    good, bad = bench.quest(), bench.quest(depends_on=("q-nothing",))
    with pytest.raises(DependencyInvalid):
        await bench.store.add(bench.request(good, bad))
    assert await bench.store.quest(good.id) is None


@scenario
async def test_cancel_of_a_running_quest_waits_for_its_end(bench: Bench) -> None:
    quest = await bench.add()
    child = await bench.add(depends_on=(quest,))
    (claimed,) = await bench.claim_own()
    await bench.store.cancel(bench.steer(quest, reason="wrong"))
    assert await bench.state(quest) == "running"
    assert bench.seen[-1].stop == [quest]
    assert await bench.finish(claimed, "ok") == "cancelled"
    assert await bench.state(child) == "failed"
    found = await bench.store.quest(quest)
    assert found
    assert (found.reason, found.refunds) == ("wrong", 1)


@scenario
async def test_an_outside_holder_is_told_of_a_cancel_and_cancelled_without_it(bench: Bench) -> None:
    quest = await bench.add()
    claimed = await bench.claim()
    assert claimed
    await bench.store.cancel(bench.steer(quest))
    assert (await bench.store.heartbeat(claimed.fence, bench.clock.wall_ms(), 1000)).cancel_requested
    bench.clock.advance(3_600_000)
    assert await bench.store.expire(reclaim(bench)) == 1
    assert await bench.state(quest) == "cancelled"


@scenario
async def test_final_states_are_left_only_by_retry(bench: Bench) -> None:
    quest = await bench.add()
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed)
    for call in (bench.store.cancel, bench.store.retry):
        with pytest.raises(WrongState):
            await call(bench.steer(quest))


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
async def test_recovery_interrupts_what_an_earlier_daemon_held(bench: Bench) -> None:
    ours, theirs = await bench.add(priority=1), await bench.add()
    await bench.claim_own()
    await bench.claim()
    assert await bench.store.recover(reclaim(bench), {}) == [ours]
    assert (await bench.state(ours), await bench.state(theirs)) == ("interrupted", "running")


@scenario
async def test_a_verdict_from_inside_counts_at_the_end(bench: Bench) -> None:
    quest = await bench.add()
    (claimed,) = await bench.claim_own()
    await bench.store.verdict(claimed.fence, '{"klass": "blocked", "question": "a or b?"}', None)
    assert await bench.state(quest) == "running"
    assert await bench.finish(claimed, "ok") == "blocked"


@scenario
async def test_a_repeated_request_answers_the_same_and_doubles_nothing(bench: Bench) -> None:
    token = Token(1000, "r1", "body")
    first = await bench.store.add(bench.request(bench.quest(), token=token))
    assert await bench.store.add(bench.request(bench.quest(), token=token)) == first
    with pytest.raises(Conflict):
        await bench.store.add(bench.request(bench.quest(), token=Token(1000, "r1", "other")))
    assert (await bench.store.counts("/p"))["queued"] == 1
    again = await bench.store.add(bench.request(bench.quest(), token=Token(1001, "r1", "other")))
    assert again != first


@scenario
async def test_a_repeated_claim_gets_the_same_attempt_and_a_repeated_refusal_stays(bench: Bench) -> None:
    quest = await bench.add()
    one = await bench.claim(token=Token(0, "c", "b"))
    two = await bench.claim(token=Token(0, "c", "b"))
    assert one
    assert two
    assert (one.fence, one.run.run_number) == (two.fence, two.run.run_number)
    await bench.finish(one)
    for _ in range(2):
        with pytest.raises(WrongState):
            await bench.store.cancel(bench.steer(quest, token=Token(0, "x", "b")))


@scenario
async def test_waiting_quests_are_bounded(bench: Bench) -> None:
    await bench.add()
    with pytest.raises(LimitReached):
        await bench.store.add(type(bench.request())(PROJECT, (bench.quest(),), bench.clock.wall_ms(), max_waiting=1))


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
async def test_retry_keeps_arguments_and_place(bench: Bench) -> None:
    first = await bench.add(name="n", task="t", context="c")
    second = await bench.add()
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed, "failed")
    before = await bench.store.quest(first)
    await bench.store.retry(bench.steer(first))
    after = await bench.store.quest(first)
    assert before
    assert after
    kept = ("name", "task", "context", "created_at", "priority", "role")
    assert [getattr(before, name) for name in kept] == [getattr(after, name) for name in kept]
    assert [(await bench.claim_own())[0].quest.id for _ in range(2)] == [first, second]


@scenario
async def test_counts_follow_every_move(bench: Bench) -> None:
    for _ in range(3):
        await bench.add()
    (claimed,) = await bench.claim_own()
    await bench.store.cancel(bench.steer((await bench.store.page(Page(30, project="/p")))[0].id))
    assert await bench.store.counts("/p") == await bench.store.counts(None)
    assert {k: v for k, v in (await bench.store.counts("/p")).items() if v} == {
        "queued": 1,
        "running": 1,
        "cancelled": 1,
    }
    await bench.finish(claimed)
    assert (await bench.store.counts("/p"))["done"] == 1
