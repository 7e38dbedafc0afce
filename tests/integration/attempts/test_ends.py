"""How an attempt ends, and that nothing of it is left alive then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.attempts.scene import Scene, scene
from tests.integration.procs.scene import alive as lives
from tests.support.evidence import alive

CONFIG = """
max_interruptions = 3
executors.file.output = "file"
executors.limit.output_limit = 100000
executors.limitfile.output_limit = 100000
executors.limitfile.output = "file"
executors.first.first_output_timeout = "100ms"
executors.firstfile.first_output_timeout = "100ms"
executors.firstfile.output = "file"
executors.idle.idle_timeout = "200ms"
executors.keep.keep_children = true
executors.keepfile.keep_children = true
executors.keepfile.output = "file"
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("ends"), CONFIG) as playing:
        yield playing


def end(shown: dict[str, Any]) -> tuple[str, str, int]:
    """A quest's state and class, and how many attempts were charged."""
    quest = shown["quest"]
    return quest["state"], quest["class"], quest["attempts"] - quest["refunds"]


ESCAPES = {
    "a session of its own": "setsid sh -c '{body}' &",
    "a double fork": "( setsid sh -c '{body}' & ) &",
    "no mark in its environment": "env -i PATH=$PATH setsid setsid -f sh -c '{body}' &",
    "deaf to signals": "trap '' TERM HUP INT; sh -c '{body}' &",
    "a pipe of our own": "( setsid sh -c '{body}' | cat ) &",
}


def escaping(stage: Scene) -> str:
    """Starts one process of each kind, which all write their pid."""
    body = f'echo $$ >"{stage.started.path}"; exec sleep 1000'
    return "\n".join(escape.replace("{body}", body) for escape in ESCAPES.values())


ENDS = {
    "done": ("true", (), ("done", "ok", 1)),
    "failed": ("exit 1", (), ("failed", "failed", 1)),
    "timeout": ("sleep 1000", ("--timeout", "1s"), ("failed", "timeout", 1)),
    "cancelled": ("sleep 1000", (), ("cancelled", "cancelled", 0)),
}


@pytest.mark.parametrize("role", ["default", "file"])
@pytest.mark.parametrize("ending", ENDS)
def test_what_got_away_is_dead_when_the_quest_has_ended(stage: Scene, ending: str, role: str) -> None:
    """However it got away, and however the quest ends; the pipes it holds open keep nobody waiting."""
    after, options, wanted = ENDS[ending]
    task = f'{escaping(stage)}\nread line <"{stage.hold.path}"; {after}'
    if ending in ("timeout", "cancelled"):
        task = f"{escaping(stage)}\n{after}"
    quest = stage.add_as(role, task, *options)
    pids = [int(stage.started.next()) for _ in ESCAPES]
    assert all(lives(pid) for pid in pids)
    if ending == "cancelled":
        stage.qlctl("cancel", quest)
    elif ending != "timeout":
        stage.hold.put()
    assert end(stage.ended(quest)) == wanted
    assert [pid for pid in pids if lives(pid)] == []
    stage.in_order()


def test_a_cancelled_program_may_exit_as_it_likes(stage: Scene) -> None:
    """143 and exit 0 alike: cancelled, nothing charged, not run again."""
    for code in (143, 0, 1):
        task = stage.held(f"trap 'exit {code}' TERM")
        quest = stage.add(task, "--max-attempts", "3")
        stage.started.next()
        stage.qlctl("cancel", quest, "--reason", "changed my mind")
        shown = stage.ended(quest)
        assert (end(shown), shown["run"]["exitCode"]) == (("cancelled", "cancelled", 0), code)
        assert shown["quest"]["reason"] == "changed my mind"
    stage.in_order()


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(stage: Scene) -> None:
    quest = stage.add(stage.held("trap '' TERM", f'while :; do read line <"{stage.hold.path}"; done'))
    stage.started.next()
    stage.qlctl("cancel", quest)
    shown = stage.ended(quest)
    assert (end(shown), shown["run"]["exitSignal"]) == (("cancelled", "cancelled", 0), signal.SIGKILL)
    stage.in_order()


def test_a_timeout_is_charged_and_retried(stage: Scene) -> None:
    """And says so, with what it had written."""
    shown = stage.run("echo half; echo why >&2; sleep 1000", "--timeout", "150ms", "--max-attempts", "2")
    assert end(shown) == ("failed", "timeout", 2)
    assert shown["quest"]["result"] == "half\n"
    assert shown["quest"]["error"].endswith("timeout\nwhy\n")
    assert [run["class"] for run in shown["runs"]] == ["timeout", "timeout"]


@pytest.mark.parametrize(
    ("role", "wanted"), [("first", "start_timeout"), ("firstfile", "start_timeout"), ("default", "ok")]
)
def test_silence_from_the_start_has_a_deadline_of_its_own(stage: Scene, role: str, wanted: str) -> None:
    """Any byte is enough to meet it, on either stream."""
    quest = stage.add_as(role, f'read line <"{stage.hold.path}"')
    if wanted == "ok":
        stage.hold.put()
    assert stage.ended(quest)["quest"]["class"] == wanted
    if wanted != "ok":
        quest = stage.add_as(role, f'echo x >&2; read line <"{stage.hold.path}"', "--timeout", "400ms")
        assert stage.ended(quest)["quest"]["class"] == "timeout"


