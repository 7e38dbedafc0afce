"""Recurrences in any store: a time of a rule becomes one quest at most, whoever fires and whatever the clock does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from questlined.core.calendar import ON_TIME_MS, upcoming, zone
from questlined.core.cron import parse
from questlined.store.protocol import Pausing, ProjectRef, Token
from questlined.store.recurrences import AddRecurrence, Fire, Fired, SteerRecurrence
from questlined.store.rows import Quest, Recurrence
from questlined.wire.errors import InvalidInput, LimitReached, NotFound
from tests.support.stores import PROJECT, Bench, scenario

MINUTE, HOUR = 60_000, 3_600_000
START = 1_800_000_000_000  # 08:00 UTC


def rule(bench: Bench, **fields: Any) -> Recurrence:
    """An hourly rule of project /p."""
    base: dict[str, Any] = {
        "id": "r-000000000001",
        "project": "/p",
        "name": "hourly",
        "cron": "0 * * * *",
        "timezone": "UTC",
        "role": "review",
        "task": "look at it",
        "context": None,
        "priority": 0,
        "max_attempts": 3,
        "backoff_base_ms": 1000,
        "catch_up": "one",
        "enabled": 1,
        "last_enqueued_at": None,
        "created_at": bench.clock.wall_ms(),
        "updated_at": bench.clock.wall_ms(),
        "lane": None,
        "timeout_ms": None,
        "external": 0,
        "submitter_uid": 1000,
    } | fields
    if "next_run_at" not in base:
        base["next_run_at"] = upcoming(parse(base["cron"]), zone(base["timezone"]), bench.clock.wall_ms())
    return Recurrence(**base)


async def add(bench: Bench, *, most: int = 1000, token: Token | None = None, **fields: Any) -> str:
    made = rule(bench, **fields)
    where = PROJECT if made.project == "/p" else ProjectRef(made.project, None, made.project)
    return await bench.store.add_recurrence(AddRecurrence(where, made, most, token))


async def fire(bench: Bench, name: str = "r-000000000001", *, token: Token | None = None, waiting: int = 1000) -> Fired:
    chance = f"{bench.clock.wall_ms()}".encode().rjust(16, b"0")
    return await bench.store.fire(Fire(name, bench.clock.wall_ms(), chance, waiting, token=token))


async def quests(bench: Bench, fired: Fired) -> list[Quest]:
    found = [await bench.store.quest(quest) for quest in fired.quests]
    return [quest for quest in found if quest is not None]


def steer(bench: Bench, token: Token | None = None) -> SteerRecurrence:
    return SteerRecurrence("r-000000000001", bench.clock.wall_ms(), token)


async def pause(bench: Bench, paused: bool, *, project: ProjectRef | None = PROJECT) -> None:
    await bench.store.pause(Pausing(project, paused, "lunch" if paused else "", bench.clock.wall_ms()))


@scenario
async def test_a_due_time_becomes_a_quest_with_all_that_the_rule_says(bench: Bench) -> None:
    await add(bench, context="since June", priority=7, lane="web", timeout_ms=9000, external=1)
    assert await fire(bench) == Fired()
    bench.clock.advance(HOUR)
    fired = await fire(bench)
    (quest,) = await quests(bench, fired)
    assert (quest.name, quest.task, quest.context, quest.role) == ("hourly", "look at it", "since June", "review")
    assert (quest.priority, quest.lane, quest.timeout_ms, quest.external) == (7, "web", 9000, 1)
    assert (quest.max_attempts, quest.backoff_base_ms, quest.submitter_uid) == (3, 1000, 1000)
    assert (quest.recurrence_id, quest.occurrence_at) == ("r-000000000001", START + HOUR)
    assert (quest.state, quest.created_at, quest.scheduled_at) == ("queued", START + HOUR, 0)
    (event,) = await bench.store.events(quest=quest.id, project=None, before=None, limit=9)
    assert event.event == "enqueued"
    assert '"recurrenceId":"r-000000000001"' in event.data
    after = await bench.store.recurrence("r-000000000001")
    assert after is not None
    assert (after.next_run_at, after.last_enqueued_at) == (START + 2 * HOUR, START + HOUR)
    assert (await bench.store.counts("/p"))["queued"] == 1


@scenario
async def test_its_quest_is_claimed_like_any_other(bench: Bench) -> None:
    """And the commit says that there is something to claim."""
    await add(bench)
    bench.clock.advance(HOUR)
    bench.seen.clear()
    (quest,) = (await fire(bench)).quests
    assert [seen.claimable for seen in bench.seen] == [{"/p"}]
    assert [claimed.quest.id for claimed in await bench.claim_own()] == [quest]


@scenario
async def test_firing_twice_or_early_adds_nothing_more(bench: Bench) -> None:
    """10 ms before its time, at it, right after it, and a minute later."""
    await add(bench)
    bench.clock.advance(HOUR - 10)
    assert (await fire(bench)).quests == ()
    bench.clock.advance(10)
    assert len((await fire(bench)).quests) == 1
    for later in (0, 1, MINUTE):
        bench.clock.advance(later)
        assert (await fire(bench)).quests == ()
    assert (await bench.store.counts(None))["queued"] == 1


@scenario
async def test_of_many_drivers_at_one_moment_one_adds(bench: Bench) -> None:
    """The others are told that nothing is due."""
    await add(bench)
    bench.clock.advance(HOUR)
    fired = await asyncio.gather(*(fire(bench) for _ in range(8)))
    assert sorted(len(each.quests) for each in fired) == [0] * 7 + [1]
    assert (await bench.store.counts(None))["queued"] == 1


@pytest.mark.parametrize(("catch_up", "hours"), [("one", [6]), ("all", [1, 2, 3, 4, 5, 6]), ("skip", [])])
def test_missed_times_are_made_up_for_by_catch_up(catch_up: str, hours: list[int], tmp_path: Any) -> None:
    """After six hours and a half without anybody who fires; later each comes at its time again."""

    @scenario
    async def body(bench: Bench) -> None:
        await add(bench, catch_up=catch_up)
        bench.clock.advance(6 * HOUR + HOUR // 2)
        made = await quests(bench, await fire(bench))
        assert [quest.occurrence_at for quest in made] == [START + hour * HOUR for hour in hours]
        bench.clock.advance(HOUR // 2)
        (usual,) = await quests(bench, await fire(bench))
        assert usual.occurrence_at == START + 7 * HOUR
        assert (await bench.store.counts(None))["queued"] == len(hours) + 1

    body(tmp_path)


@scenario
async def test_all_is_capped_at_the_last_hundred(bench: Bench) -> None:
    """In their order, and with ids of their own."""
    await add(bench, cron="* * * * *", catch_up="all")
    bench.clock.advance(6 * HOUR)
    fired = await fire(bench)
    made = await quests(bench, fired)
    assert [quest.occurrence_at for quest in made] == [START + 6 * HOUR - ago * MINUTE for ago in range(99, -1, -1)]
    assert len(set(fired.quests)) == 100
    claimed = await bench.claim_own(most=2)
    assert [each.quest.id for each in claimed] == list(fired.quests[:2])


@scenario
async def test_skip_takes_what_is_a_little_late(bench: Bench) -> None:
    await add(bench, catch_up="skip")
    bench.clock.advance(HOUR + ON_TIME_MS)
    assert len((await fire(bench)).quests) == 1


@scenario
async def test_a_paused_rule_adds_nothing_and_makes_up_for_it(bench: Bench) -> None:
    await add(bench)
    await bench.store.switch_recurrence(steer(bench), False)
    bench.clock.advance(3 * HOUR)
    assert await fire(bench) == Fired(held="hourly is paused")
    assert await bench.store.due_recurrences(bench.clock.wall_ms(), (-1, "")) == []
    await bench.store.switch_recurrence(steer(bench), True)
    assert [due.id for due in await bench.store.due_recurrences(bench.clock.wall_ms(), (-1, ""))] == ["r-000000000001"]
    (quest,) = await quests(bench, await fire(bench))
    assert quest.occurrence_at == START + 3 * HOUR


@pytest.mark.parametrize("project", [PROJECT, None], ids=["its project", "the daemon"])
def test_a_pause_holds_every_driver(project: ProjectRef | None, tmp_path: Any) -> None:
    """Nothing is added until it is lifted, and then what the catch-up says."""

    @scenario
    async def body(bench: Bench) -> None:
        await add(bench, catch_up="all")
        await pause(bench, True, project=project)
        bench.clock.advance(2 * HOUR)
        held = await fire(bench)
        assert held.quests == ()
        assert held.held is not None
        assert "is paused: lunch" in held.held
        assert await bench.store.due_recurrences(bench.clock.wall_ms(), (-1, "")) == []
        bench.seen.clear()
        await pause(bench, False, project=project)
        assert [seen.rules for seen in bench.seen] == [True]
        assert len(await bench.store.due_recurrences(bench.clock.wall_ms(), (-1, ""))) == 1
        assert len((await fire(bench)).quests) == 2

    body(tmp_path)


@scenario
async def test_what_holds_a_rule_is_told_by_the_projects_name(bench: Bench) -> None:
    await add(bench, project="name:site")
    await pause(bench, True, project=ProjectRef("name:site", "site", None))
    assert await fire(bench) == Fired(held="project site is paused: lunch")


@scenario
async def test_a_clock_set_back_adds_no_time_again(bench: Bench) -> None:
    """The rule goes on at the next of its times that has no quest, not only when the clock has caught up."""
    await add(bench)
    bench.clock.advance(3 * HOUR)
    assert len((await fire(bench)).quests) == 1
    bench.clock.step(-HOUR - MINUTE)
    assert await bench.store.rewind_recurrences(bench.clock.wall_ms()) == 1
    assert await bench.store.rewind_recurrences(bench.clock.wall_ms()) == 0
    came = []
    for _ in range(4):
        bench.clock.advance(MINUTE if not came else HOUR)
        came += [quest.occurrence_at for quest in await quests(bench, await fire(bench))] or [None]
    assert came == [START + 2 * HOUR, None, START + 4 * HOUR, START + 5 * HOUR]


@scenario
async def test_a_clock_set_back_moves_a_paused_rule_too(bench: Bench) -> None:
    """Or it would sleep past its next time once it is resumed."""
    await add(bench)
    bench.clock.advance(48 * HOUR)
    await fire(bench)
    await bench.store.switch_recurrence(steer(bench), False)
    bench.clock.step(-24 * HOUR)
    assert await bench.store.rewind_recurrences(bench.clock.wall_ms()) == 1
    await bench.store.switch_recurrence(steer(bench), True)
    assert await bench.store.next_occurrence(bench.clock.wall_ms()) == START + 25 * HOUR


@scenario
async def test_a_clock_that_was_years_ahead_does_not_silence_a_rule(bench: Bench) -> None:
    await add(bench)
    bench.clock.step(3 * 365 * 24 * HOUR)
    assert len((await fire(bench)).quests) == 1
    bench.clock.step(-3 * 365 * 24 * HOUR)
    await bench.store.rewind_recurrences(bench.clock.wall_ms())
    assert await bench.store.next_occurrence(bench.clock.wall_ms()) == START + HOUR


@scenario
async def test_a_name_is_taken_once_in_a_project(bench: Bench) -> None:
    await add(bench)
    with pytest.raises(InvalidInput, match="hourly already") as refusal:
        await add(bench, id="r-000000000002")
    assert refusal.value.details["field"] == "name"
    await add(bench, id="r-000000000003", project="/other")
    await bench.store.remove_recurrence(steer(bench))
    await add(bench, id="r-000000000002")
    assert [each.id for each in await bench.store.recurrences_named("/p", "hourly")] == ["r-000000000002"]


@scenario
async def test_rules_are_bounded(bench: Bench) -> None:
    await add(bench, most=1)
    with pytest.raises(LimitReached) as refusal:
        await add(bench, most=1, id="r-000000000002", name="another")
    assert refusal.value.details["setting"] == "bounds.max_recurrences"


@scenario
async def test_a_removed_rule_leaves_its_quests(bench: Bench) -> None:
    await add(bench)
    bench.clock.advance(HOUR)
    (quest,) = (await fire(bench)).quests
    whole = await bench.store.recurrence("r-000000000001")
    assert await bench.store.remove_recurrence(steer(bench)) == whole
    assert await bench.state(quest) == "queued"
    for again in (bench.store.remove_recurrence(steer(bench)), bench.store.switch_recurrence(steer(bench), True)):
        with pytest.raises(NotFound):
            await again
    with pytest.raises(NotFound):
        await fire(bench)
    assert await bench.store.next_occurrence(0) is None


@scenario
async def test_a_full_queue_takes_no_time_from_a_rule(bench: Bench) -> None:
    """It is as due as before."""
    await add(bench)
    await bench.add()
    bench.clock.advance(HOUR)
    with pytest.raises(LimitReached):
        await fire(bench, waiting=1)
    assert len((await fire(bench, waiting=2)).quests) == 1


@scenario
async def test_a_repeated_call_answers_as_the_first(bench: Bench) -> None:
    """By its requestId, whatever is due by then."""
    first, second, third = (Token(1000, name, "x") for name in "abc")
    assert await add(bench, token=first) == await add(bench, token=first, id="r-000000000002")
    bench.clock.advance(HOUR)
    fired = await fire(bench, token=second)
    bench.clock.advance(HOUR)
    assert await fire(bench, token=second) == fired
    assert len(fired.quests) == 1
    removed = await bench.store.remove_recurrence(steer(bench, third))
    assert await bench.store.remove_recurrence(steer(bench, third)) == removed


@scenario
async def test_what_cannot_be_read_hides_no_other_rule(bench: Bench) -> None:
    """Of other programs' rules; firing one says what is wrong with it."""
    for number in range(150):
        await add(bench, id=f"r-{number:012x}", name=f"bad-{number}", cron="@hourly", next_run_at=START - 1)
    await add(bench, id="r-f00000000000", next_run_at=START)
    found, after = [], (-1, "")
    while page := await bench.store.due_recurrences(bench.clock.wall_ms(), after):
        found += page
        after = (page[-1].next_run_at, page[-1].id)
    assert len(found) == 151
    assert found[-1].id == "r-f00000000000"
    with pytest.raises(InvalidInput, match="@hourly"):
        await fire(bench)
    assert await bench.store.rewind_recurrences(START - HOUR) == 0


@scenario
async def test_rules_are_listed_by_project_and_name(bench: Bench) -> None:
    """In pages, with long texts cut."""
    for number, (project, name) in enumerate([("/p", "c"), ("/p", "a"), ("/a", "z"), ("/p", "b")]):
        await add(bench, id=f"r-{number:012x}", project=project, name=name, task="x" * 5000)
    everything = await bench.store.recurrences(None, None, 10)
    assert [(each.project, each.name) for each in everything] == [("/a", "z"), ("/p", "a"), ("/p", "b"), ("/p", "c")]
    assert {len(each.task) for each in everything} == {201}
    page = await bench.store.recurrences("/p", None, 2)
    assert [each.name for each in page] == ["a", "b"]
    assert [each.name for each in await bench.store.recurrences("/p", page[-1].id, 2)] == ["c"]
    assert await bench.store.recurrences_matching("r-00") == [f"r-{number:012x}" for number in range(4)]
    assert len(await bench.store.enabled_recurrences()) == 4
