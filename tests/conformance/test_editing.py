"""Editing and blocking quests that wait. Every store passes these as they are."""

from __future__ import annotations

from typing import Any

import pytest

from questlined.core.quest import INTEGER_MAX
from questlined.store.protocol import Block, Edit, Token
from questlined.store.rows import Quest
from questlined.wire.errors import Conflict, InvalidInput, NotFound, WrongState
from tests.support.stores import POLICY, Bench, scenario


async def edit(bench: Bench, quest: str, **fields: Any) -> Quest:
    """Edit a quest; as it is afterwards."""
    request = Edit(quest, bench.clock.wall_ms(), **({"check": lambda _: None} | fields))
    assert await bench.store.edit(request) == quest
    return await row(bench, quest)


async def row(bench: Bench, quest: str) -> Quest:
    found = await bench.store.quest(quest)
    assert found
    return found


async def block(bench: Bench, quest: str, **fields: Any) -> str:
    return await bench.store.block(Block(quest, bench.clock.wall_ms(), **fields))


async def said(bench: Bench, quest: str) -> list[tuple[str, str]]:
    """The quest's events and their data, newest first."""
    found = await bench.store.events(quest=quest, project=None, before=None, limit=100)
    return [(event.event, event.data) for event in found]


async def claimed(bench: Bench) -> list[str]:
    """What the daemon claims now, one after another."""
    return [each.quest.id for each in await bench.claim_own(most=99)]


@scenario
async def test_an_edit_changes_what_was_given_and_nothing_else(bench: Bench) -> None:
    quest = await bench.add(context="c", timeout_ms=5, priority=1, name="given")
    before = await row(bench, quest)
    bench.clock.advance(10)
    after = await edit(bench, quest, task="false", priority=7)
    assert (after.task, after.priority, after.updated_at) == ("false", 7, before.updated_at + 10)
    kept = [name for name in Quest.__slots__ if name not in ("task", "priority", "updated_at")]
    assert [getattr(before, name) for name in kept] == [getattr(after, name) for name in kept]
    assert (await said(bench, quest))[0] == ("edited", '{"fields": ["task", "priority"]}')


@scenario
async def test_what_may_be_absent_is_cleared(bench: Bench) -> None:
    later = bench.clock.wall_ms() + 1000
    quest = await bench.add(context="c", timeout_ms=5, lane="docs", scheduled_at=later, max_attempts=3)
    after = await edit(bench, quest, context="", timeout_ms=0, lane="", not_before=0, max_attempts=0)
    assert (after.context, after.timeout_ms, after.lane, after.scheduled_at, after.max_attempts) == (
        None,
        None,
        None,
        0,
        0,
    )
    assert await claimed(bench) == [quest]


@scenario
async def test_the_same_values_again_are_no_edit(bench: Bench) -> None:
    quest = await bench.add(task="t", priority=3, lane="docs")
    before = await row(bench, quest)
    bench.clock.advance(10)
    assert await edit(bench, quest, task="t", priority=3, lane="docs", context="") == before
    assert [event for event, _ in await said(bench, quest)] == ["enqueued"]


@scenario
async def test_a_name_that_came_of_the_task_goes_with_it(bench: Bench) -> None:
    made, given = await bench.add(task="one\nmore", name="one"), await bench.add(task="one", name="other")
    assert (await edit(bench, made, task="two\nmore")).name == "two"
    assert (await edit(bench, given, task="two")).name == "other"
    assert (await edit(bench, made, task="three", name="four")).name == "four"
    assert (await said(bench, made))[1][1] == '{"fields": ["task", "name"]}'


@scenario
async def test_another_priority_is_another_place(bench: Bench) -> None:
    first, second, third = [await bench.add() for _ in range(3)]
    await edit(bench, third, priority=5)
    await edit(bench, first, priority=-1)
    assert bench.seen[-1].claimable == {"/p"}
    assert await claimed(bench) == [third, second, first]


@scenario
async def test_a_quest_put_off_waits_and_one_put_on_does_not(bench: Bench) -> None:
    now = bench.clock.wall_ms()
    sooner, later = await bench.add(scheduled_at=now + 5000), await bench.add()
    await edit(bench, sooner, not_before=now)
    await edit(bench, later, not_before=now + 5000)
    assert bench.seen[-1].due == now + 5000
    assert await bench.store.next_due() == now + 5000
    assert await claimed(bench) == [sooner]
    bench.clock.advance(5000)
    assert await claimed(bench) == [later]


