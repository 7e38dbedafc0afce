"""A real questlined as a child process, and qlctl beside it. It is up when it says READY=1, never after a pause."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

SHELL = 'executor.command = ["sh", "-c", "{task}"]\nbackoff_base = "100ms"\nexecutor.terminate_grace = "300ms"\n'
UP_S = 20.0
REPOSITORY = Path(__file__).resolve().parents[2]


class Daemon:
    """A daemon on `folder`/state. `config` is the text of its questlined.toml."""

    def __init__(self, folder: Path, config: str = SHELL) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.socket = str(folder / "s.sock")
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self.config = folder / "questlined.toml"
        self.config.write_text(config)
        self.log = folder / "daemon.log"
        self.interpreter, self.checkout = sys.executable, REPOSITORY
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Daemon:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The running daemon's pid."""
        assert self.process is not None
        return self.process.pid

    def environ(self, **more: str) -> dict[str, str]:
        """For the daemon and its clients: nothing of the caller's questline."""
        base = {
            k: v for k, v in os.environ.items() if not k.startswith(("QUESTLINE", "NOTIFY_", "LISTEN_", "WATCHDOG_"))
        }
        places = {"QUESTLINED_SOCKET": self.socket, "QUESTLINED_STATE": str(self.state)}
        return base | places | {"QUESTLINED_CONFIG": str(self.config)} | more

    def start(self, *, crash_at: str | None = None, ready: bool = True, **env: str) -> None:
        """Start it and return when it is READY; with `ready` False at once. Fails when it ends instead."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            address = self.folder / "notify.sock"
            address.unlink(missing_ok=True)
            notified.bind(str(address))
            more = {"NOTIFY_SOCKET": str(address)} | ({"QUESTLINED_CRASH_AT": crash_at} if crash_at else {}) | env
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [self.interpreter, "-m", "questlined"],
                    env=self.environ(**more),
                    cwd=self.checkout,
                    stdout=log,
                    stderr=log,
                )
            if ready:
                self._await_ready(notified)

    def _await_ready(self, notified: socket.socket) -> None:
        assert self.process is not None
        ended = os.pidfd_open(self.process.pid)
        try:
            while True:
                seen, _, _ = select.select([notified, ended], [], [], UP_S)
                if notified in seen:
                    if b"READY=1" in notified.recv(65536):
                        return
                else:
                    raise AssertionError(f"the daemon did not come up: {self.log.read_text()}")
        finally:
            os.close(ended)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = UP_S) -> int:
        """Its exit status."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    def stop(self) -> int:
        """SIGTERM, and its exit status; nothing where it has ended."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def qlctl(
        self, *arguments: str, check: bool = True, stdin: str | None = None, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run qlctl in the project's directory."""
        done = subprocess.run(
            [sys.executable, "-m", "qlctl", *arguments],
            env=self.environ(PYTHONPATH=str(REPOSITORY), **env),
            cwd=cwd or self.project,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not check or done.returncode == 0, f"qlctl {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str, **options: Any) -> Any:
        """Run qlctl --json and give what it printed."""
        return json.loads(self.qlctl(*arguments, "--json", **options).stdout)

    def add(self, task: str, *options: str) -> str:
        """Add a quest; its id."""
        return self.qlctl("add", "--print-id", *options, "--", task).stdout.strip()
