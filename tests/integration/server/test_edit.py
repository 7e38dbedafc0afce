"""Edit changes a quest that waits, under the rules by which it was added."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import LEASES, QUESTS, Peer, Refused

EDIT = QUESTS + "Edit"
BOUND = 512 * 1024  # bounds.max_task_bytes


def edit(peer: Peer, quest: str, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = peer.call(EDIT, id=quest, **fields)["quest"]
    return found


def refused(peer: Peer, quest: str, **fields: Any) -> Refused:
    """The refusal of an edit, which changes nothing."""
    before = peer.quest(quest)
    with pytest.raises(Refused) as caught:
        edit(peer, quest, **fields)
    # one that runs is told its process, and no more
    assert {**peer.quest(quest), "agentRunId": None} == {**before, "agentRunId": None}
    assert caught.value.parameters["hint"]
    return caught.value


def test_all_that_can_be_given_is_changed_and_cleared(peer: Peer) -> None:
    """The answer is the quest as it is then."""
    quest = peer.add(external=True)
    fields = {"task": "t", "context": "c", "name": "n", "priority": 5, "timeoutMs": 1000, "maxAttempts": 3, "lane": "l"}
    shown = edit(peer, quest, **fields, notBefore=2**53 - 1)
    assert {name: shown[name] for name in fields} == fields
    assert shown["scheduledAt"] == 2**53 - 1
    assert shown == peer.quest(quest)
    event = peer.call(QUESTS + "Events", id=quest)["events"][0]
    assert event["event"] == "edited"
    assert set(event["data"]["fields"]) == {*fields, "notBefore"}
    cleared = edit(peer, quest, context="", timeoutMs=0, lane="", notBefore=0, maxAttempts=0, priority=0)
    assert not {"context", "timeoutMs", "lane"} & set(cleared)
    assert (cleared["scheduledAt"], cleared["maxAttempts"], cleared["priority"]) == (0, 0, 0)


def test_an_edited_quest_runs_as_it_is_by_then(peer: Peer) -> None:
    """At once, where it was put off until then."""
    quest = peer.add("echo old", notBefore=2**53 - 1)
    edit(peer, quest, task="echo new")
    assert peer.quest(quest)["state"] == "queued"
    edit(peer, quest, notBefore=0)
    assert peer.ended(quest)["result"] == "new\n"


def test_nothing_to_change_is_an_error(peer: Peer) -> None:
    error = refused(peer, peer.add(external=True))
    assert (error.name, error.parameters["field"]) == ("io.questline.InvalidInput", "parameters")
    assert "priority" in error.parameters["hint"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", ""),
        ("task", " \n"),
        ("task", "a\0"),
        ("context", "a\0"),
        ("name", ""),
        ("name", "two\nlines"),
        ("name", "x" * 201),
        ("priority", 2**53),
        ("priority", -(2**53)),
        ("notBefore", -1),
        ("notBefore", 2**53),
        ("timeoutMs", -1),
        ("timeoutMs", 2**50),
        ("maxAttempts", -1),
        ("maxAttempts", 1_000_001),
        ("lane", "two words"),
        ("lane", "x" * 65),
    ],
)
def test_what_add_refuses_edit_refuses(peer: Peer, field: str, value: object) -> None:
    """Naming the field."""
    error = refused(peer, peer.add(external=True), **{field: value})
    assert (error.name, error.parameters["field"]) == ("io.questline.InvalidInput", field)
    with pytest.raises(Refused):
        peer.add(**({"task": "true"} | {field: 0 if (field, value) == ("timeoutMs", -1) else value}))


def test_a_task_that_fits_no_argument_is_refused(peer: Peer) -> None:
    """Its executor takes it as one."""
    quest = peer.add(notBefore=2**53 - 1)
    error = refused(peer, quest, task="x" * 131_072)
    assert (error.name, error.parameters["setting"]) == ("io.questline.InvalidInput", "executor.stdin")
    assert edit(peer, quest, task="x" * 131_071)["name"] == "x" * 59 + "…"


def test_task_and_context_are_bounded_together(peer: Peer) -> None:
    """Whichever of the two comes second."""
    quest = peer.add(external=True)
    edit(peer, quest, task="x" * (BOUND // 2))
    error = refused(peer, quest, context="y" * (BOUND // 2 + 1))
    assert (error.name, error.parameters["setting"]) == ("io.questline.InvalidInput", "bounds.max_task_bytes")
    edit(peer, quest, context="y" * (BOUND // 2))
    refused(peer, quest, task="x" * (BOUND // 2 + 1))
    assert edit(peer, quest, task="x" * (BOUND // 2 + 1), context="")["state"] == "queued"


def test_a_quest_that_could_never_run_again_is_not_made(peer: Peer) -> None:
    """As many attempts as were charged are none; those that were not charged do not count."""
    quest = peer.add(external=True, maxAttempts=5)
    peer.call(LEASES + "Release", attempt=peer.claim()["run"]["id"])
    peer.call(LEASES + "Fail", attempt=peer.claim()["run"]["id"])
    assert (peer.quest(quest)["attempts"], peer.quest(quest)["refunds"]) == (2, 1)
    error = refused(peer, quest, maxAttempts=1)
    assert (error.name, error.parameters["field"]) == ("io.questline.InvalidInput", "maxAttempts")
    assert "2" in error.parameters["hint"]
    assert edit(peer, quest, maxAttempts=2)["maxAttempts"] == 3
    assert edit(peer, quest, priority=1)["priority"] == 1


def test_what_runs_or_is_over_says_what_to_do(peer: Peer, hold: Hold) -> None:
    """And is not changed."""
    quest = peer.add(hold.task)
    hold.running()
    error = refused(peer, quest, task="x")
    assert (error.name, error.parameters["state"]) == ("io.questline.WrongState", "running")
    hold.release()
    peer.ended(quest)
    error = refused(peer, quest, task="x")
    assert (error.name, error.parameters["state"]) == ("io.questline.WrongState", "done")


def test_an_edit_twice_is_one_edit(peer: Peer) -> None:
    """The repetition does not undo what came after it, nor see that the quest has ended."""
    quest, token = peer.add("false", notBefore=2**53 - 1), f"token of {peer.directory}"
    edit(peer, quest, task="one", requestId=token)
    edit(peer, quest, task="true")
    assert edit(peer, quest, task="one", requestId=token)["task"] == "true"
    edit(peer, quest, notBefore=0)
    peer.ended(quest)
    assert edit(peer, quest, task="one", requestId=token)["state"] == "done"
    with pytest.raises(Refused) as caught:
        edit(peer, quest, task="two", requestId=token)
    assert caught.value.name == "io.questline.Conflict"


def test_another_lane_frees_or_holds(peer: Peer, hold: Hold) -> None:
    """A quest behind a busy lane runs when it leaves it."""
    first, second = peer.add(hold.task, lane="docs"), peer.add("echo free", lane="docs")
    hold.running()
    assert [gate["gate"] for gate in peer.call(QUESTS + "Why", id=second)["gates"]] == ["lane"]
    edit(peer, second, lane="other")
    assert peer.ended(second)["result"] == "free\n"
    hold.release()
    assert peer.ended(first)["state"] == "done"
