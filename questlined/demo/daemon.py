"""A questlined that lives as long as the demo, on a state directory that does, too."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import questlined
from questlined.demo.plan import Plan, configuration
from questlined.demo.signals import Signals
from questlined.procs.libc import end_with_parent
from questlined.wire.errors import DaemonUnreachable

ADDRESS_MAX = 107  # bytes of a socket's path
LONGEST_NAME = "/questline-demo-xxxxxxxx/questlined.sock"
STOP_S = 15.0
NOT_OURS = ("QUESTLINE", "NOTIFY_", "LISTEN_", "WATCHDOG_", "STATE_DIRECTORY", "RUNTIME_DIRECTORY")


class Daemon:
    """While entered, a daemon that serves `plan` on `socket`, below a directory of mode 0700 that goes with it."""

    def __init__(self, plan: Plan, signals: Signals) -> None:
        self._plan = plan
        self._signals = signals

    def __enter__(self) -> Daemon:
        self._temporary = tempfile.TemporaryDirectory(
            prefix="questline-demo-", dir=_short(), ignore_cleanup_errors=True
        )
        self._folder = Path(self._temporary.name)
        self.socket = str(self._folder / "questlined.sock")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _start(self) -> None:
        notes = self._folder / "notes"
        notes.mkdir()
        config = self._folder / "questlined.toml"
        config.write_text(configuration(self._plan, notes))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified, self._log.open("wb") as log:
            address = str(self._folder / "notify")
            notified.bind(address)
            environ = {name: value for name, value in os.environ.items() if not name.startswith(NOT_OURS)}
            environ |= {"QUESTLINED_STATE": str(self._folder / "state"), "QUESTLINED_SOCKET": self.socket}
            environ |= {"QUESTLINED_CONFIG": str(config), "NOTIFY_SOCKET": address}
            # A session of its own: Ctrl-C is for the demo, which then ends the daemon in order. If the demo is killed,
            # the kernel ends it. preexec_fn is safe here as the demo has one thread.
            self._process = subprocess.Popen(
                _command(),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )
            self._await_ready(notified)

    def _await_ready(self, notified: socket.socket) -> None:
        assert self._process is not None
        ended = os.pidfd_open(self._process.pid)
        try:
            while True:
                if notified.fileno() in self._signals.until_readable([notified.fileno(), ended]):
                    if b"READY=1" in notified.recv(65536).split(b"\n"):
                        return
                else:
                    raise self.gone("did not start")
        finally:
            os.close(ended)

    def gone(self, what: str) -> DaemonUnreachable:
        """The error for a daemon that ended by itself, with its last words."""
        words = self._log.read_text(errors="replace").splitlines()[-5:]
        return DaemonUnreachable(f"the demo's daemon {what}", hint="\n  ".join(words))

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _end(self) -> None:
        """SIGTERM: it ends its children in order. A daemon that does not end is killed."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._temporary.cleanup()


def _short() -> str | None:
    """The usual temporary directory, or /tmp where a socket's path would not fit below it."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual + LONGEST_NAME)) <= ADDRESS_MAX else "/tmp"


def _command() -> list[str]:
    """questlined under this interpreter; -P as a folder of that name here is not the program, unless it is."""
    root = Path(questlined.__file__).resolve().parents[1]
    guard = [] if Path.cwd().resolve() == root else ["-P"]
    return [sys.executable, *guard, "-m", "questlined"]
