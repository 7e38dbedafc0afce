"""List, Events and Runs come in pages; the last id shown is where the next begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.peer import QUESTS, Peer, Refused
from tests.support.daemon import Daemon


def pages(peer: Peer, method: str, key: str, **parameters: Any) -> list[list[Any]]:
    """All pages, following `next`."""
    found: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = peer.call(QUESTS + method, **parameters, **cursor)
        found.append(page[key])
        if "next" not in page:
            return found
        assert page["next"] == str(page[key][-1].get("id") or page[key][-1].get("seq"))
        cursor = {"cursor": page["next"]}


def field_of(peer: Peer, method: str, **parameters: Any) -> str:
    with pytest.raises(Refused) as caught:
        peer.call(QUESTS + method, **parameters)
    assert caught.value.name == "io.questline.InvalidInput"
    return str(caught.value.parameters["field"])


def test_quests_come_newest_first_in_pages_without_gap_or_double(peer: Peer) -> None:
    """Quests of one transaction, which are of one moment, too."""
    one = [peer.add(external=True) for _ in range(3)]
    many = peer.call(QUESTS + "AddMany", directory=peer.directory, quests=[{"task": "x", "external": True}] * 7)
    ids = [*one, *(added["id"] for added in many["added"])]
    found = pages(peer, "List", "quests", directory=peer.directory, limit=4)
    assert [len(page) for page in found] == [4, 4, 2]
    assert [quest["id"] for page in found for quest in page] == ids[::-1]


def test_a_page_that_is_just_full_names_no_next(peer: Peer) -> None:
    """There is no empty page at the end."""
    for _ in range(2):
        peer.add(external=True)
    assert [len(page) for page in pages(peer, "List", "quests", directory=peer.directory, limit=2)] == [2]


def test_quests_added_while_paging_do_not_shift_the_pages(peer: Peer) -> None:
    """They are before the first page."""
    ids = [peer.add(external=True) for _ in range(4)]
    first = peer.call(QUESTS + "List", directory=peer.directory, limit=2)
    peer.add(external=True)
    second = peer.call(QUESTS + "List", directory=peer.directory, limit=2, cursor=first["next"])
    assert [quest["id"] for quest in second["quests"]] == ids[1::-1]


def test_30_without_a_limit(peer: Peer) -> None:
    """And the rest on the next page."""
    peer.call(QUESTS + "AddMany", directory=peer.directory, quests=[{"task": "x", "external": True}] * 31)
    assert [len(page) for page in pages(peer, "List", "quests", directory=peer.directory)] == [30, 1]
    assert [len(page) for page in pages(peer, "Events", "events", directory=peer.directory)] == [30, 1]


def test_filters_hold_across_pages(peer: Peer) -> None:
    """State, role and lane."""
    for number in range(6):
        peer.add(external=True, role="even" if number % 2 == 0 else "odd", lane=f"lane{number % 3}")
    even = pages(peer, "List", "quests", directory=peer.directory, role="even", limit=2)
    assert [[quest["role"] for quest in page] for page in even] == [["even", "even"], ["even"]]
    both = pages(peer, "List", "quests", directory=peer.directory, role="even", lane="lane0", states=["queued"])
    assert len(both[0]) == 1
    assert pages(peer, "List", "quests", directory=peer.directory, states=["done", "failed"]) == [[]]


def test_a_page_of_long_texts_is_cut_to_size(peer: Peer) -> None:
    """Texts to 200 characters, and pages to 256 KiB whatever the limit."""
    quests = [{"task": "ä" * 500, "context": "y" * 500, "name": "n" * 200, "external": True}] * 400
    peer.call(QUESTS + "AddMany", directory=peer.directory, quests=quests)
    found = pages(peer, "List", "quests", directory=peer.directory, limit=1000)
    assert sum(len(page) for page in found) == 400
    assert len(found) > 1
    quest = found[0][0]
    assert (len(quest["task"]), len(quest["context"])) == (200, 200)
    assert len(peer.quest(quest["id"])["task"]) == 500


def test_events_come_newest_first(peer: Peer) -> None:
    """Of one quest, or of the project; the cursor is the number last seen."""
    quest, other = peer.add(external=True), peer.add(external=True)
    peer.call(QUESTS + "Cancel", id=quest, reason="enough")
    own = pages(peer, "Events", "events", id=quest, limit=1)
    assert [event["event"] for page in own for event in page] == ["cancelled", "enqueued"]
    assert own[0][0]["data"] == {"reason": "enough"}
    project = pages(peer, "Events", "events", directory=peer.directory, limit=2)
    assert [event["questId"] for page in project for event in page] == [quest, other, quest]


def test_runs_come_oldest_first(peer: Peer) -> None:
    """The cursor is the id of the attempt last seen."""
    quest = peer.add(external=True)
    for _ in range(5):
        peer.call("io.questline.Leases.Release", attempt=peer.claim()["run"]["id"])
    found = pages(peer, "Runs", "runs", id=quest, limit=2)
    assert [[run["id"] for run in page] for page in found] == [
        [f"{quest}/1", f"{quest}/2"],
        [f"{quest}/3", f"{quest}/4"],
        [f"{quest}/5"],
    ]


def test_a_project_lists_its_own_only_and_all_projects_lists_all(server: Daemon, peer: Peer, tmp_path: Path) -> None:
    """A directory below a project that nobody registered is a project of its own."""
    below = tmp_path / "project" / "below"
    below.mkdir()
    here = peer.add(external=True)
    with Peer(server.socket, str(below)) as other:
        there = other.add(external=True)
        assert [quest["id"] for quest in other.call(QUESTS + "List", directory=str(below))["quests"]] == [there]
    assert [quest["id"] for quest in peer.call(QUESTS + "List", project=peer.directory)["quests"]] == [here]
    every = peer.call(QUESTS + "List", allProjects=True, limit=2)["quests"]
    assert [quest["id"] for quest in every] == [there, here]


@pytest.mark.parametrize("method", ["List", "Events", "Runs"])
def test_a_limit_out_of_range_is_refused(peer: Peer, method: str) -> None:
    """1 to 1000."""
    where = {"id": peer.add(external=True)} if method == "Runs" else {"directory": peer.directory}
    for limit in (0, -1, 1001, 2**70):
        assert field_of(peer, method, **where, limit=limit) == "limit"


@pytest.mark.parametrize("cursor", ["x", "-1", "1" * 30, "", "q-000000000000/1", "١"])
@pytest.mark.parametrize("method", ["Events", "Runs"])
def test_a_cursor_that_is_none_is_refused(peer: Peer, method: str, cursor: str) -> None:
    """Of another quest, too."""
    assert field_of(peer, method, id=peer.add(external=True), cursor=cursor) == "cursor"


def test_a_state_that_is_none_is_refused(peer: Peer) -> None:
    """Naming the states there are."""
    assert field_of(peer, "List", directory=peer.directory, states=["queued", "lost"]) == "states"