@scenario
async def test_an_edit_leaves_a_backoff_as_it_is(bench: Bench) -> None:
    quest = await bench.add(max_attempts=3)
    (held,) = await bench.claim_own()
    await bench.finish(held, "failed")
    before = await row(bench, quest)
    after = await edit(bench, quest, not_before=0, priority=9, task="again")
    assert after.retry_at == before.retry_at == bench.clock.wall_ms() + 1000
    assert await claimed(bench) == []
    bench.clock.advance(1000)
    assert await claimed(bench) == [quest]


@scenario
async def test_another_lane_is_held_by_its_own_quests(bench: Bench) -> None:
    """The lane is made with the slots that the configuration gives it."""
    holds, moves, stays = [await bench.add(lane="docs") for _ in range(3)]
    assert await claimed(bench) == [holds]
    await edit(bench, moves, lane="wide", lane_slots={"wide": 2})
    others = [await bench.add(lane="wide") for _ in range(2)]
    assert await claimed(bench) == [moves, others[0]]
    await edit(bench, stays, lane="")
    assert await claimed(bench) == [stays]
    back = await bench.add()
    await edit(bench, back, lane="docs")
    assert await claimed(bench) == []


@scenario
async def test_attempts_are_counted_as_people_see_them(bench: Bench) -> None:
    """An uncharged attempt raises what is stored; no bound stays no bound."""
    quest = await bench.add(max_attempts=2)
    (held,) = await bench.claim_own()
    await bench.finish(held, "interrupted")
    after = await edit(bench, quest, max_attempts=3)
    assert (after.max_attempts, after.refunds) == (4, 1)
    assert (await edit(bench, quest, max_attempts=0)).max_attempts == 0
    assert (await edit(bench, quest, max_attempts=1)).max_attempts == 2
    (held,) = await bench.claim_own()
    assert await bench.finish(held, "failed") == "failed"


@scenario
async def test_a_check_sees_the_quest_as_it_will_be_and_may_refuse_it(bench: Bench) -> None:
    quest = await bench.add(context="c")
    seen: list[Quest] = []

    def refuse(edited: Quest) -> None:
        seen.append(edited)
        raise InvalidInput("no", field="task")

    with pytest.raises(InvalidInput):
        await edit(bench, quest, task="large", check=refuse)
    assert {(edited.task, edited.context) for edited in seen} == {("large", "c")}
    assert (await row(bench, quest)).task == "true"
    assert [event for event, _ in await said(bench, quest)] == ["enqueued"]


@scenario
async def test_a_blocked_quest_can_be_edited_and_stays_blocked(bench: Bench) -> None:
    quest = await bench.add()
    await block(bench, quest)
    after = await edit(bench, quest, task="other", lane="docs", priority=INTEGER_MAX, not_before=INTEGER_MAX)
    assert (after.state, after.task) == ("blocked", "other")
    assert (bench.seen[-1].claimable, bench.seen[-1].due, await bench.store.next_due()) == (set(), None, None)
    await edit(bench, quest, not_before=0)
    await bench.store.retry(bench.steer(quest))
    assert await claimed(bench) == [quest]


@scenario
async def test_a_quest_that_runs_or_is_over_cannot_be_edited(bench: Bench) -> None:
    running, done = await bench.add(), await bench.add()
    cancelled, failed = await bench.add(), await bench.add()
    await bench.store.cancel(bench.steer(cancelled))
    held = {each.quest.id: each for each in await bench.claim_own(most=9)}
    await bench.finish(held[done])
    await bench.finish(held[failed], "failed")
    for quest, state in ((running, "running"), (done, "done"), (cancelled, "cancelled"), (failed, "failed")):
        before = await row(bench, quest)
        with pytest.raises(WrongState) as caught:
            await edit(bench, quest, task="x")
        assert caught.value.details == {"id": quest, "state": state}
        assert caught.value.hint
        assert await row(bench, quest) == before
    with pytest.raises(NotFound):
        await edit(bench, "q-000000000bad", task="x")


