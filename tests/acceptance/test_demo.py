"""qlctl demo, as a person runs it: on a terminal, into a pipe, and cut short."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.daemon import REPOSITORY

PATIENCE_S = 60.0
REDRAWN = b"\033[5A"  # up over the table's five lines


@dataclass
class Demo:
    """A directory to run it in, programs that come first on the PATH, and a TMPDIR that must be empty in the end."""

    here: Path
    programs: Path
    temporary: Path

    def program(self, name: str, script: str) -> None:
        """Put a shell script first on the PATH."""
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def start(self, *arguments: str, stdout: int = subprocess.PIPE, **env: str) -> subprocess.Popen[bytes]:
        """`qlctl demo`, where nothing is set that a bare login has not."""
        base = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        path = f"{self.programs}:{os.environ['PATH']}"
        base |= {"PATH": path, "TMPDIR": str(self.temporary), "PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1"}
        command = [sys.executable, "-P", "-m", "qlctl", "demo", *arguments]
        return subprocess.Popen(
            command, env=base | env, cwd=self.here, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
        )

    def run(self, *arguments: str, **env: str) -> tuple[int, str, str]:
        """Its exit status and what it printed."""
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out.decode(), err.decode()

    def hold(self) -> None:
        """Make every quest of the shell demo run until it is ended."""
        os.mkfifo(self.programs / "fifo")
        self.program("sleep", f"read line < '{self.programs}/fifo'")

    def remains(self) -> list[str]:
        """Files and processes that a demo left."""
        files = [str(path) for path in self.temporary.rglob("*")]
        return files + [f"process {process}" for process in self._processes()]

    def _processes(self) -> Iterator[int]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.fsencode(self.temporary) in (process / "environ").read_bytes():
                    yield int(process.name)
            except OSError:  # it has just ended
                continue


@contextmanager
def _demo(folder: Path) -> Iterator[Demo]:
    """In `folder`, but for the temporary directory: there a socket's path must fit."""
    with tempfile.TemporaryDirectory(prefix="td-") as temporary:
        made = Demo(folder / "here", folder / "programs", Path(temporary))
        for path in (made.here, made.programs):
            path.mkdir()
        made.program("sleep", "exit 0")
        yield made


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with _demo(tmp_path) as made:
        yield made


def _until(fd: int, wanted: bytes) -> bytes:
    """What can be read until `wanted` is in it. Fails at the end of it all."""
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([fd], [], [], PATIENCE_S)
        assert ready, f"no {wanted!r} in {seen!r}"
        data = _read(fd)
        assert data, f"no {wanted!r} in {seen!r}"
        seen += data
    return seen


def _read(fd: int) -> bytes:
    """b"" at the end: of a pipe, or of a terminal that nobody holds open."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


def _rest(fd: int) -> bytes:
    return b"".join(iter(lambda: _read(fd), b""))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Demo, tuple[int, str, str], set[str]]]:
    """One run into pipes, in a directory with odd names."""
    with _demo(tmp_path_factory.mktemp("demo")) as demo:
        (demo.here / "a b.txt").write_bytes(b"x" * 5000)
        (demo.here / "esc\033[31m.txt").write_bytes(b"x" * 100)
        (demo.here / "questlined").mkdir()
        (demo.here / "questlined/__main__.py").write_text("raise SystemExit('the wrong one')")
        before = {str(path) for path in demo.here.rglob("*")}
        yield demo, demo.run("--json"), before


def test_quests_end_as_they_should(finished) -> None:
    """Five are done, one of them at its second attempt, and the exit status says so."""
    _, (status, out, _), _ = finished
    quests = json.loads(out)["quests"]
    assert status == 0
    assert {quest["name"]: (quest["state"], quest["attempts"]) for quest in quests} == {
        "flaky": ("done", 2),
        "files": ("done", 1),
        "largest": ("done", 1),
        "history": ("done", 1),
        "summary": ("done", 1),
    }


def test_the_quests_looked_at_this_directory(finished) -> None:
    """The files counted and the largest one are those that are here, and the summary has what the others found."""
    demo, (_, out, _), _ = finished
    results = {quest["name"]: quest["result"] for quest in json.loads(out)["quests"]}
    assert results["files"] == "3 files in three levels\n"
    assert results["largest"].startswith("5000\ta b.txt\n")
    assert results["summary"].startswith(f"{demo.here}\n")
    assert "5000\ta b.txt" in results["summary"]
    assert "at the second attempt" in results["summary"]


def test_progress_is_a_line_for_each_change(finished) -> None:
    """The retry, what a quest waits for and the final table can be read in a log, without any cursor movement."""
    _, (_, _, err), _ = finished
    assert "\033" not in err
    assert re.search(r"flaky +queued +1/3 +exit code 1; next attempt in \d\.\d s\n", err)
    assert re.search(r"summary +queued +after flaky, largest, history\n", err)
    table = err.split("\n\n")[2].splitlines()
    assert [line.split()[1:3] for line in table] == [
        ["flaky", "done"],
        ["files", "done"],
        ["largest", "done"],
        ["history", "done"],
        ["summary", "done"],
    ]
    assert "5 of 5 ended as they should" in err


def test_one_result_is_shown_in_full_and_cannot_steer_the_terminal(finished) -> None:
    demo, (_, _, err), _ = finished
    assert f"    {demo.here}\n\n    files:\n      3 files in three levels\n" in err
    assert "      100\tesc\\x1b[31m.txt\n" in err


def test_it_leaves_nothing_and_changes_nothing(finished) -> None:
    """No file in the directory or the temporary one, no process."""
    demo, _, before = finished
    assert demo.remains() == []
    assert {str(path) for path in demo.here.rglob("*")} == before


def test_on_a_terminal_the_table_is_redrawn_and_ctrl_c_ends_it(demo: Demo) -> None:
    """Running quests and the daemon end with it; wrapping and the cursor are as they were."""
    demo.hold()
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (30, 100))
    # setsid -c: the terminal is its controlling one, so that ^C is a signal
    process = subprocess.Popen(
        ["setsid", "-c", sys.executable, "-P", "-m", "qlctl", "demo"],
        env={"PATH": f"{demo.programs}:{os.environ['PATH']}", "TMPDIR": str(demo.temporary), "TERM": "xterm"}
        | {"PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1"},
        cwd=demo.here,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        seen = _until(ours, b"running")
        seen += _until(ours, REDRAWN)
        folder = next(demo.temporary.iterdir())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        os.write(ours, b"\x03")
        seen += _rest(ours)
        assert process.wait(PATIENCE_S) == 130
    finally:
        os.close(ours)  # the terminal hangs up on a demo that is still there
        process.wait(PATIENCE_S)
    assert b"\033[36mrunning\033[0m" in seen
    assert b"Stopped" in seen
    assert seen.rindex(b"\033[?7h") > seen.rindex(b"\033[?7l")
    assert seen.rindex(b"\033[?25h") > seen.rindex(b"\033[?25l")
    assert demo.remains() == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_in_order(demo: Demo, number: signal.Signals, status: int) -> None:
    demo.hold()
    with demo.start() as process:
        assert process.stdout is not None
        _until(process.stdout.fileno(), b"running")
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status
    assert demo.remains() == []


def test_a_reader_that_has_gone_ends_it(demo: Demo) -> None:
    """`qlctl demo | head -1` is no error message, and leaves nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    with demo.start(stdout=writer) as process:
        os.close(writer)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (141, b"")
    assert demo.remains() == []


