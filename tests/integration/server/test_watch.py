"""Watch tells state changes as they happen, each once, whatever becomes of the connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import MANAGER, QUESTS, Peer, Refused, Reply, frame, until
from tests.support.daemon import Daemon

WATCH = QUESTS + "Watch"


def watching(peer: Peer, **parameters: Any) -> int:
    """Begin to watch the project; the event after which it begins."""
    peer.send(frame(WATCH, {"directory": peer.directory} | parameters, more=True))
    reply = peer.reply()
    assert "error" not in reply, reply
    assert (reply["continues"], reply["parameters"]["events"]) == (True, [])
    return int(reply["parameters"]["last"])


def told(peer: Peer, number: int) -> list[Reply]:
    """The next events, so many of them and no more."""
    events: list[Reply] = []
    while len(events) < number:
        reply = peer.reply()
        assert reply["continues"] is True
        page = reply["parameters"]
        events += page["events"]
        assert not page["events"] or page["last"] >= page["events"][-1]["seq"]
    assert len(events) == number, events
    return events


def page(peer: Peer, **parameters: Any) -> tuple[list[Reply], int]:
    """One page, without more."""
    answer = peer.call(WATCH, **({"directory": peer.directory} | parameters))
    return answer["events"], answer["last"]


def words(events: list[Reply]) -> list[tuple[str, str]]:
    return [(event["questId"], event["event"]) for event in events]


def test_what_happens_is_told_as_it_happens(server: Daemon, peer: Peer, hold: Hold) -> None:
    """From now on, oldest first, each event of a quest's life with its number and data."""
    peer.add("true", external=True)
    with Peer(server.socket, peer.directory) as watcher:
        last = watching(watcher)
        quest = peer.add(hold.task)
        hold.running()
        events = told(watcher, 3)
        peer.call(QUESTS + "Cancel", id=quest)
        events += told(watcher, 2)
    life = ["enqueued", "claimed", "agent_started", "cancel_requested", "cancelled"]
    assert words(events) == [(quest, word) for word in life]
    numbers = [event["seq"] for event in events]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > last
    assert [event["seq"] for event in peer.call(QUESTS + "Events", id=quest)["events"]] == numbers[::-1]
    assert events[1]["data"]["attempt"] == 1


def test_a_reader_goes_on_after_the_last_event_it_knows(peer: Peer) -> None:
    """A page at once, from any event on; after the newest, an empty one."""
    first, second = peer.add(external=True), peer.add(external=True)
    events, last = page(peer, after=0, allProjects=True)
    while last < page(peer)[1]:
        more, last = page(peer, after=last, allProjects=True)
        events += more
    assert words(events)[-2:] == [(first, "enqueued"), (second, "enqueued")]
    assert words(page(peer, after=events[-2]["seq"])[0]) == [(second, "enqueued")]
    assert page(peer, after=last) == ([], last)
    assert page(peer)[0] == []


def test_a_project_is_told_of_its_own_and_passes_the_others(server: Daemon, peer: Peer, tmp_path: Path) -> None:
    """The number to go on from is behind what was passed."""
    other_place = tmp_path / "other"
    other_place.mkdir()
    with Peer(server.socket, str(other_place)) as other, Peer(server.socket, peer.directory) as watcher:
        last = watching(watcher)
        theirs = other.add(external=True)
        mine = peer.add(external=True)
        assert words(told(watcher, 1)) == [(mine, "enqueued")]
        assert words(page(peer, after=last)[0]) == [(mine, "enqueued")]
        events, end = page(peer, after=last, project=str(other_place))
        assert words(events) == [(theirs, "enqueued")]
        assert end > events[0]["seq"]
        assert {theirs, mine} <= {quest for quest, _ in words(page(peer, after=last, allProjects=True)[0])}


