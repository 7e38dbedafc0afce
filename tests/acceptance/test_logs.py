"""qlctl logs"""

from __future__ import annotations

import json
import shutil

from tests.acceptance.desk import Desk


def test_the_last_attempts_stdout_unless_another_is_named(desk: Desk) -> None:
    """Or its stderr, on stdout all the same."""
    task = "echo out $(ls | wc -l); echo err >&2; touch again-$(date +%N); exit 3"
    quest = desk.add(task, "--max-attempts", "2")
    desk.ended(quest)
    assert desk.ok("logs", quest) == "out 1\n"
    assert desk.ok("logs", quest, "--attempt", "1") == "out 0\n"
    assert desk.ok("logs", quest, "--attempt", "1", "--stderr") == "err\n"
    assert desk.json("logs", quest) == {"attempt": 2, "stream": "stdout", "text": "out 1\n"}
    desk.refused("logs", quest, "--attempt", "3", status=1, says=("has no attempt 3",))


def test_of_what_runs_there_is_what_it_wrote_so_far(desk: Desk) -> None:
    """Nothing is waited for; the text is as it is, escape sequences among it."""
    hold = desk.hold()
    quest = desk.add(f"printf 'so \\033[1mfar'; {hold.task}")
    hold.running()
    following = desk.start("follow", quest)
    following.says("far")  # it has been seen, so that it is there for everybody
    assert desk.ok("logs", quest) == "so \x1b[1mfar"
    assert desk.ok("logs", quest, "--stderr") == ""
    hold.release()


def test_of_what_has_not_run_there_is_nothing(desk: Desk) -> None:
    """Which is no error, and is said."""
    quest = desk.add("true", "--not-before", "+1h")
    done = desk.run("logs", quest)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"qlctl: {quest} is queued and has not run\n")


def test_of_a_pruned_attempt_the_result_is_left(desk: Desk) -> None:
    """It is said, and follow shows the same."""
    quest = desk.add("echo out; echo err >&2")
    desk.ended(quest)
    path = desk.json("show", quest)["artifacts"][0]["path"]
    shutil.rmtree(path.rsplit("/", 1)[0])
    done = desk.run("logs", quest)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert "the records of attempt 1 are gone\n" in done.stderr
    assert "stored result" in done.stderr
    stderr = desk.run("logs", quest, "--stderr", "--json")
    assert json.loads(stderr.stdout) == {"attempt": 1, "stream": "stderr", "text": ""}
    assert "are gone" in stderr.stderr
    followed = desk.run("follow", quest)
    assert (followed.returncode, followed.stdout) == (0, "out\n")
    assert followed.stderr.count("are gone") == 1
