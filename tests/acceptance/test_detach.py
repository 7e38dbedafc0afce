"""questlined --detach: a daemon without systemd and without a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from questlined import detach
from tests.support.daemon import REPOSITORY, SHELL, UP_S, Daemon


class Detached(Daemon):
    """A daemon that is started with --detach, and held by what its pid file says."""

    def begin(self, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Start it; what the command had said when it was over."""
        return subprocess.run(
            [sys.executable, "-m", "questlined", "--detach", *options],
            env=self.environ(**{"PYTHONPATH": str(REPOSITORY)} | env),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=UP_S,
            umask=0o027,
        )

    @property
    def pid(self) -> int:
        """What the pid file says, 0 for nothing."""
        file = self.state / "questlined.pid"
        return int(file.read_text() or "0") if file.exists() else 0

    @property
    def said(self) -> str:
        """Its log."""
        return (self.state / "questlined.log").read_text()

    def end(self, number: int = signal.SIGTERM, *, pid: int | None = None) -> None:
        """Send it a signal, and return when it has ended."""
        descriptor = os.pidfd_open(pid or self.pid)
        try:
            signal.pidfd_send_signal(descriptor, number)
            ended, _, _ = select.select([descriptor], [], [], UP_S)
            assert ended, "it does not end"
        finally:
            os.close(descriptor)


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[Detached]:
    """Settings of a daemon that the test starts; it is ended where it still runs."""
    made = Detached(tmp_path, SHELL)
    yield made
    told = made.qlctl("version", "--json", check=False)
    if told.returncode == 0:
        made.end(pid=json.loads(told.stdout)["daemon"]["pid"])  # whatever has become of the pid file


def test_the_command_returns_when_the_daemon_serves(detached: Detached) -> None:
    """It names pid and log; the daemon is in a session of its own, without terminal and without our streams."""
    done = detached.begin()
    log = detached.state / "questlined.log"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"questlined runs, pid {detached.pid}; its log is {log}\n"
    assert detached.json("version")["daemon"]["pid"] == detached.pid
    assert os.getsid(detached.pid) not in (os.getsid(0), detached.pid)
    descriptors = Path(f"/proc/{detached.pid}/fd")
    assert [os.readlink(descriptors / number) for number in "012"] == ["/dev/null", str(log), str(log)]
    assert oct(log.stat().st_mode & 0o777) == "0o600"


def test_sigterm_to_the_pid_in_the_file_ends_it(detached: Detached) -> None:
    """The file is empty then, and the log has the whole story with its times."""
    detached.begin()
    detached.end()
    assert detached.pid == 0
    assert "listens on" in detached.said
    assert "stopping" in detached.said
    assert all(line[:2] == "20" for line in detached.said.splitlines())
    assert detached.begin().returncode == 0


def test_children_have_what_the_caller_had(detached: Detached) -> None:
    """python-daemon's umask of 0 reaches nobody, nor do its core limit and ignored signals, nor descriptors of ours."""
    detached.config.write_text(SHELL + 'executor.output = "file"\n')
    detached.begin()
    task = "umask; ulimit -Hc; grep SigIgn /proc/self/status; ls /proc/self/fd"
    quest = detached.add(task)
    detached.qlctl("wait", quest)
    result = detached.json("show", quest)["quest"]["result"]
    umask, cores, ignored, *descriptors = result.splitlines()
    assert umask == "0022"
    assert cores == subprocess.run(["sh", "-c", "ulimit -Hc"], capture_output=True, text=True).stdout.strip()
    assert int(ignored.split()[1], 16) == 0
    assert descriptors == ["0", "1", "2", "3"]  # 3 is what ls reads
    assert "Umask:\t0027\n" in Path(f"/proc/{detached.pid}/status").read_text()


def test_a_second_start_names_the_first(detached: Detached) -> None:
    """And changes nothing of it."""
    detached.begin()
    first, said = detached.pid, detached.said
    refused = detached.begin()
    assert (refused.returncode, refused.stdout) == (75, "")
    assert f"runs already, pid {first}" in refused.stderr
    assert (detached.pid, detached.said) == (first, said)


def test_a_pid_that_a_kill_left_behind_keeps_nobody_from_starting(detached: Detached) -> None:
    """The lock decides, not whether a process has that number."""
    detached.begin()
    detached.end(signal.SIGKILL)
    (detached.state / "questlined.pid").write_text(f"{os.getpid()}\n")
    assert detached.begin().returncode == 0
    assert detached.pid != os.getpid()


def test_the_lock_outlives_an_exec(detached: Detached) -> None:
    """A daemon that replaces its program by a newer one has no moment without it."""
    held = detach.PidFile(detached.state / "questlined.pid")
    held.acquire()
    with held, subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as replaced:
        held.close()
        assert detached.begin().returncode == 75
        replaced.communicate()
    assert detached.begin().returncode == 0


