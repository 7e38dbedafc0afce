"""qlctl follow"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk
from tests.support.daemon import REPOSITORY
from tests.support.typed import Typed


def test_output_is_shown_as_it_comes(desk: Desk) -> None:
    """While the quest runs, its stderr on stderr, an escape sequence and a broken byte among it."""
    hold = desk.hold()
    quest = desk.add(f"printf 'one\\033[1m'; echo two >&2; {hold.task}; printf 'caf\\351\\n'")
    hold.running()
    following = desk.start("follow", quest)
    following.says("one\x1b[1m")
    following.says("two\n", "stderr")
    assert following.process.poll() is None
    hold.release("three\n")
    assert following.end() == (0, "one\x1b[1mthree\ncaf\ufffd\n", "two\n")


def test_what_is_over_is_shown_from_the_beginning(desk: Desk) -> None:
    """All attempts of it, with a line between, and the status of wait."""
    quest = desk.add("echo out; echo err >&2; exit 3", "--max-attempts", "2")
    desk.ended(quest)
    done = desk.run("follow", quest)
    between = "qlctl: attempt 1 failed: exit code 3; attempt 2 begins\n"
    assert (done.returncode, done.stdout) == (1, "out\nout\n")
    assert done.stderr == f"err\n{between}err\nqlctl: {quest} is failed: exit code 3\n"


def test_one_attempt_alone(desk: Desk) -> None:
    """0 if it is the one that is done; a record of it to go on from."""
    quest = desk.add("test -e again && echo two || { touch again; echo one; exit 3; }", "--max-attempts", "2")
    assert desk.ended(quest)["state"] == "done"
    first, second = (desk.run("follow", quest, "--attempt", number) for number in "12")
    assert (first.returncode, first.stdout, first.stderr) == (
        1,
        "one\n",
        f"qlctl: {quest}: attempt 1 failed: exit code 3\n",
    )
    assert (second.returncode, second.stdout, second.stderr) == (0, "two\n", "")
    records = [json.loads(line) for line in desk.ok("follow", quest, "--json").splitlines()]
    assert [record["id"] for record in records] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    assert [record["kind"] for record in records] == ["state", "output", "end"] * 2
    assert desk.ok("follow", quest, "--after", "1.2") == "two\n"


def test_what_there_is_not_is_said(desk: Desk) -> None:
    """With the status of its error."""
    quest = desk.add("true", "--external")
    desk.refused("follow", "q-none", status=1)
    desk.refused("follow", quest, "--attempt", "7", status=1, says=("has no attempt 7", "qlctl runs"))
    desk.refused("follow", quest, "--after", "x", says=("after", "2.17"))


def test_it_waits_for_what_is_queued_and_says_so(desk: Desk) -> None:
    """And gives up with 124 when its time is over."""
    quest = desk.add("true", "--not-before", "+1h")
    done = desk.run("follow", quest, "--timeout", "200ms")
    assert (done.returncode, done.stdout) == (124, "")
    assert done.stderr == (
        f"qlctl: {quest} is queued\n  qlctl why {quest} tells what it waits for\n"
        f"qlctl: {quest} has not ended yet: it is queued\n"
    )


def test_blocked_ends_it_with_the_question(desk: Desk) -> None:
    """Of a quest that ran before, too, after all its output."""
    hold = desk.hold()
    quest = desk.add(f"echo out; {hold.task}")
    hold.running()
    following = desk.start("follow", quest)
    following.says("out\n")
    desk.ok("block", quest, "--ask", "red or blue?", "--choices", "red,blue")
    hold.release("more\n")
    status, out, err = following.end()
    assert (status, out) == (1, "out\nmore\n")
    assert err.endswith(f"qlctl: {quest} is blocked: red or blue? [red / blue]\n")
    again = desk.run("follow", quest)
    assert (again.returncode, again.stdout, again.stderr) == (1, "out\nmore\n", err)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_quest_alone(desk: Desk, number: signal.Signals, status: int) -> None:
    """It runs on."""
    hold = desk.hold()
    quest = desk.add(f"echo out; {hold.task}")
    hold.running()
    following = desk.start("follow", quest)
    following.says("out\n")
    following.interrupt(number)
    assert following.end() == (status, "out\n", "")
    assert desk.quest(quest)["state"] == "running"
    hold.release()
    assert desk.ended(quest)["state"] == "done"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restart_of_the_daemon_loses_and_doubles_nothing(lone: Desk, how: str) -> None:
    """The next attempt follows. That the daemon is away is told where that lasts, and one that stops has still told of
    the end."""
    hold = lone.hold()
    quest = lone.add(f"echo one; {hold.task}")
    hold.running()
    following = lone.start("follow", quest)
    following.says("one\n")
    getattr(lone.daemon, how)()
    if how == "kill":
        following.says("the connection to the daemon is lost; going on when it is back\n", "stderr")
    lone.daemon.start()
    hold.running()
    hold.release("two\n")
    status, out, err = following.end()
    assert (status, out) == (0, "one\none\ntwo\n")
    (ended,) = (line for line in err.splitlines() if "is lost" not in line)
    assert ended.startswith("qlctl: attempt 1 was interrupted")
    assert ended.endswith(("; attempt 2 begins", "; attempt 2 follows"))


def test_a_reader_that_has_gone_ends_it_quietly(desk: Desk) -> None:
    """As `| head -1` does."""
    hold = desk.hold()
    quest = desk.add(f"echo one; {hold.task}; yes | head -c 300000")
    hold.running()
    reader, writer = os.pipe()
    following = desk.start("follow", quest, stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.readline() == b"one\n"
    hold.release()
    status, _, err = following.end()
    assert (status, err) == (141, "")
    assert desk.ended(quest)["state"] == "done"


def test_a_message_begins_on_a_line_of_its_own_on_a_terminal(desk: Desk) -> None:
    """What the quest wrote before it has no newline at its end."""
    quest = desk.add("printf half; exit 3")
    desk.ended(quest)
    terminal, side = os.openpty()
    following = desk.start("follow", quest, stdout=side, stderr=side)
    assert following.process.wait(60) == 1
    os.close(side)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:
        pass  # what a terminal says when its other side is closed
    os.close(terminal)
    assert shown.decode() == f"half\r\nqlctl: {quest} is failed: exit code 3\r\n"


def test_many_megabytes_come_whole(desk: Desk, tmp_path: Path) -> None:
    """Byte for byte, where they are text."""
    quest = desk.add("seq 1 1500000")
    desk.ended(quest)
    for verb in ("follow", "logs"):
        with (tmp_path / verb).open("wb") as file:
            following = Typed(
                [sys.executable, "-m", "qlctl", verb, quest],
                desk.daemon.environ(PYTHONPATH=str(REPOSITORY)),
                desk.folder,
                stdout=file,
            )
            assert following.end()[::2] == (0, "")
        done = subprocess.run(["sh", "-c", f"seq 1 1500000 | cmp - {tmp_path / verb}"], check=False)
        assert done.returncode == 0
