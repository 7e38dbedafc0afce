"""kill -9 at every named point: the interrupted step is as before or as after, and nothing is lost, doubled or left."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from questlined import probes
from tests.support.daemon import REPOSITORY, Daemon
from tests.support.evidence import Evidence, Fifo, alive
from tests.support.invariants import broken


class Stage(Daemon):
    """A daemon to be killed, with the evidence of what ran. Tasks say `started` when they run, and wait for `hold`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.evidence = Evidence(folder / "evidence")
        self.started, self.hold = Fifo(folder / "started"), Fifo(folder / "hold")
        self.clients: list[subprocess.Popen[str]] = []

    @property
    def database(self) -> Path:
        return self.state / "quests.sqlite"

    def held(self, then: str = "echo result") -> str:
        """A task that runs until one line is in `hold`."""
        return self.evidence.task(
            f'echo "$QUESTLINE_RUN" >"{self.started.path}"; read line <"{self.hold.path}"; {then}'
        )

    def calling(self, *arguments: str) -> subprocess.Popen[str]:
        """qlctl, while other things happen."""
        command = [sys.executable, "-m", "qlctl", *arguments]
        env = self.environ(PYTHONPATH=str(REPOSITORY))
        client = subprocess.Popen(
            command, env=env, cwd=self.project, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.clients.append(client)
        return client

    def dies(self) -> None:
        """The armed point was reached."""
        assert self.wait() == -signal.SIGKILL

    def end(self) -> None:
        for client in self.clients:
            client.kill()
            client.communicate()
        self.stop()
        self.started.close()
        self.hold.close()

    def quest(self, quest: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.json("show", quest)["quest"]
        return shown

    def ended(self, quest: str) -> dict[str, Any]:
        """The quest when it has ended; everything else is in order by then."""
        self.qlctl("wait", quest, check=False)
        assert [each["id"] for each in self.json("list")] == [quest]
        assert self.evidence.overlaps() == []
        assert alive(self.database) == []
        assert broken(self.database) == []
        assert self.json("health")["ok"]
        return self.quest(quest)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.end()


def answer(client: subprocess.Popen[str]) -> str:
    """What qlctl printed; it ended well although the daemon died in between."""
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    return out.strip()


def adding(stage: Stage, point: str) -> None:
    """The client repeats the call that was cut off, and the quest exists once."""
    stage.hold.put()
    stage.start(crash_at=point)
    client = stage.calling("add", "--print-id", stage.held())
    stage.dies()
    stage.start()
    ended = stage.ended(answer(client))
    assert (ended["state"], ended["attempts"], ended["refunds"], ended["result"]) == ("done", 1, 0, "result\n")
    assert len(stage.evidence.runs(ended["id"])) == 1


def running(attempts: int, runs: set[int], count: int = 1) -> Callable[[Stage, str], None]:
    """An attempt is cut off where its program does not run, or has ended."""

    def story(stage: Stage, point: str) -> None:
        stage.hold.put(2)
        stage.start(crash_at=f"{point}:{count}")
        client = stage.calling("add", "--print-id", stage.held())
        stage.dies()
        stage.start()
        ended = stage.ended(answer(client))
        assert (ended["state"], ended["attempts"], ended["refunds"]) == ("done", attempts, attempts - 1)
        assert ended["result"] == "result\n"
        assert len(stage.evidence.runs(ended["id"])) in runs

    return story


def alive_at_death(stage: Stage, point: str) -> None:
    """An attempt is cut off while its program runs: that one is dead before the next begins."""
    stage.start(crash_at=point)
    client = stage.calling("add", "--print-id", stage.held())
    stage.dies()
    assert alive(stage.database)
    stage.start()
    while stage.started.next() != "2":
        pass
    stage.hold.put()
    ended = stage.ended(answer(client))
    assert (ended["state"], ended["attempts"], ended["refunds"]) == ("done", 2, 1)


def cancelling(stage: Stage, point: str) -> None:
    """Nobody repeats the call: an uncommitted cancel has not happened, a committed one is obeyed after the restart."""
    stage.start(crash_at=point)
    quest = stage.add(stage.held())
    assert stage.started.next() == "1"
    client = stage.calling("cancel", quest)
    stage.dies()
    client.kill()
    stage.start()
    if point == "cancel.before":
        assert stage.started.next() == "2"
        stage.hold.put()
    ended = stage.ended(quest)
    runs = stage.evidence.runs(quest)
    assert (ended["state"], runs) == (("done", ["1", "2"]) if point == "cancel.before" else ("cancelled", ["1"]))


def retrying(stage: Stage, point: str) -> None:
    """Nobody repeats the call: an uncommitted retry has not happened, a committed one leads to the next attempt."""
    stage.start(crash_at=point)
    stage.hold.put(2)
    quest = stage.add(stage.held("test -e good"))
    assert stage.qlctl("wait", quest, check=False).returncode == 1
    (stage.project / "good").touch()
    client = stage.calling("retry", quest)
    stage.dies()
    client.kill()
    stage.start()
    if point == "retry.before":
        assert stage.quest(quest)["state"] == "failed"
        stage.qlctl("retry", quest)
    ended = stage.ended(quest)
    assert (ended["state"], ended["attempts"], ended["refunds"]) == ("done", 2, 0)
    assert stage.evidence.runs(quest) == ["1", "2"]


def recovering(stage: Stage, point: str) -> None:
    """A daemon that is killed while it clears up after a killed one leaves the same work to the third."""
    stage.start()
    quest = stage.add(stage.held())
    assert stage.started.next() == "1"
    stage.kill()
    assert alive(stage.database)
    stage.start(crash_at=point, ready=False)
    stage.dies()
    assert alive(stage.database) == []
    stage.hold.put()
    stage.start()
    ended = stage.ended(quest)
    assert (ended["state"], ended["attempts"], ended["refunds"]) == ("done", 2, 1)
    assert stage.evidence.runs(quest) == ["1", "2"]


def reexecuting(stage: Stage, point: str) -> None:
    """A program that is killed on its way to the next one, or that one before it goes on, leaves what any crash leaves.
    Who has asked for it asks the daemon that comes up instead, or was answered, and is told of the crash."""
    stage.start(crash_at=point)
    client = stage.calling("add", "--print-id", stage.held())
    assert stage.started.next() == "1"
    asking = stage.calling("reexec")
    stage.dies()
    assert alive(stage.database)
    stage.start()
    _, err = asking.communicate(timeout=60)
    asked_again = point in ("reexec.checked", "reexec.rested")
    assert (asking.returncode, "started anew" in err) == ((0, False) if asked_again else (75, True)), err
    while stage.started.next() != "2":
        pass
    stage.hold.put()
    ended = stage.ended(answer(client))
    assert (ended["state"], ended["attempts"], ended["refunds"]) == ("done", 2, 1)


def firing(stage: Stage, point: str) -> None:
    """A time that was due when the daemon was killed over it has one quest, and the rule goes on."""
    stage.start()
    rule = stage.json("recurring", "add", "rule", "0 0 29 2 *", stage.held())
    stage.stop()
    db = sqlite3.connect(stage.database, isolation_level=None)
    db.execute("UPDATE quest_recurrences SET next_run_at = 0")
    db.close()
    stage.start(crash_at=point, ready=False)
    stage.dies()
    stage.hold.put()
    stage.start()
    assert stage.started.next() == "1"
    (quest,) = stage.json("list")
    ended = stage.ended(quest["id"])
    assert (ended["state"], ended["attempts"], ended["recurrenceId"]) == ("done", 1, rule["id"])
    assert stage.json("recurring", "show", "rule")["nextRunAt"] == rule["nextRunAt"]


# The first claim of an idle daemon finds nothing; the second one is the quest's.
STORIES: dict[str, Callable[[Stage, str], None]] = {
    "add.before": adding,
    "add.after": adding,
    "claim.before": running(1, {1}, count=2),
    "claim.after": running(2, {1}, count=2),
    "attempt.prepared": running(2, {1}),
    "attempt.spawned": alive_at_death,
    "started.before": alive_at_death,
    "started.after": alive_at_death,
    "attempt.exited": running(2, {2}),
    "attempt.swept": running(2, {2}),
    "attempt.reaped": running(2, {2}),
    "attempt.sealed": running(2, {2}),
    "finish.before": running(2, {2}),
    "finish.after": running(1, {1}),
    "cancel.before": cancelling,
    "cancel.after": cancelling,
    "retry.before": retrying,
    "retry.after": retrying,
    "reexec.checked": reexecuting,
    "reexec.rested": reexecuting,
    "reexec.written": reexecuting,
    "reexec.taken": reexecuting,
    "adopt.before": reexecuting,
    "adopt.after": reexecuting,
    "fire.before": firing,
    "fire.after": firing,
    "recover.before": recovering,
    "recover.after": recovering,
}
COMMITS = 8  # of a daemon that starts, takes one quest and runs it


def test_every_point_has_a_story() -> None:
    assert {*STORIES, "commit.before", "commit.after"} == set(probes.POINTS)


@pytest.mark.parametrize("point", STORIES)
def test_a_step_cut_off_is_as_before_or_as_after(stage: Stage, point: str) -> None:
    """And what was acknowledged is there once, ends right, and nothing of it is left or ran twice at once."""
    STORIES[point](stage, point)


@pytest.mark.parametrize("number", range(1, COMMITS + 1))
@pytest.mark.parametrize("side", ["before", "after"])
def test_any_commit_of_a_daemons_life_may_be_its_last(stage: Stage, side: str, number: int) -> None:
    """From the first one at start to the one that ends the only quest."""
    stage.hold.put(2)
    try:
        stage.start(crash_at=f"commit.{side}:{number}")
        client = stage.calling("add", "--print-id", stage.held())
    except AssertionError:  # it died before it was up
        client = None
    stage.dies()
    stage.start()
    if client is None or client.wait(60) == 69:  # nobody was there to take it: nothing was acknowledged
        assert stage.json("list") == []
        client = stage.calling("add", "--print-id", stage.held())
    ended = stage.ended(answer(client))
    assert (ended["state"], ended["attempts"] - ended["refunds"]) == ("done", 1)
    assert len(stage.evidence.runs(ended["id"])) in {1, 2}


@pytest.mark.parametrize("point", ["cancel.before", "cancel.after"])
def test_a_cancel_cut_off_is_repeated_by_its_client(stage: Stage, point: str) -> None:
    """Whichever side of its commit it was, the quest is cancelled, once."""
    stage.start(crash_at=point)
    quest = stage.add(stage.held())
    assert stage.started.next() == "1"
    client = stage.calling("cancel", quest)
    stage.dies()
    stage.start()
    answer(client)
    ended = stage.ended(quest)
    events = [event["event"] for event in stage.json("events", quest)]
    assert (ended["state"], events.count("cancelled")) == ("cancelled", 1)
