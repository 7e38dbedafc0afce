"""qlctl edit"""

from __future__ import annotations

from tests.acceptance.desk import Desk


def test_every_option_reaches_the_quest_and_what_changed_is_told(desk: Desk) -> None:
    """With what it was."""
    quest = desk.add("old", "--external", "--lane", "git", "--timeout", "90s")
    argv = ["--task", "new task", "--context", "c", "--name", "n", "--priority", "7", "--lane", "none"]
    out = desk.ok("edit", quest[:-1], *argv, "--not-before", "+1h", "--timeout", "none", "--max-attempts", "4")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == f"{quest} changed:"
    assert lines[5].startswith("not before none -> 2")
    assert lines[1:5] + lines[6:] == [
        "name old -> n",
        "task old -> new task",
        "context none -> c",
        "priority 0 -> 7",
        "timeout 1min 30s -> none",
        "max attempts no limit -> 4",
        "lane git -> none",
    ]
    now = desk.quest(quest)
    assert (now["task"], now["context"], now["name"], now["priority"], now["maxAttempts"]) == (
        "new task",
        "c",
        "n",
        7,
        4,
    )
    assert "lane" not in now
    assert "timeoutMs" not in now
    assert desk.json("events", quest)[0]["event"] == "edited"


def test_what_is_changed_is_what_runs(desk: Desk) -> None:
    """The new task, at once where no time holds it back any more."""
    quest = desk.add("echo old", "--not-before", "+1h")
    assert desk.ok("edit", quest, "--task", "-", "--not-before", "none", stdin="echo new").startswith(quest)
    assert desk.ended(quest)["result"] == "new\n"


def test_the_same_again_is_no_change(desk: Desk) -> None:
    """And no error."""
    quest = desk.add("true", "--external")
    assert desk.ok("edit", quest, "--priority", "0") == f"{quest}: all of it was so already\n"
    assert desk.json("edit", quest, "--priority", "3")["priority"] == 3


def test_what_runs_or_is_over_is_refused(desk: Desk) -> None:
    """With its state and what to do."""
    hold = desk.hold()
    quest = desk.add(hold.task)
    hold.running()
    desk.refused("edit", quest, "--priority", "1", status=1, says=("running",))
    hold.release()
    desk.ended(quest)
    desk.refused("edit", quest, "--priority", "1", status=1, says=("done",))
    desk.refused("edit", "q-none", "--priority", "1", status=1)


def test_the_rules_of_add_hold(desk: Desk) -> None:
    """2, and the field is named."""
    quest = desk.add("true", "--external")
    desk.refused("edit", quest, says=("nothing to change", "qlctl edit --help"))
    desk.refused("edit", quest, "--task", "", says=("task",))
    desk.refused("edit", quest, "--lane", "two words", says=("lane",))
    desk.refused("edit", quest, "--max-attempts", "10000000", says=("maxAttempts",))
    desk.refused("edit", quest, "--timeout", "9y", says=("timeoutMs",))
