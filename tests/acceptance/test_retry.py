"""qlctl retry"""

from __future__ import annotations

import pytest

from tests.acceptance.desk import Desk


@pytest.mark.parametrize("verb", ["retry", "requeue"])
def test_a_failed_quest_gets_one_more_attempt(desk: Desk, verb: str) -> None:
    """It keeps id, name, place and what was tried; `requeue` is another name."""
    quest = desk.add("test -e ok || { >ok; exit 1; }", "--name", "twice", "--priority", "3")
    before = desk.ended(quest)
    told = desk.json(verb, quest)
    assert told["maxAttempts"] == 2
    assert told["state"] in ("queued", "running", "done")  # it is as it was when the answer was made
    after = desk.ended(quest)
    assert (after["state"], after["attempts"]) == ("done", 2)
    for key in ("name", "priority", "createdAt", "task", "project"):
        assert after[key] == before[key]
    assert [run["class"] for run in desk.json("runs", quest)] == ["failed", "ok"]


def test_what_failed_only_through_it_comes_back(desk: Desk) -> None:
    """All the way down; what failed by itself stays."""
    first = desk.add("test -e ok || { >ok; exit 1; }")
    second = desk.add("true", "--depends", first)
    third = desk.add("true", "--depends", second)
    own = desk.add("exit 1")
    both = desk.add("true", "--depends", f"{own},{first}")
    for quest in (first, own):
        desk.ended(quest)
    assert {desk.ended(quest)["failureKind"] for quest in (second, third, both)} == {"dependency"}
    desk.ok("retry", first)
    assert [desk.ended(quest)["state"] for quest in (first, second, third)] == ["done"] * 3
    assert desk.quest(both)["state"] == "failed"


def test_a_dependent_of_what_is_still_dead_is_refused(desk: Desk) -> None:
    """The hint names what brings both back."""
    first = desk.add("exit 1")
    second = desk.add("true", "--depends", first)
    desk.ended(second)
    desk.refused("retry", second, status=1, says=(f"{second} depends on {first}", f"qlctl retry {first}"))


def test_a_cancelled_and_a_blocked_one_are_queued_again(desk: Desk) -> None:
    """With an attempt to spend."""
    cancelled, blocked = desk.add("true", "--external"), desk.add("true", "--external")
    desk.ok("cancel", cancelled)
    with desk.peer() as peer:
        peer.call("io.questline.Leases.Block", attempt=peer.claim()["run"]["id"], question="?")
        assert desk.quest(blocked)["state"] == "blocked"
        desk.ok("retry", cancelled, blocked)
        assert {peer.claim()["quest"]["id"] for _ in range(2)} == {cancelled, blocked}


@pytest.mark.parametrize("state", ["queued", "running", "done"])
def test_what_is_not_over_or_is_done_is_refused(desk: Desk, state: str) -> None:
    """And stays as it is."""
    hold = desk.hold()
    quest = {"queued": ("true", "--external"), "running": (hold.task,), "done": ("true",)}[state]
    name = desk.add(*quest)
    if state == "running":
        hold.running()
    elif state == "done":
        desk.ended(name)
    desk.refused("retry", name, status=1, says=(f"{name} is {state}",))
    assert desk.quest(name)["state"] == state