def test_a_start_that_fails_tells_it_here(detached: Detached) -> None:
    """Before and after it has left the terminal: message, remedy and exit status are those of the foreground."""
    detached.config.write_text("executor.command = []\n")
    refused = detached.begin()
    assert (refused.returncode, refused.stdout) == (78, "")
    assert "executor.command: it is empty" in refused.stderr
    detached.config.write_text(SHELL)
    (detached.state).mkdir(exist_ok=True)
    (detached.state / "quests.sqlite").write_text("no database at all")
    late = detached.begin()
    front = subprocess.run(
        [sys.executable, "-m", "questlined"], env=detached.environ(), cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (late.returncode, late.stderr) == (front.returncode, front.stderr)
    assert "no SQLite database" in late.stderr
    assert "no SQLite database" in detached.said
    assert detached.pid == 0


def test_a_daemon_that_dies_before_it_is_ready_is_told(detached: Detached) -> None:
    """Without a word of its own: its log is named."""
    (detached.folder / "sitecustomize.py").write_text(
        "import os, questlined.app\nquestlined.app.serve = lambda *args, **more: os._exit(3)\n"
    )
    done = detached.begin(PYTHONPATH=f"{detached.folder}:{REPOSITORY}")
    assert done.returncode == 75
    assert "ended before it was ready" in done.stderr
    assert str(detached.state / "questlined.log") in done.stderr


def test_paths_that_are_relative_are_those_of_the_caller(detached: Detached) -> None:
    """The daemon works elsewhere."""
    relative = {"QUESTLINED_CONFIG": "questlined.toml", "QUESTLINED_SOCKET": "s.sock", "QUESTLINED_STATE": "state"}
    assert detached.begin(**relative).returncode == 0
    assert detached.json("version")["daemon"]["stateDirectory"] == str(detached.state)
    assert Path(f"/proc/{detached.pid}/cwd").readlink() == detached.state


@pytest.mark.parametrize("name", ["NOTIFY_SOCKET", "LISTEN_FDS"])
def test_a_service_manager_wants_it_in_the_foreground(detached: Detached, name: str) -> None:
    """It would take the end of the command for that of the daemon."""
    refused = detached.begin(**{name: "1"})
    assert refused.returncode == 2
    assert name in refused.stderr
    assert "leave --detach out" in refused.stderr


def test_standard_streams_that_are_closed_are_no_hindrance(detached: Detached) -> None:
    """As by a shell's <&- >&-: no file of the daemon takes their numbers."""
    command = f'exec "{sys.executable}" -m questlined --detach <&- >&- 2>&-'
    environ = detached.environ(PYTHONPATH=str(REPOSITORY))
    assert subprocess.run(["sh", "-c", command], env=environ, cwd=detached.folder, timeout=UP_S).returncode == 0
    assert detached.json("health")["ok"] is True


def test_a_log_that_is_full_begins_anew_and_one_is_kept(tmp_path: Path) -> None:
    """Records go on in the new file, and so does what writes to stderr itself."""
    path = tmp_path / "questlined.log"
    code = (
        "import logging, os, sys\n"
        "from pathlib import Path\n"
        "from questlined import detach\n"
        "detach.LOG_BYTES = 200\n"
        f"log = detach.LogFile(Path({str(path)!r}))\n"
        "log.open()\n"
        "for number in (1, 2): os.dup2(log.fileno(), number)\n"
        "logging.basicConfig(handlers=[log.handler()], level=logging.INFO)\n"
        "for number in range(20): logging.info('record %d', number)\n"
        "os.write(2, b'past the log\\n')\n"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(REPOSITORY)}, check=True)
    kept, now = (tmp_path / "questlined.log.1").read_text(), path.read_text()
    assert now.endswith("past the log\n")
    assert len(kept) < 300
    assert len(now) < 300
    assert sorted(file.name for file in tmp_path.iterdir()) == ["questlined.log", "questlined.log.1"]
    numbers = [int(line.split()[-1]) for line in (kept + now).splitlines() if "record" in line]
    assert numbers == list(range(numbers[0], 20))


def test_a_program_that_was_replaced_keeps_pid_file_lock_and_log(detached: Detached) -> None:
    """`qlctl reexec` leaves the pid as it is; a second start is refused as before, and SIGTERM empties the file."""
    detached.begin()
    first = detached.pid
    detached.qlctl("reexec")
    assert detached.json("version")["daemon"]["pid"] == first == detached.pid
    assert f"runs already, pid {first}" in detached.begin().stderr
    assert detached.said.count("listens on") == 2
    detached.end()
    assert detached.pid == 0
    assert "stopping" in detached.said
