"""A daemon's start and end, and the attempts that are in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene, scene
from tests.integration.procs.scene import alive as lives
from tests.support.daemon import REPOSITORY
from tests.support.evidence import alive

UNAVAILABLE = 75


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as playing:
        yield playing


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_interrupts_what_runs_and_charges_nothing(stage: Scene, number: int) -> None:
    """Exit status 0, no process left, even of one that is deaf; all of it runs again at the next start."""
    polite = stage.add(stage.held("trap 'echo bye; exit 0' TERM"))
    stage.started.next()
    deaf = stage.add(stage.held("trap '' TERM; { setsid sleep 1000 & }", "true"))
    stage.started.next()
    waiting = stage.add(stage.held())
    stage.signal(number)
    assert stage.wait() == 0
    stage.in_order()
    stage.start()
    for _ in range(3):
        stage.hold.put()
    ends = [stage.ended(quest) for quest in (polite, deaf, waiting)]
    assert [(end["quest"]["state"], end["quest"]["attempts"], end["quest"]["refunds"]) for end in ends] == [
        ("done", 2, 1),
        ("done", 2, 1),
        ("done", 1, 0),
    ]
    assert [run["class"] for run in ends[0]["runs"]] == ["interrupted", "ok"]
    stage.in_order()


def test_a_second_signal_skips_the_grace(tmp_path: Path) -> None:
    """Of however many minutes."""
    with scene(tmp_path) as stage:
        stage.stop()
        stage.config.write_text(stage.config.read_text().replace('"300ms"', '"1h"'))
        stage.start()
        stage.add(
            stage.held(
                f"trap 'echo deaf >\"{stage.started.path}\"' TERM", f'while :; do read x <"{stage.hold.path}"; done'
            )
        )
        stage.started.next()
        stage.signal(signal.SIGTERM)
        assert stage.started.next() == "deaf"
        stage.signal(signal.SIGTERM)
        assert stage.wait() == 0
        stage.in_order()


def test_work_of_a_killed_daemon_is_found_and_runs_again(stage: Scene) -> None:
    """What it left alive, in whatever session, is dead before anything is claimed; its output is kept."""
    escape = f"setsid sh -c 'echo $$ >\"{stage.started.path}\"; exec sleep 1000' & "
    quest = stage.add(f"{escape}echo first; {stage.held()}")
    pids = {stage.started.next(), stage.started.next()} - {"1"}
    stage.kill()
    assert lives(int(*pids))
    stage.start()
    while stage.started.next() != "2":
        pass
    stage.hold.put()
    shown = stage.ended(quest)
    assert [run["class"] for run in shown["runs"]] == ["lost", "ok"]
    assert not lives(int(*pids))
    stage.in_order()


def second(stage: Scene, state: Path, config: str = "") -> subprocess.CompletedProcess[str]:
    """Another daemon, which must not come up."""
    file = stage.folder / "second.toml"
    file.write_text(config)
    env = stage.environ(QUESTLINED_STATE=str(state), QUESTLINED_SOCKET=str(stage.folder / "2.sock"))
    command = [sys.executable, "-m", "questlined", "--config", str(file)]
    return subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, text=True, timeout=30)


def test_a_second_daemon_on_the_same_state_refuses_and_names_the_first(stage: Scene) -> None:
    """Also where only the database is the same. The first does not notice."""
    quest = stage.add(stage.held())
    stage.started.next()
    same = second(stage, stage.state)
    (stage.folder / "link").symlink_to(stage.database)
    database = second(stage, stage.folder / "other", f'store.path = "{stage.folder}/link"')
    for refused in (same, database):
        assert refused.returncode == UNAVAILABLE, refused.stderr
    for named in (str(stage.pid), stage.socket):
        assert named in same.stderr
    assert len(alive(stage.database)) == 1
    stage.hold.put()
    assert stage.ended(quest)["quest"]["attempts"] == 1


def test_a_lock_file_left_behind_is_no_obstacle(stage: Scene) -> None:
    """Even if the pid in it is another program's by now."""
    stage.kill()
    lock = stage.state / "lock"
    assert json.loads(lock.read_text())["pid"] == stage.pid
    lock.write_text(json.dumps({"pid": os.getpid(), "socket": stage.socket}))
    stage.start()
    assert json.loads(lock.read_text())["pid"] == stage.pid
    assert stage.run("true")["quest"]["state"] == "done"
    assert stage.stop() == 0
    assert lock.read_text() == ""


def test_nobody_else_can_read_the_state(stage: Scene) -> None:
    """Not for an instant: the files are made with their modes."""
    stage.run("true")
    found = {path.name: oct(path.stat().st_mode & 0o777) for path in stage.state.iterdir()}
    modes = {name: mode for name, mode in found.items() if name != "artifacts"}
    assert {"quests.sqlite", "quests.sqlite-wal", "quests.sqlite.lock", "lock"} <= set(modes)
    assert set(modes.values()) == {"0o600"}
    assert (found["artifacts"], oct(stage.state.stat().st_mode & 0o777)) == ("0o700", "0o700")
