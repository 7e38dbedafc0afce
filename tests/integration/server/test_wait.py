"""Wait answers when a quest is final or blocked."""

from __future__ import annotations

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import LEASES, QUESTS, Peer, Refused, frame
from tests.support.daemon import Daemon

WAIT = QUESTS + "Wait"


def test_every_state_is_told_with_more(server: Daemon, peer: Peer, hold: Hold) -> None:
    """From the present one to the last, none twice."""
    gate = peer.add(external=True)
    quest = peer.add(hold.task, dependsOn=[gate])
    peer.send(frame(WAIT, {"id": quest}, more=True))
    first = peer.reply()
    assert (first["continues"], first["parameters"]["quest"]["state"]) == (True, "queued")
    with Peer(server.socket, peer.directory) as other:
        other.call(LEASES + "Done", attempt=other.claim()["run"]["id"])
    second = peer.reply()
    assert (second["continues"], second["parameters"]["quest"]["state"]) == (True, "running")
    hold.running()
    hold.release()
    last = peer.reply()
    assert "continues" not in last
    assert (last["parameters"]["quest"]["state"], last["parameters"]["timedOut"]) == ("done", False)


def test_a_final_quest_is_answered_at_once(peer: Peer) -> None:
    """However often it is asked for; with more in one reply."""
    quest = peer.add()
    end = peer.ended(quest)
    assert peer.raw(WAIT, {"id": quest}, more=True) == {"parameters": {"quest": end, "timedOut": False}}


def test_a_blocked_quest_ends_the_wait(peer: Peer) -> None:
    """It needs a person; the question is in the answer."""
    quest = peer.add(external=True)
    peer.call(LEASES + "Block", attempt=peer.claim()["run"]["id"], question="which?")
    assert peer.ended(quest)["question"] == "which?"


@pytest.mark.parametrize("more", [True, False])
def test_a_wait_that_ran_out_says_so(peer: Peer, more: bool) -> None:
    """With the quest as it is."""
    quest = peer.add(external=True)
    peer.send(frame(WAIT, {"id": quest, "timeoutMs": 0}, more=more))
    if more:
        assert peer.reply()["continues"] is True
    last = peer.reply()
    assert (last["parameters"]["timedOut"], last["parameters"]["quest"]["state"]) == (True, "queued")
    assert "continues" not in last


def test_many_clients_wait_for_one_quest(server: Daemon, peer: Peer, hold: Hold) -> None:
    """All hear of its end."""
    quest = peer.add(hold.task)
    hold.running()
    waiting = [Peer(server.socket) for _ in range(20)]
    for each in waiting:
        each.send(frame(WAIT, {"id": quest}, more=True))
        assert each.reply()["parameters"]["quest"]["state"] == "running"
    hold.release()
    for each in waiting:
        assert each.reply()["parameters"]["quest"]["state"] == "done"
        each.close()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"id": "q-000000000000"}, "NotFound"),
        ({"id": ""}, "InvalidInput"),
        ({"id": "a\0"}, "InvalidInput"),
        ({"id": "x" * 10_000}, "NotFound"),
        ({"id": "q-000000000000", "timeoutMs": -1}, "InvalidInput"),
        ({"id": "q-000000000000", "timeoutMs": 2**53}, "InvalidInput"),
    ],
)
def test_a_wait_for_nothing_is_refused(peer: Peer, parameters: dict[str, object], name: str) -> None:
    """It does not wait for a quest that may come."""
    with pytest.raises(Refused) as caught:
        peer.call(WAIT, **parameters)
    assert caught.value.name == f"io.questline.{name}"
