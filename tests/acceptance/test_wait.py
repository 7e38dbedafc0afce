"""qlctl wait"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.acceptance.desk import Desk
from tests.support.daemon import REPOSITORY


def test_the_exit_status_is_0_when_all_are_done(desk: Desk) -> None:
    """A line for each, in the order asked for."""
    ids = [desk.add("true") for _ in range(3)]
    assert desk.ok("wait", *ids) == "".join(f"{quest} is done\n" for quest in ids)


def test_it_is_1_when_one_failed_or_was_cancelled(desk: Desk) -> None:
    """Why is in its line."""
    good, bad, off = desk.add("true"), desk.add("exit 3"), desk.add("true", "--external")
    desk.ok("cancel", off, "--reason", "not needed")
    done = desk.run("wait", good, bad, off)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [f"{good} is done", f"{bad} is failed: exit code 3", f"{off} is cancelled: not needed"],
    )


def test_it_is_1_when_one_is_blocked_and_the_question_is_told(desk: Desk) -> None:
    """With its choices."""
    quest = desk.add("true", "--external")
    with desk.peer() as peer:
        attempt = peer.claim()["run"]["id"]
        peer.call("io.questline.Leases.Block", attempt=attempt, question="red or blue?", choices=["red", "blue"])
    done = desk.run("wait", quest)
    assert (done.returncode, done.stdout) == (1, f"{quest} is blocked: red or blue? [red / blue]\n")


def test_it_is_124_when_the_time_is_over(desk: Desk) -> None:
    """With the state it is in; --json tells so, too."""
    quest = desk.add("true", "--external")
    done = desk.run("wait", quest, "--timeout", "0")
    assert (done.returncode, done.stdout) == (124, "")
    assert f"{quest} has not ended yet: it is queued" in done.stderr
    done = desk.run("wait", quest, "--timeout", "1ms", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["timedOut"], answer["quest"]["state"]) == (124, True, "queued")


def test_json_is_the_quest_and_whether_the_time_was_over(desk: Desk) -> None:
    """One object for one id, an array for several."""
    ids = [desk.add("true") for _ in range(2)]
    one = desk.json("wait", ids[0])
    assert (one["quest"]["id"], one["quest"]["state"], one["timedOut"]) == (ids[0], "done", False)
    assert [answer["quest"]["id"] for answer in desk.json("wait", *ids)] == ids


def test_it_ends_with_the_quest_and_not_before(desk: Desk) -> None:
    """Woken by the end itself."""
    hold = desk.hold()
    quest = desk.add(hold.task)
    hold.running()
    waiting = subprocess.Popen(
        [sys.executable, "-m", "qlctl", "wait", quest],
        env=desk.daemon.environ(PYTHONPATH=str(REPOSITORY)),
        cwd=desk.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert waiting.poll() is None
    hold.release()
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, f"{quest} is done\n")
