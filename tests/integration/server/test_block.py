"""Block keeps a quest for a person, whatever would have become of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import LEASES, QUESTS, Peer, Refused

BLOCK = QUESTS + "Block"


def block(peer: Peer, quest: str, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = peer.call(BLOCK, id=quest, **fields)["quest"]
    return found


def test_a_waiting_quest_is_kept_until_it_is_retried(peer: Peer) -> None:
    """A wait for it ends, with the question."""
    quest = peer.add("echo ran", notBefore=2**53 - 1)
    shown = block(peer, quest, reason="r", question="which?", choices=["a", "b"])
    assert (shown["state"], shown["reason"], shown["question"], shown["choices"]) == (
        "blocked",
        "r",
        "which?",
        ["a", "b"],
    )
    assert peer.ended(quest) == shown
    peer.call(QUESTS + "Edit", id=quest, notBefore=0)
    assert peer.quest(quest)["state"] == "blocked"
    peer.call(QUESTS + "Retry", id=quest)
    ended = peer.ended(quest)
    assert (ended["result"], ended["attempts"]) == ("ran\n", 1)
    assert not {"question", "choices", "reason"} & set(ended)


def test_what_the_daemon_runs_is_kept_when_it_ends(peer: Peer, hold: Hold) -> None:
    """Its process is let alone, its result is there."""
    quest = peer.add(hold.task)
    hold.running()
    assert block(peer, quest, question="ship it?")["state"] == "running"
    hold.release("out")
    ended = peer.ended(quest)
    assert (ended["state"], ended["question"], ended["class"]) == ("blocked", "ship it?", "blocked")


def test_what_is_over_blocked_or_held_outside_is_refused(peer: Peer) -> None:
    """The hint says what to do instead."""
    held, blocked, over = [peer.add(external=True, priority=-number) for number in range(3)]
    attempt = peer.claim()["run"]["id"]
    block(peer, blocked, question="first")
    peer.call(QUESTS + "Cancel", id=over)
    for quest, state in ((held, "running"), (blocked, "blocked"), (over, "cancelled")):
        with pytest.raises(Refused) as caught:
            block(peer, quest, question="second")
        assert (caught.value.name, caught.value.parameters["state"]) == ("io.questline.WrongState", state)
        assert caught.value.parameters["hint"]
    assert peer.quest(blocked)["question"] == "first"
    peer.call(LEASES + "Done", attempt=attempt)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"reason": "x" * 5000}, "reason"),
        ({"question": "a\0"}, "question"),
        ({"choices": ["x"] * 51}, "choices"),
        ({"choices": [""]}, "choices"),
    ],
)
def test_what_is_said_is_bounded(peer: Peer, fields: dict[str, Any], field: str) -> None:
    quest = peer.add(external=True)
    with pytest.raises(Refused) as caught:
        block(peer, quest, **fields)
    assert (caught.value.name, caught.value.parameters["field"]) == ("io.questline.InvalidInput", field)
    assert peer.quest(quest)["state"] == "queued"


def test_a_block_twice_does_not_undo_a_retry(peer: Peer) -> None:
    quest, token = peer.add(external=True), f"token of {peer.directory}"
    block(peer, quest, requestId=token)
    peer.call(QUESTS + "Retry", id=quest)
    assert block(peer, quest, requestId=token)["state"] == "queued"
