"""A Varlink client that does no more than it is told: bytes out, frames in."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 30.0  # a guard against a test that would hang, nothing is measured by it
QUESTS, LEASES, MANAGER = "io.questline.Quests.", "io.questline.Leases.", "io.questline.Manager."
Reply = dict[str, Any]


def frame(method: str, parameters: dict[str, Any] | None = None, **more: Any) -> bytes:
    """A call on the wire."""
    return json.dumps({"method": method, "parameters": parameters or {}, **more}).encode() + b"\0"


class Refused(Exception):
    """An error reply."""

    def __init__(self, reply: Reply) -> None:
        self.name, self.parameters = str(reply["error"]), reply.get("parameters") or {}
        super().__init__(f"{self.name} {self.parameters}")


class Peer:
    """One connection, for a project. `directory` goes with every call that `ask` makes of a method that takes one."""

    def __init__(self, path: str, directory: str = "/") -> None:
        self.directory = directory
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self._read = b""

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Bytes as they are. A peer that hung up is no error here: what it said can still be read."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self) -> Reply | None:
        """The next reply, None when the other side has hung up."""
        while b"\0" not in self._read:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                assert not self._read, f"hung up in the middle of {self._read[:80]!r}"
                return None
            self._read += data
        whole, _, self._read = self._read.partition(b"\0")
        reply: Reply = json.loads(whole)
        return reply

    def reply(self) -> Reply:
        """The next reply, which must come."""
        found = self.receive()
        assert found is not None, "hung up"
        return found

    def raw(self, method: str, parameters: dict[str, Any] | None = None, **more: Any) -> Reply:
        """One call, one reply, as it is."""
        self.send(frame(method, parameters, **more))
        return self.reply()

    def call(self, method: str, **parameters: Any) -> Reply:
        """The reply's parameters. Raises Refused."""
        reply = self.raw(method, parameters)
        if "error" in reply:
            raise Refused(reply)
        assert "continues" not in reply
        answer: Reply = reply["parameters"]
        return answer

    def add(self, task: str = "true", **parameters: Any) -> str:
        """Add a quest to the project; its id."""
        return str(self.call(QUESTS + "Add", task=task, directory=self.directory, **parameters)["quest"]["id"])

    def claim(self, **parameters: Any) -> Reply:
        """Claim in the project."""
        return self.call(LEASES + "Claim", directory=self.directory, **parameters)

    def quest(self, quest: str) -> Reply:
        """The quest now."""
        found: Reply = self.call(QUESTS + "Get", id=quest)["quest"]
        return found

    def ended(self, quest: str) -> Reply:
        """The quest when it is final or blocked."""
        waited = self.call(QUESTS + "Wait", id=quest)
        assert not waited["timedOut"]
        found: Reply = waited["quest"]
        return found

    def total(self) -> int:
        """How many quests the project has, of any state."""
        return sum(self.call(MANAGER + "Health", directory=self.directory)["counts"].values())


def until(true: Callable[[], bool]) -> None:
    """Ask again until it is true: for what the daemon does by itself and tells nobody."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it never came to be"
