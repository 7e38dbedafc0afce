"""A daemon whose program is replaced while clients come and go, and what the next program finds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.integration.attempts.scene import Scene
from tests.support.daemon import REPOSITORY
from tests.support.typed import Typed

ATTEMPTS = 20
CONFIG = f"""
scheduler.max_concurrent = {2 * ATTEMPTS}
executors.slow.command = ["sh", "-c", "{{task}}"]
executors.slow.terminate_grace = "60s"
executors.file.command = ["sh", "-c", "{{task}}"]
executors.file.output = "file"
"""
# Read by every Python that is started with it on its path: the one that is asked whether it could go on, and the next.
ASKED = "import os, signal, sys\nif '--check-handover' in sys.orig_argv:\n    "
NEXT = "import os, signal, sys\nif 'QUESTLINED_HANDOVER' in os.environ:\n    "


class Running(Scene):
    """A daemon with clients that come and go while its program is replaced."""

    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        super().__init__(folder, config)
        self.site = folder / "site"
        self.site.mkdir()
        self.typed: list[Typed] = []

    def environ(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join([str(self.site), str(REPOSITORY)])
        return super().environ(**({"PYTHONPATH": path} | more))

    def every_python(self, code: str) -> None:
        """Have this run before anything else in every Python that the daemon starts from now on, or becomes."""
        (self.site / "sitecustomize.py").write_text(code)

    def type(self, *arguments: str) -> Typed:
        """qlctl, while other things happen."""
        command = [sys.executable, "-m", "qlctl", *arguments]
        self.typed.append(Typed(command, self.environ(), self.project))
        return self.typed[-1]

    def reexec(self) -> None:
        """Replace the program; the process stays the same one."""
        before = self.call("Manager.Status")
        told = self.json("reexec")
        now = self.call("Manager.Status")
        assert told["pid"] == now["pid"] == before["pid"] == self.pid
        assert now["startedAt"] > before["startedAt"]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def close(self) -> None:
        for typed in self.typed:
            typed.close()
        self.stop()
        self.started.close()
        self.hold.close()
