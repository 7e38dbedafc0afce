"""qlctl block"""

from __future__ import annotations

from tests.acceptance.desk import Desk


def test_a_waiting_quest_is_kept_for_a_person(desk: Desk) -> None:
    """With reason, question and choices; retry brings it back."""
    quest = desk.add("echo hi", "--not-before", "+1h")
    out = desk.ok("block", quest, "--summary", "unsure", "--ask", "red or blue?", "--choices", "red,blue")
    assert out == f"{quest} is blocked: red or blue? [red / blue]\n"
    now = desk.quest(quest)
    assert (now["state"], now["reason"], now["choices"]) == ("blocked", "unsure", ["red", "blue"])
    waiting = desk.run("wait", quest)
    assert (waiting.returncode, waiting.stdout) == (1, out)
    desk.ok("retry", quest)
    desk.ok("edit", quest, "--not-before", "none")
    assert desk.ended(quest)["result"] == "hi\n"


def test_what_depends_on_it_waits(desk: Desk) -> None:
    """It does not fail, as it would by a cancel."""
    first = desk.add("true", "--not-before", "+1h")
    second = desk.add("true", "--depends", first)
    desk.ok("block", first, "--reason", "not yet")
    assert desk.quest(second)["state"] == "queued"
    desk.ok("cancel", first)
    assert desk.quest(second)["state"] == "failed"


def test_a_running_one_when_its_process_has_ended(desk: Desk) -> None:
    """However it ends."""
    hold = desk.hold()
    quest = desk.add(f"{hold.task}; exit 3", "--max-attempts", "5")
    hold.running()
    assert desk.ok("block", quest, "--reason", "look at it") == (
        f"{quest} runs, and is blocked when its process ends\n"
    )
    assert desk.quest(quest)["state"] == "running"
    hold.release()
    end = desk.ended(quest)
    assert (end["state"], end["reason"]) == ("blocked", "look at it")


def test_one_that_is_over_is_refused_and_the_others_are_not(desk: Desk) -> None:
    """1, and --json has those that are blocked."""
    over, first, second = desk.add("true"), desk.add("x", "--external"), desk.add("y", "--external")
    desk.ended(over)
    done = desk.run("block", over, first, second)
    assert done.returncode == 1
    assert over in done.stderr
    assert done.stdout == f"{first} is blocked: it needs a person\n{second} is blocked: it needs a person\n"
