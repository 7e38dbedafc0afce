"""A call that is repeated with its requestId answers as it did, and nothing doubles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import LEASES, QUESTS, Peer, Refused
from tests.support.daemon import Daemon

PROJECTS = "io.questline.Projects."


def conflict(peer: Peer, method: str, **parameters: Any) -> None:
    with pytest.raises(Refused) as caught:
        peer.call(method, **parameters)
    assert caught.value.name == "io.questline.Conflict"
    assert caught.value.parameters["id"] == parameters["requestId"]


def journal(peer: Peer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = peer.call(QUESTS + "Events", directory=peer.directory, limit=1000)["events"]
    return found


@pytest.fixture
def token(peer: Peer) -> str:
    return f"token of {peer.directory}"


def test_add_twice_is_one_quest(server: Daemon, peer: Peer, token: str) -> None:
    """On another connection, too; the answer is the quest as it is by then."""
    wanted = {"task": "true", "directory": peer.directory, "external": True, "requestId": token}
    first = peer.call(QUESTS + "Add", **wanted)
    assert peer.call(QUESTS + "Add", **wanted) == first
    peer.claim()
    with Peer(server.socket, peer.directory) as other:
        again = other.call(QUESTS + "Add", **wanted)
    assert (again["quest"]["id"], again["quest"]["state"]) == (first["quest"]["id"], "running")
    assert peer.total() == 1


def test_another_body_is_a_conflict(peer: Peer, token: str) -> None:
    """One changed letter, or another method; nothing is done."""
    wanted = {"task": "true", "directory": peer.directory, "external": True, "requestId": token}
    quest = peer.call(QUESTS + "Add", **wanted)["quest"]["id"]
    conflict(peer, QUESTS + "Add", **{**wanted, "task": "false"})
    conflict(peer, QUESTS + "Add", **{**wanted, "priority": 0})
    conflict(peer, QUESTS + "Cancel", id=quest, requestId=token)
    assert (peer.total(), peer.quest(quest)["state"]) == (1, "queued")


def test_add_many_twice_is_one_batch(peer: Peer, token: str) -> None:
    """With the same ids."""
    wanted = {"quests": [{"task": "a"}, {"task": "b"}], "directory": peer.directory, "requestId": token}
    first = peer.call(QUESTS + "AddMany", **wanted)
    assert peer.call(QUESTS + "AddMany", **wanted) == first
    assert peer.total() == 2


def test_the_order_of_keys_and_null_make_no_other_body(peer: Peer, token: str) -> None:
    """A body is what it means."""
    first = peer.call(QUESTS + "Add", task="true", directory=peer.directory, external=True, requestId=token)
    wanted = {"requestId": token, "external": True, "lane": None, "directory": peer.directory, "task": "true"}
    assert peer.call(QUESTS + "Add", **wanted) == first


def test_a_claim_twice_is_one_attempt(peer: Peer, token: str) -> None:
    """The second quest is not taken by the repetition."""
    quests = [peer.add(external=True) for _ in range(2)]
    first = peer.claim(requestId=token)
    again = peer.claim(requestId=token)
    assert again["run"]["id"] == first["run"]["id"] == f"{quests[0]}/1"
    assert peer.quest(quests[1])["state"] == "queued"


@pytest.mark.parametrize("method", ["Done", "Fail", "Release", "Block"])
def test_a_report_twice_is_one_report(peer: Peer, token: str, method: str) -> None:
    """The repetition is no StaleLease, and writes no second event."""
    peer.add(external=True)
    attempt = peer.claim()["run"]["id"]
    first = peer.call(LEASES + method, attempt=attempt, requestId=token)["quest"]
    written = journal(peer)
    again = peer.call(LEASES + method, attempt=attempt, requestId=token)["quest"]
    assert again == first
    assert journal(peer) == written


def test_cancel_and_retry_twice_are_one_each(peer: Peer, token: str) -> None:
    """A retry is not charged twice, and does not undo what came after it."""
    quest = peer.add(external=True, maxAttempts=1)
    peer.call(QUESTS + "Cancel", id=quest, requestId=token + "1")
    once = peer.call(QUESTS + "Retry", id=quest, requestId=token + "2")["quest"]
    peer.call(QUESTS + "Cancel", id=quest, requestId=token + "3")
    again = peer.call(QUESTS + "Retry", id=quest, requestId=token + "2")["quest"]
    assert (again["state"], again["maxAttempts"]) == ("cancelled", once["maxAttempts"])
    assert [event["event"] for event in journal(peer)] == ["cancelled", "requeued", "cancelled", "enqueued"]


def test_pause_twice_does_not_undo_a_resume(peer: Peer, token: str) -> None:
    """The repetition of what is over changes nothing."""
    peer.call(PROJECTS + "Pause", directory=peer.directory, requestId=token + "p")
    peer.call(PROJECTS + "Resume", directory=peer.directory, requestId=token + "r")
    again = peer.call(PROJECTS + "Pause", directory=peer.directory, requestId=token + "p")
    assert again["project"]["paused"] is False


def test_a_refusal_is_repeated_too(peer: Peer, token: str) -> None:
    """Though by now it would be allowed: the first answer stands."""
    quest = peer.add(external=True)
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            peer.call(QUESTS + "Retry", id=quest, requestId=token)
        assert caught.value.name == "io.questline.WrongState"
        if peer.quest(quest)["state"] == "queued":
            peer.call(QUESTS + "Cancel", id=quest)
    assert peer.quest(quest)["state"] == "cancelled"


def test_a_repeated_cancel_of_what_runs_stops_it_once(peer: Peer, hold: Hold, token: str) -> None:
    """One request in the journal."""
    quest = peer.add(hold.task)
    hold.running()
    for _ in range(2):
        peer.call(QUESTS + "Cancel", id=quest, requestId=token)
    assert peer.ended(quest)["state"] == "cancelled"
    assert [event["event"] for event in journal(peer)].count("cancel_requested") == 1
