"""qlctl run"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk, Hold
from tests.support.daemon import SHELL, Daemon


def test_a_quest_runs_at_once_past_pause_and_time(desk: Desk) -> None:
    """Its output is shown and its status given; which one it is is said on stderr."""
    quest = desk.add("echo out; echo err >&2", "--not-before", "+1h", "--priority", "-5")
    desk.ok("pause")
    done = desk.run("run", quest)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr.splitlines() == [f"qlctl: {quest} runs (attempt 1, run #1)", "err"]
    assert desk.quest(quest)["state"] == "done"


def test_without_an_id_it_is_the_projects_next(desk: Desk) -> None:
    """By priority; 3 when there is none."""
    desk.ok("pause")
    low, high = desk.add("echo low"), desk.add("echo high; exit 3", "--priority", "5")
    first = desk.run("run")
    assert (first.returncode, first.stdout) == (1, "high\n")
    assert first.stderr.endswith(f"qlctl: {high} is failed: exit code 3\n")
    assert desk.ok("run") == "low\n"
    none = desk.run("run")
    assert (none.returncode, none.stdout) == (3, "")
    assert none.stderr.startswith("qlctl: ")
    assert [desk.quest(quest)["state"] for quest in (low, high)] == ["done", "failed"]


def test_a_failed_attempt_that_is_not_the_last_says_what_follows(desk: Desk) -> None:
    """1, and the daemon goes on with the quest by itself."""
    desk.ok("pause")
    quest = desk.add("exit 3", "--max-attempts", "2")
    done = desk.run("run", quest)
    assert done.returncode == 1
    assert done.stderr.endswith(f"qlctl: attempt 1 failed: exit code 3; {quest} is queued and will run again\n")


def test_closed_gates_are_named(desk: Desk) -> None:
    """Dependencies and lanes are not passed, and what is over does not run."""
    hold = desk.hold()
    first = desk.add(hold.task, "--lane", "git")
    hold.running()
    lane, child = desk.add("true", "--lane", "git"), desk.add("true", "--depends", first)
    desk.refused("run", lane, status=1, says=("lane",))
    desk.refused("run", child, status=1, says=(first,))
    desk.refused("run", first, status=1, says=("running",))
    hold.release()
    desk.ended(first)
    desk.refused("run", first, status=1, says=("done",))


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Desk]:
    """A daemon that gives what it ends as much time as it wants."""
    with Daemon(tmp_path, SHELL.replace("300ms", "1min")) as daemon:
        made = Desk(daemon, daemon.project)
        yield made
        made.close()


def stubborn(hold: Hold) -> str:
    """A task that waits to be let go, and when it is asked to stop once more.

    In `wait` a shell hears the signal at once, whatever it was about to start."""
    return f'trap "echo bye; {hold.task}; exit 1" TERM; echo out; {hold.task} & wait'


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_interrupts_it_and_its_end_is_shown(patient: Desk, number: signal.Signals, status: int) -> None:
    """With what it writes while it is being stopped. Nothing is charged, and it can be claimed again."""
    hold = patient.hold()
    patient.ok("pause")
    quest = patient.add(stubborn(hold))
    running = patient.start("run", quest)
    hold.running()
    running.says("out\n")
    running.interrupt(number)
    hold.running()
    hold.release()
    got, out, err = running.end()
    assert (got, out) == (status, "out\nbye\n")
    assert "qlctl: interrupting; Ctrl-C again cancels it\n" in err
    assert "qlctl: attempt 1 was interrupted" in err
    assert f"{quest} is interrupted and will run again\n" in err
    now = patient.quest(quest)
    assert (now["state"], now["attempts"] - now["refunds"]) == ("interrupted", 0)


def test_a_second_one_cancels_it(patient: Desk) -> None:
    """When its last process is dead."""
    hold = patient.hold()
    quest = patient.add(stubborn(hold), "--not-before", "+1h")
    running = patient.start("run", quest)
    hold.running()
    running.interrupt()
    hold.running()
    running.interrupt()
    running.says("cancelling; Ctrl-C again leaves at once", "stderr")
    running.says("attempt 1 is being stopped", "stderr")
    hold.release()
    status, out, err = running.end()
    assert (status, out) == (130, "out\nbye\n")
    assert err.endswith(f"qlctl: {quest} is cancelled: by the terminal that ran it\n")
    assert patient.quest(quest)["state"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_it_is_interrupted_when_its_terminal_goes(desk: Desk, number: signal.Signals) -> None:
    """The daemon sees the connection end."""
    hold = desk.hold()
    desk.ok("pause")
    quest = desk.add(f"echo out; {hold.task}")
    running = desk.start("run", quest)
    running.says("out\n")
    running.interrupt(number)
    assert running.end()[0] == -number
    following = desk.run("follow", quest, "--attempt", "1")
    assert (following.returncode, following.stdout) == (1, "out\n")
    assert f"{quest}: attempt 1 was interrupted" in following.stderr


def test_a_reader_that_has_gone_interrupts_it(desk: Desk) -> None:
    """As it ends a program that writes to a closed pipe."""
    hold = desk.hold()
    desk.ok("pause")
    quest = desk.add(f"echo one; {hold.task}; yes")
    reader, writer = os.pipe()
    running = desk.start("run", quest, stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.readline() == b"one\n"
    hold.release()
    assert running.end()[0] == 141
    assert desk.run("follow", quest, "--attempt", "1", "--after", "1.2", stdin="").returncode == 1
    assert desk.quest(quest)["class"] == "interrupted"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_daemon_that_goes_leaves_the_quest_in_the_background(lone: Desk, how: str) -> None:
    """Its output still follows, from the last record on, to the end of the quest."""
    hold = lone.hold()
    lone.ok("pause")
    running = lone.start("run", lone.add(f"echo one; {hold.task}"))
    hold.running()
    running.says("one\n")
    getattr(lone.daemon, how)()
    if how == "stop":
        running.says("runs in the background", "stderr")
    lone.daemon.start()
    lone.ok("resume")
    hold.running()
    hold.release("two\n")
    status, out, err = running.end()
    assert (status, out) == (0, "one\none\ntwo\n")
    assert err.count("in the background") == 1
    assert err.count("attempt 1 was interrupted") == 1