@scenario
async def test_a_repeated_edit_is_not_done_again(bench: Bench) -> None:
    """What came after it stands; a refusal is repeated, too."""
    quest = await bench.add()
    token = Token(1000, "e", "body")
    await edit(bench, quest, task="one", token=token)
    await edit(bench, quest, task="two")
    assert (await edit(bench, quest, task="one", token=token)).task == "two"
    with pytest.raises(Conflict):
        await edit(bench, quest, task="one", token=Token(1000, "e", "other"))
    (held,) = await bench.claim_own()
    assert (await edit(bench, quest, task="one", token=token)).state == "running"
    for _ in range(2):
        with pytest.raises(WrongState):
            await edit(bench, quest, task="three", token=Token(1000, "f", "body"))
        if held:
            await bench.finish(held, "interrupted")
            held = None  # type: ignore[assignment]
    assert (await row(bench, quest)).task == "two"


@scenario
async def test_a_person_keeps_a_quest_out_of_the_queue(bench: Bench) -> None:
    """Dependents wait; a retry brings it back."""
    quest = await bench.add()
    child = await bench.add(depends_on=(quest,))
    await block(bench, quest, reason="not yet", question="a or b?", choices='["a", "b"]')
    found = await row(bench, quest)
    assert (found.state, found.class_, found.reason, found.question, found.choices) == (
        "blocked",
        "blocked",
        "not yet",
        "a or b?",
        '["a", "b"]',
    )
    assert (await said(bench, quest))[0] == ("blocked", '{"reason": "not yet", "question": "a or b?"}')
    assert bench.seen[-1].changed == {quest: "blocked"}
    assert (await claimed(bench), await bench.state(child)) == ([], "queued")
    await bench.store.retry(bench.steer(quest))
    assert await claimed(bench) == [quest]


@scenario
async def test_an_interrupted_or_waiting_quest_is_blocked_and_not_charged(bench: Bench) -> None:
    interrupted = await bench.add()
    (held,) = await bench.claim_own()
    await bench.finish(held, "interrupted")
    await block(bench, interrupted)
    waiting = await bench.add(scheduled_at=bench.clock.wall_ms() + 1000)
    await block(bench, waiting)
    bench.clock.advance(5000)
    assert await claimed(bench) == []
    assert [(await row(bench, quest)).refunds for quest in (interrupted, waiting)] == [1, 0]
    assert await bench.store.next_due() is None


@scenario
async def test_what_the_daemon_runs_is_blocked_when_it_ends(bench: Bench) -> None:
    """Unless what it says of itself afterwards is something else: the last word counts."""
    first, second = await bench.add(), await bench.add()
    one, two = await bench.claim_own(most=2)
    for quest in (first, second):
        await block(bench, quest, reason="look at it")
        assert await bench.state(quest) == "running"
    await bench.store.verdict(two.fence, '{"klass": "ok"}', None)
    assert (await bench.finish(one, "ok"), await bench.finish(two, "ok")) == ("blocked", "done")
    assert (await row(bench, first)).reason == "look at it"


@scenario
async def test_a_block_is_lost_on_what_is_over_or_held_outside(bench: Bench) -> None:
    """One that is blocked already keeps its question."""
    outside, blocked, cancelling, done = [await bench.add(priority=-n) for n in range(4)]
    await bench.claim()
    await block(bench, blocked, question="first")
    held = {each.quest.id: each for each in await bench.claim_own(most=9)}
    await bench.store.cancel(bench.steer(cancelling))
    await bench.finish(held[done])
    for quest, state in ((outside, "running"), (blocked, "blocked"), (cancelling, "running"), (done, "done")):
        with pytest.raises(WrongState) as caught:
            await block(bench, quest, question="second")
        assert caught.value.details == {"id": quest, "state": state}
        assert caught.value.hint
    assert (await row(bench, blocked)).question == "first"
    assert await bench.finish(held[cancelling], "ok") == "cancelled"
    with pytest.raises(NotFound):
        await block(bench, "q-000000000bad")


@scenario
async def test_a_repeated_block_does_not_undo_a_retry(bench: Bench) -> None:
    quest = await bench.add()
    token = Token(1000, "b", "body")
    await block(bench, quest, token=token)
    await bench.store.retry(bench.steer(quest))
    assert await block(bench, quest, token=token) == quest
    assert await bench.state(quest) == "queued"


@scenario
async def test_a_dependency_that_dies_takes_a_blocked_quest_along(bench: Bench) -> None:
    quest = await bench.add()
    child = await bench.add(depends_on=(quest,))
    await block(bench, child)
    (held,) = await bench.claim_own()
    await bench.finish(held, "failed", policy=POLICY)
    assert await bench.state(child) == "failed"