def test_an_agent_gets_each_task_as_one_argument(demo: Demo) -> None:
    """`--agent claude` runs `claude -p TASK`; a temporary directory too deep for a socket's path does not matter."""
    demo.program("claude", 'echo "$# $1: $2"')
    deep = demo.temporary / ("d" * 120)
    deep.mkdir()
    status, out, err = demo.run("--agent", "claude", "--json", TMPDIR=str(deep))
    results = [quest["result"] for quest in json.loads(out)["quests"]]
    assert (status, len(results)) == (0, 3), err
    assert all(result.startswith("2 -p: ") and result.endswith("change nothing.\n") for result in results)
    deep.rmdir()
    assert demo.remains() == []


def test_an_agent_that_fails_is_status_1_and_its_error_is_shown(demo: Demo) -> None:
    demo.program("claude", "case $2 in *directory?*Three*) exit 3; esac")
    status, out, _ = demo.run("--agent", "claude", PATH=f"{demo.programs}:/usr/bin:/bin")
    assert status == 1
    assert re.search(r"overview +failed +2/2 .*exit code 3\n", out)
    assert "1 of 3 ended as they should" in out
    assert re.search(r"The error of advice, in full:\n\n    dependency q-\w+ failed\n", out)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--agent", "claude"), "the program claude is not on the PATH"),
        (("--agent", "codex"), "--agent: 'codex' is unknown"),
        (("--socket", "/x"), "demo: it takes no --socket"),
    ],
)
def test_what_it_cannot_do_is_said_at_once(demo: Demo, arguments: tuple[str, ...], told: str) -> None:
    status, out, err = demo.run(*arguments, PATH="/usr/bin:/bin")
    assert (status, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_a_demo_that_is_killed_takes_its_daemon_along(demo: Demo) -> None:
    """No process is left; its files are, as nobody is there to remove them."""
    demo.hold()
    with demo.start() as process:
        assert process.stdout is not None
        _until(process.stdout.fileno(), b"running")
        lock = json.loads(next(demo.temporary.glob("*/state/lock")).read_text())
        daemon = os.pidfd_open(lock["pid"])
        process.kill()
    ended, _, _ = select.select([daemon], [], [], PATIENCE_S)
    os.close(daemon)
    assert ended
    assert [each for each in demo.remains() if each.startswith("process")] == []


def test_a_daemon_that_dies_is_an_error(demo: Demo) -> None:
    """It is said which, and the exit status is that of a daemon that is not there."""
    demo.hold()
    with demo.start() as process:
        assert process.stdout is not None
        _until(process.stdout.fileno(), b"running")
        lock = json.loads(next(demo.temporary.glob("*/state/lock")).read_text())
        os.kill(lock["pid"], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE_S)
    # its quests are nobody's children now, and end by what they wait for
    fifo = os.open(demo.programs / "fifo", os.O_RDWR)  # which waits for no reader: they may have ended already
    os.write(fifo, b"\n\n\n")
    os.close(fifo)
    assert process.returncode == 69
    assert err.startswith(b"questlined: the demo's daemon went away\n")
    assert list(demo.temporary.iterdir()) == []
