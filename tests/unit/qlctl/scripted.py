"""A Varlink service in a thread that answers as a test tells it to, on a real socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

QUEST: dict[str, Any] = {
    "id": "q-1a2b3c4d5e6f",
    "project": "/home/me/proj",
    "role": "default",
    "name": "",
    "task": "write the tests",
    "state": "queued",
    "attempts": 0,
    "refunds": 0,
    "maxAttempts": 1,
    "priority": 0,
    "scheduledAt": 0,
    "dependsOn": [],
    "external": False,
    "createdAt": 1_790_000_000_000,
    "updatedAt": 1_790_000_000_000,
    "leaseVersion": 0,
    "retainUntilConsumed": False,
}
DONE = {**QUEST, "state": "done", "result": "all\x1b[2J done\n", "finishedAt": QUEST["createdAt"]}
FAILED = {**QUEST, "state": "failed", "error": "exit 1"}
BLOCKED = {**QUEST, "state": "blocked", "question": "red or blue?"}

Answer = Callable[[dict[str, Any]], Iterator[bytes]]


def frame(parameters: dict[str, Any], **more: object) -> bytes:
    """A reply on the wire."""
    return json.dumps({"parameters": parameters, **more}).encode() + b"\0"


def error(name: str, **parameters: object) -> bytes:
    """An error reply on the wire."""
    return frame({"message": "told so", "hint": "do this", **parameters}, error=name)


def always(*replies: bytes) -> Answer:
    """The replies one after the other, the last one for ever."""
    left = list(replies)

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield left.pop(0) if len(left) > 1 else left[0]

    return answer


def added(quest: dict[str, Any] = QUEST, *, deduped: bool = False, warnings: tuple[str, ...] = ()) -> bytes:
    return frame({"quest": quest, "deduped": deduped, "warnings": list(warnings)})


def waited(quest: dict[str, Any], timed_out: bool = False) -> bytes:
    return frame({"quest": quest, "timedOut": timed_out})


def out(number: int, text: str, *, attempt: int = 1, stream: str = "stdout") -> dict[str, Any]:
    """A record of output."""
    data = {"stream": stream, "offset": 0, "text": text}
    return {"id": f"{attempt}.{number}", "attempt": attempt, "number": number, "at": 0, "kind": "output", "data": data}


def begun(attempt: int = 1) -> dict[str, Any]:
    """The first record of an attempt."""
    place = {"id": f"{attempt}.1", "attempt": attempt, "number": 1, "at": 0}
    return {**place, "kind": "state", "data": {"state": "running"}}


def over(number: int, outcome: str = "done", error: str | None = None, *, attempt: int = 1) -> dict[str, Any]:
    """The last record of an attempt."""
    data = {"outcome": outcome, "class": None, "exitCode": None, "exitSignal": None, "error": error}
    return {"id": f"{attempt}.{number}", "attempt": attempt, "number": number, "at": 0, "kind": "end", "data": data}


def instead(kind: str, attempt: int = 1, **data: object) -> dict[str, Any]:
    """An entry that is no stored record: a gap, or the text that stands in for records."""
    return {"attempt": attempt, "at": 0, "kind": kind, "data": data}


def followed(
    *records: dict[str, Any], state: str = "running", quest: dict[str, Any] | None = None, continues: bool = True
) -> bytes:
    """A reply of Follow; with the quest it is the last one."""
    if quest is None:
        return frame({"records": list(records), "state": state}, **({"continues": True} if continues else {}))
    return frame({"records": list(records), "state": quest["state"], "quest": quest})


class Clock:
    """A monotonic clock that moves by the pauses made on it."""

    def __init__(self) -> None:
        self.at, self.pauses = 1000.0, list[float]()

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at += seconds

    def now(self) -> float:
        return self.at


class Hangup(Exception):
    """Raised by an answer: close the connection here."""


class Scripted:
    """The service. `answer` turns a request into the pieces to send; `requests` are all that came, in order."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.path, self.answer = str(path), answer
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def parameters(self) -> list[dict[str, Any]]:
        """The parameters of every request, without its requestId."""
        return [{key: val for key, val in req["parameters"].items() if key != "requestId"} for req in self.requests]

    def stop(self) -> None:
        """End the threads; open connections are closed by their clients before."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        """Each connection in a thread of its own, as a client may have two."""
        sessions: list[threading.Thread] = []
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            self.connections += 1
            sessions.append(threading.Thread(target=self._keep, args=(connection,)))
            sessions[-1].start()
        for session in sessions:
            session.join()

    def _keep(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._session(connection)
            except (Hangup, OSError):
                pass

    def _session(self, connection: socket.socket) -> None:
        held = b""
        while data := connection.recv(65536):
            held += data
            while b"\0" in held:
                request, _, held = held.partition(b"\0")
                self.requests.append(json.loads(request))
                for piece in self.answer(self.requests[-1]):
                    connection.sendall(piece)
