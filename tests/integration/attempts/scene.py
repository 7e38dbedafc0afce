"""A daemon whose roles are executors of many kinds, and short ways to run quests by them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon import SHELL, Daemon
from tests.support.evidence import PATIENCE_S, Evidence, Fifo, alive
from tests.support.invariants import broken


class Scene(Daemon):
    """A running daemon, evidence, and two named pipes: `started` is written by tasks, `hold` lets them go on."""

    def __init__(self, folder: Path, config: str = "") -> None:
        super().__init__(folder, SHELL + config)
        self.evidence = Evidence(folder / "evidence")
        self.started, self.hold = Fifo(folder / "started"), Fifo(folder / "hold")
        self.database = self.state / "quests.sqlite"

    def held(self, before: str = "true", after: str = "true") -> str:
        """A task that tells its run number when `before` is over, and goes on when a line is in `hold`."""
        told = f'{before}; echo "$QUESTLINE_RUN" >"{self.started.path}"'
        return self.evidence.task(f'{told}; read line <"{self.hold.path}"; {after}')

    def ended(self, quest: str) -> dict[str, Any]:
        """What `show` says of a quest when it has ended; `run` is its last attempt, `files` what that one wrote."""
        waited = self.call("Quests.Wait", id=quest, timeoutMs=PATIENCE_S * 1000)
        assert not waited["timedOut"], waited
        shown = self.call("Quests.Get", id=quest)
        shown["run"] = shown["runs"][-1] if shown["runs"] else None
        last = [file for file in shown["artifacts"] if file["attempt"] == shown["quest"]["attempts"]]
        shown["files"] = {file["kind"]: Path(file["path"]).read_bytes() for file in last}
        assert all(file["bytes"] == len(shown["files"][file["kind"]]) for file in last)
        return shown

    def run(self, task: str, *options: str, role: str = "default") -> dict[str, Any]:
        """Add a quest and see it through."""
        return self.ended(self.add_as(role, task, *options))

    def add_as(self, role: str, task: str, *options: str, **more: Any) -> str:
        """Add a quest of a role; its id. Its task may be larger than an argument can be."""
        return self.qlctl("add", "--print-id", *options, "--", role, "-", stdin=task, **more).stdout.strip()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call on the socket, without the cost of a process."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.socket)
            call = {"method": f"io.questline.{method}", "parameters": parameters}
            line.sendall(json.dumps(call).encode() + b"\0")
            data = b""
            while not data.endswith(b"\0"):
                block = line.recv(1 << 20)
                assert block, f"the daemon hung up: {self.log.read_text()}"
                data += block
        reply = json.loads(data[:-1])
        assert "error" not in reply, reply
        answer: dict[str, Any] = reply["parameters"]
        return answer

    def until(self, quest: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask for a quest until something holds of it: for what is no end, and so not to be waited for."""
        give_up = time.monotonic() + PATIENCE_S
        while not holds(shown := self.call("Quests.Get", id=quest)):
            assert time.monotonic() < give_up, shown
        return shown

    def counts(self) -> dict[str, int]:
        """Quests by state."""
        found: dict[str, int] = self.call("Manager.Health", allProjects=True)["counts"]
        return found

    def in_order(self, **limits: Any) -> None:
        """Nothing runs any more, nothing is left of what did, and no line that would let another task go on."""
        assert self.hold.empty
        assert alive(self.database) == []
        assert self.evidence.overlaps() == []
        assert broken(self.database, **limits) == []


@contextmanager
def scene(folder: Path, config: str = "", **env: str) -> Iterator[Scene]:
    """A started one."""
    played = Scene(folder, config)
    try:
        played.start(**env)
        yield played
    finally:
        played.stop()
        played.started.close()
        played.hold.close()
