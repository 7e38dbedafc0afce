"""qlctl reload"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk
from tests.integration.server.peer import MANAGER, Peer, Refused
from tests.integration.test_activation import notified, until
from tests.support.daemon import REPOSITORY, SHELL, UP_S, Daemon


def write(desk: Desk, text: str) -> None:
    """What the daemon's configuration says from now on."""
    desk.daemon.config.write_text(SHELL + text)


def test_new_values_count_at_once_and_are_named(lone: Desk) -> None:
    """One that waits for a slot is started by the reload that makes one."""
    write(lone, "scheduler.max_concurrent = 1\n")
    assert lone.ok("reload") == "reloaded: scheduler.max_concurrent\n"
    holds = lone.hold("first"), lone.hold("second")
    quests = [lone.add(hold.task) for hold in holds]
    holds[0].running()
    assert not holds[1].started()
    write(lone, 'scheduler.max_concurrent = 2\nexecutors.build.command = ["echo", "built"]\n')
    assert lone.ok("reload") == "reloaded: executors.build.command, scheduler.max_concurrent\n"
    holds[1].running()
    for hold in holds:
        hold.release()
    assert {lone.ended(quest)["state"] for quest in quests} == {"done"}
    assert lone.ended(lone.ok("add", "--print-id", "build", "x").strip())["result"] == "built\n"


def test_a_lane_gets_and_loses_slots_while_quests_hold_them(lone: Desk) -> None:
    """Who waited goes on at once; who holds one too many keeps it to its end, and none follows."""
    write(lone, "scheduler.max_concurrent = 4\n")
    lone.ok("reload")
    holds = [lone.hold(str(number)) for number in range(3)]
    quests = [lone.add(hold.task, "--lane", "web") for hold in holds]
    holds[0].running()
    write(lone, "scheduler.max_concurrent = 4\nlanes.web.slots = 2\n")
    assert lone.ok("reload") == "reloaded: lanes.web.slots\n"
    holds[1].running()
    write(lone, "scheduler.max_concurrent = 4\n")
    assert lone.ok("reload") == "reloaded: lanes.web.slots\n"
    holds[0].release()
    lone.ended(quests[0])
    assert lone.ended(lone.add("true"))["state"] == "done"
    assert not holds[2].started()
    holds[1].release()
    holds[2].running()
    holds[2].release()
    assert {lone.ended(quest)["state"] for quest in quests} == {"done"}


def test_an_attempt_that_runs_keeps_the_executor_it_began_with(lone: Desk) -> None:
    """Its timeout and all else; lanes and limits are there for the next."""
    hold = lone.hold()
    quest = lone.add(hold.task)
    hold.running()
    write(lone, "executor.timeout = 0.001\n")
    lone.ok("reload")
    hold.release("to its end")
    assert lone.ended(quest)["result"] == "to its end"
    assert lone.ended(lone.add("exec sleep 1000"))["class"] == "timeout"


def test_a_wrong_file_is_refused_with_its_place_and_changes_nothing(lone: Desk) -> None:
    """Whatever else of it is right."""
    write(lone, "executor.timeout = 0.001\nexecutor.timout = 3\n")
    refused = lone.daemon.qlctl("reload", check=False)
    line = SHELL.count("\n") + 2
    assert refused.returncode == 78
    assert refused.stderr == (
        f"qlctl: {lone.daemon.config}:{line}: executor.timout: unknown key\n  did you mean executor.timeout?\n"
    )
    with pytest.raises(Refused) as caught, lone.peer() as peer:
        peer.call(MANAGER + "Reload")
    assert caught.value.name == "io.questline.ConfigInvalid"
    assert {key: caught.value.parameters[key] for key in ("file", "line", "key", "suggestion")} == {
        "file": str(lone.daemon.config),
        "line": line,
        "key": "executor.timout",
        "suggestion": "executor.timeout",
    }
    assert lone.ended(lone.add("true"))["state"] == "done"