def test_a_page_is_500_events_and_256_kib_at_most(peer: Peer) -> None:
    """None is left out between two of them, and a stream sends them one after another."""
    small = [{"task": "true", "external": True}] * 1100
    last = page(peer)[1]
    peer.call(QUESTS + "AddMany", directory=peer.directory, quests=small)
    sizes, numbers, after = [], [], last
    while events := page(peer, after=after)[0]:
        after = page(peer, after=after)[1]
        sizes.append(len(events))
        numbers += [event["seq"] for event in events]
    assert (sizes, numbers) == ([500, 500, 100], list(range(numbers[0], numbers[0] + 1100)))
    ids = [event["questId"] for event in page(peer, after=last)[0]]
    large = [{"task": "true", "external": True, "dependsOn": ids[:100]}] * 400
    peer.call(QUESTS + "AddMany", directory=peer.directory, quests=large)
    seen = 0
    peer.send(frame(WATCH, {"directory": peer.directory, "after": after}, more=True))
    while seen < 400:
        reply = peer.reply()
        assert len(str(reply).encode()) < 330 * 1024
        assert len(reply["parameters"]["events"]) < 400
        assert reply["parameters"]["last"] == reply["parameters"]["events"][-1]["seq"]
        seen += len(reply["parameters"]["events"])
    assert seen == 400


def test_a_watcher_that_does_not_read_misses_nothing(server: Daemon, peer: Peer) -> None:
    """Of what it has not read, nothing is kept for it: it is read from the journal when it wants it."""
    with Peer(server.socket, peer.directory) as watcher:
        watching(watcher)
        many = [{"task": "true", "external": True, "name": "x" * 200}] * 5000
        ids = [
            added["id"]
            for _ in range(2)
            for added in peer.call(QUESTS + "AddMany", directory=peer.directory, quests=many)["added"]
        ]
        assert [quest for quest, _ in words(told(watcher, 10_000))] == ids


def test_many_watchers_are_told_the_same(server: Daemon, peer: Peer) -> None:
    """And leave nothing behind when they go."""
    watchers = [Peer(server.socket, peer.directory) for _ in range(20)]
    for watcher in watchers:
        watching(watcher)
    quest = peer.add("true")
    peer.ended(quest)
    life = [(quest, word) for word in ("enqueued", "claimed", "agent_started", "completed")]
    assert [words(told(watcher, 4)) for watcher in watchers] == [life] * 20
    for watcher in watchers:
        watcher.close()
    until(lambda: peer.call(MANAGER + "Health", allProjects=True)["connections"] == 1)


def test_a_reader_goes_on_through_restarts_of_the_daemon(tmp_path: Path) -> None:
    """One that stopped, and one that was killed: nothing is missed, nothing is told twice."""
    with Daemon(tmp_path) as daemon:
        project, seen, last = str(daemon.project), list[Reply](), 0
        for end in (daemon.stop, daemon.kill, daemon.stop):
            with Peer(daemon.socket, project) as peer, Peer(daemon.socket, project) as watcher:
                watcher.send(frame(WATCH, {"directory": project, "after": last}, more=True))
                quest = peer.add("true")
                peer.ended(quest)
                peer.add("true", external=True)
                while not seen or seen[-1]["questId"] == quest or seen[-1]["event"] != "enqueued":
                    reply = watcher.reply()["parameters"]
                    seen, last = seen + reply["events"], reply["last"]
                peer.add("true", external=True)  # not read
                end()
            daemon.start()
        with Peer(daemon.socket, project) as peer:
            seen += page(peer, after=last)[0]
            everything = page(peer, after=0)[0]
    assert seen == everything
    assert len(seen) >= 3 * 6


@pytest.mark.parametrize("after", [-1, 2**53, 2**53 - 1, 10**9])
def test_a_number_that_no_event_can_have_is_refused(peer: Peer, after: int) -> None:
    """One above the last says that this is another journal than the reader knows."""
    for more in (True, False):
        reply = peer.raw(WATCH, {"directory": peer.directory, "after": after}, more=more)
        assert reply["error"] == "io.questline.InvalidInput"
        assert reply["parameters"]["field"] == "after"
    if after > 0 and after < 2**53:
        assert "backup" in reply["parameters"]["message"]


def test_a_project_must_be_named(peer: Peer) -> None:
    """Or all of them be meant."""
    with pytest.raises(Refused) as caught:
        peer.call(WATCH)
    assert caught.value.parameters["field"] == "project"
