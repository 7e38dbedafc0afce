"""The journal, read forwards. Every store passes these as they are."""

from __future__ import annotations

from questlined.store.protocol import ProjectRef
from questlined.store.rows import Told
from tests.support.stores import Bench, scenario

OTHER = ProjectRef("/q", None, "/q")


async def told(bench: Bench, after: int, walk: int = 100, **filters: object) -> tuple[list[str], int, bool]:
    """The quests of a page's events, how far it goes, and whether rows may follow at once."""
    base: dict[str, object] = {"project": None, "submitter": None}
    page = await bench.store.events_after(after, walk=walk, **(base | filters))  # type: ignore[arg-type]
    assert [event.seq for event in page.events] == sorted(event.seq for event in page.events)
    return [event.quest_id for event in page.events], page.last, page.more


@scenario
async def test_events_are_told_oldest_first_after_a_number(bench: Bench) -> None:
    assert (await bench.store.last_event(), await told(bench, 0)) == (0, ([], 0, False))
    quests = [await bench.add() for _ in range(3)]
    last = await bench.store.last_event()
    assert await told(bench, 0) == (quests, last, False)
    assert await told(bench, last - 1) == (quests[2:], last, False)
    assert await told(bench, last) == ([], last, False)
    await bench.store.cancel(bench.steer(quests[0]))
    (event,) = (await bench.store.events_after(last, project=None, submitter=None, walk=9)).events
    assert (event.event, event.quest_id, event.seq) == ("cancelled", quests[0], await bench.store.last_event())


@scenario
async def test_a_page_goes_as_far_as_it_walks_and_the_next_goes_on(bench: Bench) -> None:
    quests = [await bench.add() for _ in range(5)]
    last = await bench.store.last_event()
    seen, after, more = [], 0, True
    while more:
        found, after, more = await told(bench, after, walk=2)
        assert len(found) <= 2
        seen += found
    assert (seen, after) == (quests, last)


@scenario
async def test_what_is_passed_by_is_behind_the_reader(bench: Bench) -> None:
    """Events of other projects, or of other users' quests; a page costs its walk and no more."""
    mine = await bench.add(submitter_uid=7)
    for _ in range(4):
        await bench.add(OTHER, submitter_uid=8)
    last = await bench.store.last_event()
    assert await told(bench, 0, project="/p") == ([mine], last, False)
    assert await told(bench, 0, submitter=7) == ([mine], last, False)
    assert await told(bench, 0, project="/q", submitter=7) == ([], last, False)
    assert await told(bench, last - 4, walk=3, project="/p") == ([], last - 1, True)


@scenario
async def test_a_story_has_the_named_events_with_the_attempt_they_are_about(bench: Bench) -> None:
    """And those that concern none; each with its quest's project."""
    names = ("claimed", "retry_scheduled", "completed", "cancelled")
    first, second = await bench.add(max_attempts=2), await bench.add(OTHER)
    await bench.store.cancel(bench.steer(second))
    for klass in ("failed", "ok"):
        bench.clock.advance(3_600_000)
        (claimed,) = await bench.claim_own()
        await bench.finish(claimed, klass)
    told, after, more = list[Told](), 0, True
    while more:
        page = await bench.store.story(after, names, 2)
        told, after, more = [*told, *page.told], page.last, page.more
    assert after == await bench.store.last_event()
    assert told == [
        Told(second, "cancelled", "/q", None, None, None),
        Told(first, "claimed", "/p", 1, None, 1),
        Told(first, "retry_scheduled", "/p", 1, "failed", 1),
        Told(first, "claimed", "/p", 2, None, 2),
        Told(first, "completed", "/p", 2, "ok", 2),
    ]
    assert (await bench.store.story(after, names, 2)).told == ()