def test_a_group_that_this_machine_does_not_have_is_refused_like_any_wrong_value(lone: Desk) -> None:
    """By a start, too, which ends with the status of a wrong configuration."""
    write(lone, 'admin_group = "no-such-group-here"\n')
    line = SHELL.count("\n") + 1
    refused = lone.daemon.qlctl("reload", check=False)
    assert refused.returncode == 78
    message = f"{lone.daemon.config}:{line}: admin_group: there is no group no-such-group-here\n"
    assert message in refused.stderr
    lone.daemon.stop()
    lone.daemon.start(ready=False)
    assert lone.daemon.wait() == 78
    assert message in lone.daemon.log.read_text()
    lone.daemon.config.write_text(SHELL)
    lone.daemon.start()


def test_what_only_a_restart_changes_is_said_and_stays_until_then(lone: Desk, tmp_path: Path) -> None:
    write(lone, f'store.path = "{tmp_path}/other.sqlite"\n')
    done = lone.daemon.qlctl("reload")
    assert done.stdout == "reloaded: nothing changed\n"
    assert "only a restart changes store.path" in done.stderr
    assert lone.json("reload") == {
        "files": [str(lone.daemon.config)],
        "changed": [],
        "restart": ["store.path"],
        "warnings": [],
    }
    assert lone.json("version")["daemon"]["database"] == str(lone.daemon.state / "quests.sqlite")


def test_many_reloads_at_once_are_done_one_after_another(lone: Desk) -> None:
    """Each is answered, and none is told to have changed what another one did."""
    write(lone, "max_attempts = 2\n")
    peers = [Peer(lone.daemon.socket) for _ in range(8)]
    for peer in peers:
        peer.send(json.dumps({"method": MANAGER + "Reload"}).encode() + b"\0")
    answers = [peer.reply()["parameters"]["changed"] for peer in peers]
    for peer in peers:
        peer.close()
    assert sorted(answers) == [[]] * 7 + [["max_attempts"]]


def test_sighup_reloads_a_service_and_says_so_to_systemd(tmp_path: Path) -> None:
    """A wrong file is one error in the log; the service is up as before."""
    daemon = Daemon(tmp_path)
    with notified(tmp_path) as (receiving, address):
        daemon.start(ready=False, NOTIFY_SOCKET=address)
        try:
            until(receiving, b"READY=1")
            daemon.config.write_text(SHELL + "max_attempts = 2\n")
            daemon.signal(signal.SIGHUP)
            until(receiving, b"RELOADING=1")
            until(receiving, b"READY=1")
            daemon.config.write_text(SHELL + "max_attempts = -2\n")
            daemon.signal(signal.SIGHUP)
            until(receiving, b"RELOADING=1")
            until(receiving, b"READY=1")
            assert daemon.qlctl("health").returncode == 0
        finally:
            assert daemon.stop() == 0
    log = daemon.log.read_text().splitlines()
    assert "INFO the configuration was reloaded; changed: max_attempts" in log
    (error,) = [line for line in log if line.startswith("ERROR")]
    assert "the configuration stays as it was" in error
    assert "max_attempts: -2 is below 0" in error


def test_hang_ups_while_it_stops_change_nothing_of_its_end(tmp_path: Path) -> None:
    """Nor of its status, up to the last moment."""
    daemon = Daemon(tmp_path)
    with notified(tmp_path) as (receiving, address):
        daemon.start(ready=False, NOTIFY_SOCKET=address)
        until(receiving, b"READY=1")
        process = daemon.process
        assert process is not None
        process.terminate()
        until(receiving, b"STOPPING=1")
        while process.poll() is None:
            process.send_signal(signal.SIGHUP)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.002)
        assert process.returncode == 0


def test_the_terminals_end_is_the_daemons(tmp_path: Path) -> None:
    """There SIGHUP reloads nothing: a window was closed."""
    daemon = Daemon(tmp_path)
    outside, inside = os.openpty()
    command = ["setsid", "--ctty", sys.executable, "-m", "questlined"]
    with subprocess.Popen(
        command, env=daemon.environ(), cwd=REPOSITORY, stdin=inside, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(inside)
        assert process.stderr is not None
        while "listens on" not in process.stderr.readline():
            assert process.poll() is None
        os.close(outside)
        assert process.wait(UP_S) == 0
