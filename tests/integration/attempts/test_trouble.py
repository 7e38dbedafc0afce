"""What a machine, a stranger or the quest itself can do to an attempt: the daemon lives, every quest gets an end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
from pathlib import Path

import pytest

from questlined.attempts import recovery
from questlined.core.ids import marker
from tests.integration.attempts.scene import Scene, scene
from tests.support.parts import parts

CONFIG = 'executors.file.output = "file"\nexecutors.file.command = ["sh", "-c", "{task}"]\n'


def states(play: Scene) -> list[tuple[str, int]]:
    """(state, attempts) of every quest, from the file."""
    with sqlite3.connect(play.database) as database:
        found = database.execute("SELECT state, attempts FROM quests ORDER BY rowid").fetchall()
    database.close()
    return found


def test_a_stranger_with_the_childs_stdout_keeps_no_attempt_open(tmp_path: Path) -> None:
    """The pipe never ends, and the quest does all the same."""
    with scene(tmp_path) as play:
        quest = play.add_as("default", f'echo $$ >"{play.started.path}"; read line <"{play.hold.path}"; echo said')
        pid = int(play.started.next())
        with open(f"/proc/{pid}/fd/1", "wb"):
            play.hold.put()
            shown = play.ended(quest)
        assert (shown["quest"]["state"], shown["quest"]["result"]) == ("done", "said\n")


@pytest.mark.parametrize("role", ["default", "file"])
def test_a_quest_that_replaces_its_own_files_gets_its_end(tmp_path: Path, role: str) -> None:
    """What it wrote is read where it wrote it; nobody else is hurt."""
    with scene(tmp_path, CONFIG) as play:
        where = play.state / "artifacts"
        task = f"cd {where}/$QUESTLINE_ID/1 && rm stdout stderr && mkdir stdout && mkfifo stderr && echo kept"
        added = play.add_as(role, task)
        waited = play.call("Quests.Wait", id=added, timeoutMs=30_000)
        assert (waited["quest"]["state"], waited["quest"]["result"]) == ("done", "kept\n")
        assert play.run("echo next")["quest"]["result"] == "next\n"


def test_an_artifacts_directory_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    with scene(tmp_path) as play:
        shutil.rmtree(play.state / "artifacts")
        assert play.run("echo here")["quest"]["result"] == "here\n"


def test_a_stop_in_the_instant_of_a_claim_leaves_nothing_running(tmp_path: Path) -> None:
    """The claim's quest is interrupted, not forgotten: the file says so before the next start. A client that comes in
    the same instant keeps nobody waiting either."""
    play = Scene(tmp_path)
    for _ in range(6):
        play.start()
        play.add_as("default", "true")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(play.socket)
            assert play.stop() == 0
        assert "running" not in {state for state, _ in states(play)}
    play.started.close()
    play.hold.close()


def test_a_second_signal_ends_a_daemon_whose_database_is_held(tmp_path: Path) -> None:
    """What could not be written is settled at the next start, as an interruption."""
    play = Scene(tmp_path)
    play.start()
    quest = play.add_as("default", play.held())
    play.started.next()
    with sqlite3.connect(play.database, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        play.signal(signal.SIGTERM)
        play.signal(signal.SIGINT)
        assert play.wait(60) == 0
        other.execute("ROLLBACK")
    other.close()
    assert states(play) == [("running", 1)]
    play.start()
    play.started.next()
    play.hold.put()
    shown = play.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["refunds"]) == ("done", 1)
    assert play.stop() == 0
    play.started.close()
    play.hold.close()


def test_a_relative_entry_of_path_is_meant_from_the_project(tmp_path: Path) -> None:
    tool = tmp_path / "project" / "bin" / "mytool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    with scene(tmp_path, 'executors.tool.command = ["mytool"]\n') as play:
        quest = play.add_as("tool", "x", PATH=f"bin:{os.environ['PATH']}")
        assert play.ended(quest)["quest"]["result"] == "mine\n"


def test_a_quest_that_fits_no_frame_is_shown_cut(tmp_path: Path) -> None:
    """Control characters are six times as long on the wire; its files have it whole."""
    with scene(tmp_path, 'executor.max_inline_output_bytes = "1M"\n') as play:
        loud = "head -c 400000 /dev/zero | tr '\\0' '\\1'"
        shown = play.run(f"{loud}; {loud} >&2; exit 1")
        assert shown["quest"]["state"] == "failed"
        assert 0 < len(shown["quest"]["error"]) <= 16 * 1024
        assert len(shown["files"]["stdout"]) == 400_000


def test_what_cannot_be_killed_holds_its_quest_until_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane is never free while something of it lives, not even after a crash of the daemon."""

    async def play() -> None:
        async with parts(tmp_path) as here:
            quest = await here.add(lane="a")
            claimed = await here.claim("an earlier daemon")
            mark = marker(here.runtime.store_uuid, quest, claimed.run.lease_gen)
            environ = {"PATH": os.environ["PATH"], "QUESTLINE_ATTEMPT": mark}
            with subprocess.Popen(["sleep", "1000"], env=environ) as living:  # noqa: ASYNC220  it starts at once
                monkeypatch.setattr(recovery, "kill_leftovers", lambda *arguments: [])
                assert (await recovery.recover(here.runtime, "daemon-2", {})).ended == []
                with here.changes.watching(quest) as changed:
                    await here.bench.store.touch()
                    assert await here.bench.state(quest) == "running"
                    assert here.runtime.undying == {quest: [living.pid]}
                    living.kill()
                    await changed.wait()
                assert await here.bench.state(quest) == "interrupted"
                assert here.runtime.undying == {}

    asyncio.run(play())
