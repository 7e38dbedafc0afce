"""qlctl cancel"""

from __future__ import annotations

import json

from tests.acceptance.desk import Desk


def test_a_waiting_quest_is_cancelled_at_once(desk: Desk) -> None:
    """With the reason in quest and journal."""
    quest = desk.add("true", "--external")
    assert desk.ok("cancel", quest, "--reason", "not needed") == f"{quest} cancelled\n"
    end = desk.quest(quest)
    assert (end["state"], end["reason"], end["attempts"]) == ("cancelled", "not needed", 0)


def test_a_running_one_when_its_processes_are_dead(desk: Desk) -> None:
    """It is being stopped, and then cancelled; nothing is charged, nothing is tried again."""
    hold = desk.hold()
    quest = desk.add(f"trap '' TERM; {hold.task}; {hold.task}", "--max-attempts", "3")
    hold.running()
    assert desk.ok("cancel", quest) == f"{quest} is being stopped\n"
    end = desk.ended(quest)
    assert (end["state"], end["class"], end["attempts"] - end["refunds"]) == ("cancelled", "cancelled", 0)
    (run,) = desk.json("runs", quest)
    assert (run["outcome"], run["exitSignal"]) == ("cancelled", 9)


def test_what_depends_on_it_fails(desk: Desk) -> None:
    """Transitively, by dependency."""
    first = desk.add("true", "--external")
    second = desk.add("true", "--depends", first)
    third = desk.add("true", "--depends", second)
    desk.ok("cancel", first)
    ends = [desk.quest(quest) for quest in (second, third)]
    assert [(end["state"], end["failureKind"]) for end in ends] == [("failed", "dependency")] * 2


def test_one_that_is_over_is_refused_and_the_others_are_not(desk: Desk) -> None:
    """1, and --json has those that were cancelled."""
    over, open_ = desk.add("true"), desk.add("true", "--external")
    desk.ended(over)
    done = desk.run("cancel", over, open_, "--json")
    assert done.returncode == 1
    assert f"{over} is done already" in done.stderr
    assert [(quest["id"], quest["state"]) for quest in json.loads(done.stdout)] == [(open_, "cancelled")]


def test_cancelling_twice_is_no_error(desk: Desk) -> None:
    """It is what was wanted."""
    quest = desk.add("true", "--external")
    desk.ok("cancel", quest)
    assert desk.json("cancel", quest)["state"] == "cancelled"
    assert [event["event"] for event in desk.json("events", quest)] == ["cancelled", "enqueued"]


def test_many_at_once_all_end(desk: Desk) -> None:
    """Running, waiting for a lane, for a dependency and for a time."""
    hold = desk.hold()
    running = [desk.add(hold.task) for _ in range(4)]
    hold.running(4)
    lane = [desk.add(hold.task, "--lane", "git") for _ in range(2)]
    hold.running()
    ids = [*running, *lane, desk.add("true", "--depends", lane[1]), desk.add("true", "--not-before", "+1h")]
    desk.run("cancel", *ids)
    assert {desk.ended(quest)["state"] for quest in ids if quest != ids[-2]} == {"cancelled"}
    assert desk.ended(ids[-2])["state"] in ("failed", "cancelled")
    assert desk.json("health")["counts"]["running"] == 0


def test_the_reason_is_what_is_told(desk: Desk) -> None:
    """Of one that ran and of one that waited."""
    hold = desk.add("sleep 1000")
    desk.ok("cancel", hold, "--reason", "no more")
    assert desk.ended(hold)["error"] == "cancelled: no more"
    told = desk.json("add", "--print-id", "true", "--external")
    assert told["state"] == "queued"  # --json is one JSON value, whatever else is asked for
    desk.ok("cancel", told["id"], "--reason", "nor this")
    assert desk.ended(told["id"])["reason"] == "nor this"
