"""Cancel, retry, recovery, verdicts and repeated requests. Every store passes these as they are."""

from __future__ import annotations

import pytest

from questlined.store.protocol import Adopt, Fence, Token
from questlined.store.reading import Page
from questlined.wire.errors import Conflict, StaleLease, WrongState
from tests.support.stores import Bench, reclaim, scenario


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
async def test_recovery_interrupts_what_an_earlier_daemon_held(bench: Bench) -> None:
    ours, theirs = await bench.add(priority=1), await bench.add()
    await bench.claim_own()
    await bench.claim()
    assert await bench.store.recover(reclaim(bench), {(ours, 1): (), (theirs, 1): ()}) == [ours]
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


@scenario
async def test_changes_of_one_quest_in_one_millisecond_are_all_told(bench: Bench) -> None:
    """Cancelled, queued again and cancelled again while the clock stands: two notifications, no refusal."""
    quest, told = await bench.add(), frozenset({"cancelled"})
    for _ in range(2):
        await bench.store.cancel(bench.steer(quest, notify=told))
        assert await bench.state(quest) == "cancelled"
        await bench.store.retry(bench.steer(quest))
    assert await bench.state(quest) == "queued"


@scenario
async def test_what_is_told_of_an_end_never_meets_what_was_told_of_a_dependency(bench: Bench) -> None:
    """A quest fails by its dependency at the journal's fourth event, and later by itself in its fourth attempt."""
    told = frozenset({"failed"})
    root = await bench.add()
    child = await bench.add(depends_on=(root,), max_attempts=4)
    await bench.store.cancel(bench.steer(root, notify=told))
    await bench.store.retry(bench.steer(root))
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed)
    for expected in ("queued", "queued", "queued", "failed"):
        bench.clock.advance(10_000)
        (claimed,) = await bench.claim_own()
        assert claimed.quest.id == child
        assert await bench.finish(claimed, "failed", notify=told) == expected


@scenario
async def test_adopted_attempts_go_on_under_a_new_owner_at_the_same_generation(bench: Bench) -> None:
    quest, over = await bench.add(priority=1), await bench.add()
    (claimed,) = await bench.claim_own()
    (ended,) = await bench.claim_own()
    await bench.finish(ended)
    bench.clock.advance(1_000_000)
    runs = tuple((each.quest.id, each.run.attempt, each.run.lease_gen) for each in (claimed, ended))
    (adopted,) = await bench.store.adopt(Adopt("daemon-2", bench.clock.wall_ms(), 5000, runs))
    assert (adopted.quest.id, adopted.run.attempt, adopted.run.run_number) == (quest, 1, claimed.run.run_number)
    assert adopted.fence == Fence(quest, "daemon-2", claimed.fence.generation)
    assert adopted.quest.lease_expires_at == bench.clock.wall_ms() + 5000
    with pytest.raises(StaleLease):
        await bench.finish(claimed)
    assert await bench.finish(adopted) == "done"
    assert await bench.state(over) == "done"


@scenario
async def test_what_is_not_held_by_a_daemon_is_not_adopted(bench: Bench) -> None:
    quest = await bench.add()
    claimed = await bench.claim()
    assert claimed
    wrong = [(quest, 1, claimed.run.lease_gen), (quest, 2, claimed.run.lease_gen), ("q-000000000000", 1, 1)]
    assert await bench.store.adopt(Adopt("daemon-2", bench.clock.wall_ms(), 5000, tuple(wrong))) == []
    assert (await bench.finish(claimed)) == "done"
