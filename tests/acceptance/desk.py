"""A project of its own on a daemon that several tests share, and quests that run until a test lets them go."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.server.peer import QUESTS, Peer
from tests.support.daemon import REPOSITORY, UP_S, Daemon
from tests.support.typed import Typed

OPEN_STATES = ["queued", "running", "interrupted", "blocked"]


class Hold:
    """A shell task that says when it runs and then waits to be let go; several quests may share one."""

    def __init__(self, folder: Path, name: str = "hold") -> None:
        self._up, self._go = folder / f".{name}.up", folder / f".{name}.go"
        for path in (self._up, self._go):
            os.mkfifo(path)
        # open at both ends, so that neither side ever waits for the other to open it
        self._reading = os.open(self._up, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def task(self) -> str:
        """Runs until `release`."""
        return f"echo up >'{self._up}'; cat '{self._go}'"

    def running(self, quests: int = 1) -> None:
        """Return when so many quests have said that they run."""
        for _ in range(quests):
            ready, _, _ = select.select([self._reading], [], [], UP_S)
            assert ready, "no quest has started"
            assert os.read(self._reading, 3) == b"up\n"

    def started(self) -> bool:
        """Whether one has said so since the last `running`."""
        return bool(select.select([self._reading], [], [], 0)[0])

    def release(self, text: str = "") -> None:
        """Let the quest that waits go on; `text` is its output."""
        with self._go.open("w") as file:
            file.write(text)

    def close(self) -> None:
        """Hang up."""
        os.close(self._reading)


class Desk:
    """qlctl in a new project of `daemon`; `close` cancels what is left of it."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._holds: list[Hold] = []
        self._typed: list[Typed] = []

    @property
    def key(self) -> str:
        """The project's key."""
        return str(self.folder.resolve())

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """qlctl, whatever its exit status."""
        return self.daemon.qlctl(*arguments, check=False, cwd=self.folder, **options)

    def start(self, *arguments: str, **options: Any) -> Typed:
        """qlctl, while the test goes on."""
        command = [sys.executable, "-m", "qlctl", *arguments]
        environ = self.daemon.environ(PYTHONPATH=str(REPOSITORY))
        self._typed.append(Typed(command, environ, self.folder, **options))
        return self._typed[-1]

    def ok(self, *arguments: str, **options: Any) -> str:
        """qlctl, which must succeed; its stdout."""
        return self.daemon.qlctl(*arguments, cwd=self.folder, **options).stdout

    def json(self, *arguments: str, **options: Any) -> Any:
        """qlctl --json, which must succeed; its value."""
        return json.loads(self.ok(*arguments, "--json", **options))

    def add(self, task: str, *options: str) -> str:
        """Add a quest; its id."""
        return self.ok("add", "--print-id", *options, "--", task).strip()

    def ended(self, quest: str) -> dict[str, Any]:
        """The quest when it is final or blocked."""
        with self.peer() as peer:
            return peer.ended(quest)

    def quest(self, quest: str) -> dict[str, Any]:
        """The quest now."""
        with self.peer() as peer:
            return peer.quest(quest)

    def peer(self) -> Peer:
        """A connection of its own, for what is not the matter of a test: a qlctl costs ten times as much."""
        return Peer(self.daemon.socket, self.key)

    def hold(self, name: str = "hold") -> Hold:
        """A new hold in the project's directory."""
        self._holds.append(Hold(self.folder, name))
        return self._holds[-1]

    def count(self) -> int:
        """How many quests the project has, of any state."""
        with self.peer() as peer:
            return peer.total()

    def refused(self, *arguments: str, status: int = 2, says: tuple[str, ...] = (), **options: Any) -> str:
        """qlctl --json: its exit status, a clean stdout, all the words on stderr, nothing added."""
        before = self.count()
        done = self.run("--json", *arguments, **options)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert done.stderr.startswith("qlctl: "), done.stderr
        assert "Traceback" not in done.stderr
        missing = [words for words in says if words not in done.stderr]
        assert not missing, (missing, done.stderr)
        assert self.count() == before
        return done.stderr

    def close(self) -> None:
        """Cancel what is not over, and wait for its end."""
        for typed in self._typed:
            typed.close()
        with self.peer() as peer:
            for quest in peer.call(QUESTS + "List", directory=self.key, states=OPEN_STATES, limit=100)["quests"]:
                peer.raw(QUESTS + "Cancel", {"id": quest["id"]})  # it may have ended by now
                if not quest["external"]:
                    peer.ended(quest["id"])
        for hold in self._holds:
            hold.close()
