"""Varlink calls over the daemon's socket, in as few lines as it takes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from questlined.demo.signals import Signals
from questlined.wire.errors import from_wire
from questlined.wire.frames import NUL, Framer

REPLY_MAX = 64 * 1024 * 1024
Reply = dict[str, Any]


class HungUp(Exception):
    """The daemon closed the connection."""


class Connection:
    """One connection: calls on it are answered in order."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._framer = Framer(REPLY_MAX)
        try:
            self.socket.connect(path)
        except OSError:
            self.close()
            raise HungUp from None

    def send(self, method: str, parameters: dict[str, object], *, more: bool = False) -> None:
        """Send a call. Raises HungUp."""
        call: dict[str, object] = {"method": f"io.questline.{method}", "parameters": parameters}
        try:
            self.socket.sendall(json.dumps(call | ({"more": True} if more else {})).encode() + NUL)
        except OSError:
            raise HungUp from None

    def receive(self) -> list[Reply]:
        """The replies that one read completes. Raises HungUp, and the QuestlineError of an error reply."""
        try:
            data = self.socket.recv(256 * 1024)
        except OSError:
            raise HungUp from None
        if not data:
            raise HungUp
        replies = [json.loads(frame) for frame in self._framer.feed(data)]
        for reply in replies:
            if "error" in reply:
                raise from_wire(reply["error"], reply.get("parameters") or {})
        return [reply["parameters"] for reply in replies]

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def call(path: str, signals: Signals, method: str, parameters: dict[str, object]) -> Reply:
    """One call on a connection of its own, and its answer. Raises as receive and until_readable do."""
    connection = Connection(path)
    try:
        connection.send(method, parameters)
        while True:
            signals.until_readable([connection.socket.fileno()])
            for reply in connection.receive():
                return reply
    finally:
        connection.close()


def watch(path: str, signals: Signals, ids: list[str], tick_s: float | None) -> Iterator[Reply | None]:
    """Every state change of these quests until all have ended or are blocked; None whenever `tick_s` has passed.

    A Wait for each, with `more`: the daemon sends, nobody asks again.
    """
    connections: dict[int, Connection] = {}
    try:
        for name in ids:
            connection = Connection(path)
            connections[connection.socket.fileno()] = connection
            connection.send("Quests.Wait", {"id": name}, more=True)
        while connections:
            ready = signals.until_readable(list(connections), tick_s)
            if not ready:
                yield None
            for fd in ready:
                for reply in connections[fd].receive():
                    yield reply["quest"]
                    if reply["quest"]["state"] in ("done", "failed", "cancelled", "blocked"):
                        connections.pop(fd).close()
    finally:
        for connection in connections.values():
            connection.close()
