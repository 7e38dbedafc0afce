"""`qlctl reexec`: the program is replaced, and neither what runs nor who asks is the worse for it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import varlink

from qlctl.client import Client
from questlined import __version__
from tests.fault.replacing import ATTEMPTS, NEXT, Running
from tests.support.daemon import REPOSITORY
from tests.support.evidence import PATIENCE_S

LINES = 500


def counting(lines: int) -> str:
    """A shell command that prints so many numbered lines on either stream."""
    return f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo out $i; echo err $i >&2; done"


def counted(stream: str, times: int = 2) -> str:
    return "".join(f"{stream} {number}\n" for number in range(1, LINES + 1)) * times


class Adder(threading.Thread):
    """A client that adds one quest after another, as qlctl does it, until it is told to stop."""

    def __init__(self, scene: Running) -> None:
        super().__init__()
        self._client, self._where = Client(scene.socket), {"directory": str(scene.project)}
        self._enough = threading.Event()
        self.added: list[str] = []
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                wanted = {**self._where, "task": "echo added", "role": "default"}
                self.added.append(self._client.change("io.questline.Quests.Add", wanted)["quest"]["id"])
        except Exception as error:
            self.failed = error
        finally:
            self._client.close()

    def end(self) -> list[str]:
        self._enough.set()
        self.join(PATIENCE_S)
        assert self.failed is None
        return self.added


def test_twenty_attempts_go_on_while_clients_add_follow_and_wait(running: Running) -> None:
    """Four times in a row, with an output in pipes and in files: each attempt runs once, its output is whole and in
    order, who follows it is shown every record once, and no client is refused."""
    task = running.held(counting(LINES), counting(LINES))
    quests = [running.add_as("file" if number % 2 else "default", task) for number in range(ATTEMPTS)]
    for _ in quests:
        running.started.next()
    followers = [running.type("follow", quest) for quest in quests[:4]]
    waiter = running.type("wait", *quests)
    adder = Adder(running)
    adder.start()
    running.reexec()
    running.hold.put(2)
    for _ in range(3):
        running.reexec()
    running.hold.put(ATTEMPTS - 2)
    added = adder.end()
    assert waiter.end()[0] == 0
    for follower in followers:
        status, out, err = follower.end()
        assert (status, out) == (0, counted("out"))
        assert "".join(line for line in err.splitlines(keepends=True) if line.startswith("err")) == counted("err")
    for quest in quests:
        shown = running.ended(quest)
        assert shown["quest"]["state"] == "done"
        assert (shown["quest"]["attempts"], len(running.evidence.runs(quest))) == (1, 1)
        assert shown["files"]["stdout"].decode() == counted("out")
        assert shown["files"]["stderr"].decode() == counted("err")
    assert len(set(added)) == len(added) > 10
    for quest in added:
        assert running.ended(quest)["quest"]["result"] == "added\n"
    assert running.counts()["done"] == ATTEMPTS + len(added)
    assert "Traceback" not in running.log.read_text()
    running.in_order()


def test_an_upgrade_in_place_costs_no_attempt(tmp_path: Path) -> None:
    """What the files say when it is asked for is what comes, and not before it can be imported."""
    running = Running(tmp_path)
    running.checkout = tmp_path / "installed"
    code = running.checkout / "questlined"
    shutil.copytree(REPOSITORY / "questlined", code, ignore=shutil.ignore_patterns("__pycache__"))
    try:
        running.start()
        quest = running.add(running.held("echo one", "echo two"))
        running.started.next()
        good = (code / "app.py").read_text()
        (code / "app.py").write_text(f"{good}\ndef half(")
        (code / "__init__.py").write_text('__version__ = "99.1"\n')
        done = running.qlctl("reexec", check=False)
        assert (done.returncode, "SyntaxError" in done.stderr) == (75, True), done.stderr
        assert running.json("version")["daemon"]["version"] == __version__
        (code / "app.py").write_text(good)
        told = running.json("reexec")
        assert (told["from"], told["to"], told["running"]) == (__version__, "99.1", 1)
        assert running.json("version")["daemon"]["version"] == "99.1"
        running.hold.put()
        shown = running.ended(quest)
        assert (shown["quest"]["result"], shown["quest"]["attempts"]) == ("one\ntwo\n", 1)
    finally:
        running.close()


def test_a_quest_that_starts_under_the_new_program_gets_nothing_of_what_it_was_given(running: Running) -> None:
    """Neither a descriptor nor a variable, and no signal is blocked in it. The daemon is called as it was."""
    first = running.add_as("file", running.held())
    running.started.next()
    running.reexec()
    assert Path(f"/proc/{running.pid}/comm").read_text() == "questlined\n"
    shown = running.run("ls /proc/self/fd | wc -l; grep SigBlk /proc/self/status; env | grep HANDOVER || echo none")
    assert shown["quest"]["result"].split() == ["4", "SigBlk:", "0" * 16, "none"]  # ls has the directory open
    running.hold.put()
    assert running.ended(first)["quest"]["state"] == "done"


def test_no_descriptor_is_left_over(running: Running) -> None:
    """However often it happens, while attempts run with pipes and with files."""
    quests = [running.add_as(role, running.held()) for role in ("default", "file")]
    for _ in quests:
        running.started.next()
    running.reexec()
    before = running.descriptors()
    for _ in range(2):
        running.reexec()
    running.until(quests[0], lambda _: running.descriptors() <= before)  # clients go when they like
    running.hold.put(2)
    for quest in quests:
        assert running.ended(quest)["quest"]["attempts"] == 1


def test_the_locks_are_held_all_the_time_and_the_socket_goes_with_the_daemon(running: Running) -> None:
    running.reexec()
    other = [sys.executable, "-m", "questlined", "--socket", str(running.folder / "other.sock")]
    done = subprocess.run(other, env=running.environ(), cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 75
    assert f"another questlined: pid {running.pid}" in done.stderr
    assert running.stop() == 0
    assert not os.path.exists(running.socket)


def test_an_attempt_in_the_foreground_stays_there(running: Running) -> None:
    """Its client finds it again, shows what it has not shown, and interrupts it still."""
    rest = f'echo two; read line <"{running.hold.path}"'
    quest = running.add_as("default", running.held("echo one", rest), "--not-before", "+1h")
    client = running.type("run", quest)
    client.says("one\n")
    running.reexec()
    running.hold.put()
    client.says("two\n")
    running.hold.put()
    assert client.end()[:2] == (0, "one\ntwo\n")
    again = running.add_as("default", running.held("echo one"), "--not-before", "+1h")
    client = running.type("run", again)
    client.says("one\n")
    running.reexec()
    # The client is there again when the daemon streams to it.
    running.until(again, lambda _: running.call("Manager.Health", allProjects=True)["connections"] > 1)
    client.interrupt()
    assert client.end()[0] == 130
    run = running.until(again, lambda shown: shown["quest"]["state"] == "interrupted")["runs"][-1]
    assert run["error"].startswith("the client that ran it went away")


@pytest.mark.parametrize(
    ("options", "state", "klass"), [((), "cancelled", "cancelled"), (("--timeout", "200ms"), "failed", "timeout")]
)
def test_an_end_that_is_under_way_goes_on_under_the_new_program(
    running: Running, options: tuple[str, ...], state: str, klass: str
) -> None:
    """For the reason it has. A program that takes its time gets one SIGTERM only, and what it writes then is kept."""
    trap = f"trap 'echo told; echo told >{running.started.path}' TERM"
    task = f"{trap}; echo up >{running.started.path}; until read line <{running.hold.path}; do :; done"
    quest = running.add_as("slow", task, "--max-attempts", "1", *options)
    assert running.started.next() == "up"
    if klass == "cancelled":
        running.call("Quests.Cancel", id=quest)
    assert running.started.next() == "told"
    running.reexec()
    running.reexec()
    assert running.call("Quests.Get", id=quest)["quest"]["state"] == "running"
    running.hold.put()
    shown = running.ended(quest)
    assert (shown["quest"]["state"], shown["run"]["class"]) == (state, klass)
    assert shown["files"]["stdout"] == b"told\n"


def test_programs_that_end_meanwhile_are_seen_to_have_ended(running: Running) -> None:
    """With their exit status, and a descendant that was left behind is still swept."""
    running.every_python(NEXT + f"open({str(running.hold.path)!r}, 'w').write('go\\n' * 2)")
    escaped = f"setsid sh -c 'echo $$ >\"{running.started.path}\"; exec sleep 1000' & wait_for_nothing=1"
    quests = [running.add(running.held(escaped, "exit 7"), "--max-attempts", "1") for _ in range(2)]
    told = [running.started.next() for _ in range(4)]
    pids = [int(line) for line in told if int(line) > 2]
    assert len(pids) == 2
    running.reexec()
    for quest in quests:
        shown = running.ended(quest)
        assert (shown["run"]["exitCode"], shown["quest"]["attempts"]) == (7, 1)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_signal_in_the_gap_is_the_new_programs(running: Running) -> None:
    """It stops as it would have done at any other moment: what runs is interrupted, and the exit status is 0."""
    quest = running.add(running.held())
    running.started.next()
    running.every_python(NEXT + "os.kill(os.getpid(), signal.SIGTERM)")
    client = running.type("reexec")
    assert running.wait() == 0
    client.close()
    running.every_python("")
    running.start()
    assert running.started.next() == "2"
    running.hold.put()
    shown = running.ended(quest)
    assert [run["class"] for run in shown["runs"]] == ["interrupted", "ok"]


def test_a_client_that_knows_nothing_of_it(running: Running) -> None:
    """The PyPI package is answered; a stream of another one ends with its connection, and both may come back."""
    client = varlink.Client.new_with_address(f"unix:{running.socket}")
    quest = running.add(running.held())
    running.started.next()
    with client.open("io.questline.Quests") as other, client.open("io.questline.Manager") as manager:
        states = other.Wait(id=quest, _more=True)
        assert next(states)["quest"]["state"] == "running"
        told = manager.Reexec()
        assert (told["running"], told["version"]) == (1, __version__)
        with pytest.raises((varlink.VarlinkError, ConnectionError, json.JSONDecodeError)):
            next(states)
    with client.open("io.questline.Manager") as manager:
        assert manager.Status()["startedAt"] > told["startedAt"]
    running.hold.put()
    running.ended(quest)


@pytest.mark.parametrize("how", ["Ctrl-C", "closed", "nohup"])
def test_a_daemon_in_a_terminal_still_ends_with_it(tmp_path: Path, how: str) -> None:
    """But where it was told to outlive it: there it is a reload, as before."""
    running = Running(tmp_path)
    outside, inside = os.openpty()
    command = ["setsid", "--ctty", *(["nohup"] if how == "nohup" else []), sys.executable, "-m", "questlined"]
    null, pipe, environ = subprocess.DEVNULL, subprocess.PIPE, running.environ()
    with subprocess.Popen(command, env=environ, cwd=REPOSITORY, stdin=inside, stdout=null, stderr=pipe) as process:
        os.close(inside)
        running.process = process
        until_said(process, b"listens on")
        for _ in range(2):
            running.json("reexec")
            until_said(process, b"listens on")
        if how == "Ctrl-C":
            os.write(outside, b"\x03")
        else:
            os.close(outside)
        if how == "nohup":
            until_said(process, b"the configuration was reloaded")
            process.terminate()
        assert process.wait(PATIENCE_S) == 0
        if how == "Ctrl-C":
            os.close(outside)
    running.close()


def until_said(process: subprocess.Popen[bytes], words: bytes) -> None:
    """Until they are in a line of its stderr."""
    assert process.stderr is not None
    while words not in (line := process.stderr.readline()):
        assert line, process.wait(PATIENCE_S)


def test_a_detached_daemon_keeps_its_log_and_its_pid_file(tmp_path: Path) -> None:
    """Away from where it was started, and whatever names it was given from there."""
    running = Running(tmp_path)
    (tmp_path / "state").mkdir()
    command = [sys.executable, "-m", "questlined", "--detach", "--state", "state", "--config", running.config.name]
    environ = {name: value for name, value in running.environ().items() if not name.startswith("QUESTLINED_STATE")}
    pid_file = running.state / "questlined.pid"
    try:
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        pid = int(pid_file.read_text())
        quest = running.add(running.held())
        running.started.next()
        for _ in range(2):
            assert running.json("reexec")["pid"] == pid == int(pid_file.read_text())
        again = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (again.returncode, f"pid {pid}" in again.stderr) == (75, True), again
        running.hold.put()
        assert running.ended(quest)["quest"]["attempts"] == 1
        descriptor = os.pidfd_open(pid)
        os.kill(pid, signal.SIGTERM)
        assert select.select([descriptor], [], [], PATIENCE_S)[0]
        os.close(descriptor)
        assert pid_file.read_text() == ""
        log = (running.state / "questlined.log").read_text()
        assert log.count("listens on") == 3
        assert all(line[:2] == "20" for line in log.splitlines())
    finally:
        if pid_file.exists() and (left := pid_file.read_text()):
            os.kill(int(left), signal.SIGKILL)
        running.close()
