"""A command that runs while a test looks on: what it writes is read as it comes, and signals are sent meanwhile."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0  # a guard against a test that would hang, nothing is measured by it


class Typed:
    """The command, with stdout and stderr in pipes, or both on a terminal where `terminal` is its descriptor."""

    def __init__(self, argv: list[str], environ: dict[str, str], cwd: Path | None = None, **options: Any) -> None:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(argv, env=environ, cwd=cwd, **(pipes | options))
        self.read = {"stdout": b"", "stderr": b""}

    def says(self, text: str, stream: str = "stdout") -> None:
        """Return when the stream has this in it."""
        while text.encode() not in self.read[stream]:
            assert self._more(), f"{text!r} is not in {self.read}"

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Wait for its end: exit status, all of stdout, all of stderr."""
        while self._more():
            pass
        status = self.process.wait(PATIENCE_S)
        return status, self.read["stdout"].decode(), self.read["stderr"].decode()

    def close(self) -> None:
        """Kill what still runs."""
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdout, self.process.stderr):
            if file is not None:
                file.close()

    def _more(self) -> bool:
        """Read what comes next, of either; False at the end of both."""
        open_ = {file: name for name in self.read if (file := getattr(self.process, name)) and not file.closed}
        if not open_:
            return False
        ready, _, _ = select.select(list(open_), [], [], PATIENCE_S)
        assert ready, f"nothing comes any more after {self.read}"
        for file in ready:
            data = os.read(file.fileno(), 1 << 16)
            self.read[open_[file]] += data
            if not data:
                file.close()
        return True