def test_silence_after_output_is_idle(stage: Scene) -> None:
    """Writing puts the deadline off."""
    shown = stage.run("for n in 1 2 3 4 5; do echo $n; sleep 0.08; done; sleep 1000", role="idle")
    assert (end(shown), shown["quest"]["result"]) == (("failed", "idle", 1), "1\n2\n3\n4\n5\n")


@pytest.mark.parametrize("role", ["limit", "limitfile"])
def test_too_much_output_is_killed_without_grace(stage: Scene, role: str) -> None:
    """And says so; what it wrote so far is there."""
    shown = stage.run("trap '' TERM; while :; do echo 0123456789012345678901234567890123456789; done", role=role)
    assert end(shown) == ("failed", "output_limit", 1)
    assert "output_limit" in shown["quest"]["error"]
    assert shown["run"]["exitSignal"] == signal.SIGKILL
    assert len(shown["files"]["stdout"]) > 100_000


@pytest.mark.parametrize("role", ["limit", "limitfile"])
def test_too_much_output_is_seen_although_the_program_has_ended(stage: Scene, role: str) -> None:
    """The class does not depend on who was faster. Just as much as allowed is allowed."""
    shown = stage.run("head -c 60000 /dev/zero; head -c 40001 /dev/zero >&2", role=role)
    assert end(shown) == ("failed", "output_limit", 1)
    assert end(stage.run("head -c 100000 /dev/zero", role=role)) == ("done", "ok", 1)


@pytest.mark.parametrize("number", ["KILL", "TERM"])
def test_a_kill_from_outside_is_an_interruption(stage: Scene, number: str) -> None:
    """Nothing is charged, and the quest runs again, at once."""
    runs = f'"{stage.evidence.folder}/$QUESTLINE_ID.runs"'
    shown = stage.run(stage.evidence.task(f'test "$(wc -l <{runs})" -gt 2 || kill -{number} $$'))
    assert end(shown) == ("done", "ok", 1)
    assert [run["class"] for run in shown["runs"]] == ["interrupted", "interrupted", "ok"]


def test_a_signal_that_a_program_sends_for_a_crash_is_a_failure(stage: Scene) -> None:
    """SIGSEGV and SIGABRT are the program's own fault."""
    for number in ("SEGV", "ABRT"):
        assert end(stage.run(f"kill -{number} $$")) == ("failed", "failed", 1)


def test_interruptions_are_bounded(stage: Scene) -> None:
    """By max_interruptions, uncharged, which only a retry by a person sets back."""
    quest = stage.add("kill -KILL $$")
    for attempts in (4, 8):
        shown = stage.ended(quest)
        assert (end(shown), shown["quest"]["attempts"]) == (("failed", "interrupted", 0), attempts)
        assert shown["quest"]["failureKind"] == "interrupted"
        stage.qlctl("retry", quest)
    stage.ended(quest)
    stage.in_order()


@pytest.mark.parametrize("role", ["keep", "keepfile"])
def test_children_may_be_kept_on_purpose(stage: Scene, role: str) -> None:
    """Past other attempts and a kill of the daemon; the quest does not wait for their output."""
    pid = 0
    task = (
        f'setsid sh -c \'echo $$ >"{stage.started.path}"; exec sleep 1000\' & read line <"{stage.hold.path}"; echo up'
    )
    quest = stage.add_as(role, task)
    try:
        pid = int(stage.started.next())
        stage.hold.put()
        shown = stage.ended(quest)
        assert (end(shown), shown["quest"]["result"]) == (("done", "ok", 1), "up\n")
        stage.run("true")
        held = stage.add(stage.held())
        stage.started.next()
        stage.kill()
        stage.start()
        stage.started.next()
        stage.hold.put()
        stage.ended(held)
        assert alive(stage.database) == [pid]
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)


def test_fifty_cancelled_at_once_all_end_once(stage: Scene) -> None:
    """Waiting, running, and on the way between."""
    quests = [
        stage.call("Quests.Add", directory=str(stage.project), task=stage.held())["quest"]["id"] for _ in range(50)
    ]
    stage.started.next()
    stage.started.next()
    stage.qlctl("cancel", *quests)
    stage.qlctl("wait", *quests, check=False)
    ends = {quest: stage.call("Quests.Events", id=quest)["events"] for quest in quests}
    assert {end["event"] for events in ends.values() for end in events[:1]} == {"cancelled"}
    assert all([event["event"] for event in events].count("cancelled") == 1 for events in ends.values())
    assert {stage.call("Quests.Get", id=quest)["quest"]["state"] for quest in quests} == {"cancelled"}
    stage.in_order()


def test_a_cancel_in_any_instant_leaves_one_end(stage: Scene) -> None:
    """While a quest starts, runs, finishes or is about to be tried again."""
    add = {"directory": str(stage.project), "maxAttempts": 3}
    for number in range(40):
        quest = stage.call("Quests.Add", task="exit 1" if number % 2 else "true", **add)["quest"]["id"]
        for _ in range(number // 2):
            stage.call("Quests.Get", id=quest)  # as long as it takes
        cancel(stage, quest)
        events = [event["event"] for event in stage.ended(quest)["events"]]
        assert sum(event in ("completed", "failed", "cancelled") for event in events) == 1, events
    stage.in_order()


def cancel(stage: Scene, quest: str) -> None:
    """Which is refused where it is too late."""
    try:
        stage.call("Quests.Cancel", id=quest)
    except AssertionError as error:
        if "WrongState" not in str(error):
            raise
