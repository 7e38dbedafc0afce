"""The stand-in's HTTP side. It listens on the loopback only, and ends with the `with` block it is served in."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents.api.dialects import Api, Refusal, Reply, understood
from tests.agents.api.script import Script, Step, filled, shell_call, tools

FOREVER_S = 86_400.0
LATER_S = 30
MIB_CHUNKS = 16  # of 64 KiB
TEXTS = {429: "Rate limit reached", 529: "Overloaded"}


class BrokenStream(Exception):
    """The source of the text wants the stream to end with an error event."""


class StandIn(ThreadingHTTPServer):
    """`requests` has what was asked of the model, oldest first: dialect, step, model, path, agent, tools."""

    daemon_threads = False  # so that closing it waits for them

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.requests: list[dict[str, Any]] = []
        self.script, self.lock = Script(), threading.Lock()
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._open.discard(request)

    def server_close(self) -> None:
        """Hang up on everybody, whatever they wait for, and return when the last thread is over."""
        for connection in list(self._open):
            with suppress(OSError):  # it ends by itself just now
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()


@contextmanager
def serving(port: int = 0) -> Iterator[StandIn]:
    """A running one."""
    server = StandIn(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="stand-in")
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection of an agent."""

    protocol_version = "HTTP/1.1"
    server: StandIn

    def log_message(self, *_message: object) -> None:
        """Nobody reads it: `StandIn.requests` tells more."""

    def do_HEAD(self) -> None:
        """Agents look whether anybody is there."""
        self._head(200, {"Content-Length": "0"})

    def do_POST(self) -> None:
        """A request to the model, or one beside it, which is told that all is well."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        api = understood(body, path) if isinstance(body, dict) else None
        try:
            if api is None:
                tokens = len(raw) // 4
                self._json(Reply(200, {"input_tokens": tokens, "totalTokens": tokens}, {}))
            else:
                self._answer(api, body, self._noted(api, body, path))
        except OSError:
            self.close_connection = True

    def _noted(self, api: Api, body: dict[str, Any], path: str) -> Step:
        offered = [name for name, _ in tools(body)]
        with self.server.lock:
            step = self.server.script.step(body)
            seen = {"dialect": type(api).__name__, "step": f"{step.kind} {step.rest}".strip(), "model": api.model}
            more = {"path": path, "agent": self.headers.get("User-Agent"), "tools": offered}
            self.server.requests.append(seen | more)
        return step

    def _answer(self, api: Api, body: dict[str, Any], step: Step) -> None:
        kind = "529" if step.kind == "sse" and not api.streams else step.kind
        if kind == "hang":
            self._pause(FOREVER_S)
        elif kind in ("plan", "quota") or kind.isdigit():
            self._json(refused(api, kind, step))
        else:
            self._say(api, body, step)

    def _say(self, api: Api, body: dict[str, Any], step: Step) -> None:
        call = shell_call(body, step.rest) if step.kind == "sh" else None
        schema = body.get("generationConfig", {}).get("responseJsonSchema")
        chunks = [] if call else [json.dumps(filled(schema))] if schema else texts(step)
        api.spoken = 1 + (len(json.dumps(call or "")) + sum(map(len, chunks))) // 4
        if not api.streams:
            self._json(Reply(200, api.whole("".join(self._paced(chunks, step.kind)), call), {}))
            return
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        try:
            for event in api.stream(self._paced(chunks, step.kind), call):
                self._chunk(event)
        except BrokenStream:
            self._chunk(api.broken())
        self._chunk(b"")

    def _paced(self, chunks: list[str], kind: str) -> Iterator[str]:
        """The chunks, and after each what its kind of step does to the stream."""
        for chunk in chunks:
            yield chunk
            if kind in ("slow", "stall"):
                self._pause(1 if kind == "slow" else FOREVER_S)
            elif kind == "cut":
                self.connection.shutdown(socket.SHUT_RDWR)
                raise ConnectionAbortedError
            elif kind == "sse":
                raise BrokenStream

    def _pause(self, seconds: float) -> None:
        """Let time pass. Raises ConnectionResetError when the connection ends meanwhile."""
        hung_up = select.poll()
        hung_up.register(self.connection, select.POLLRDHUP)
        if hung_up.poll(seconds * 1000):
            raise ConnectionResetError

    def _json(self, reply: Reply) -> None:
        data = json.dumps(reply.value).encode()
        self._head(reply.status, {"Content-Type": "application/json", "Content-Length": str(len(data))} | reply.headers)
        self.wfile.write(data)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        """Of a chunked body; an empty one ends it."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def refused(api: Api, kind: str, step: Step) -> Reply:
    """The vendor's error for a status, a spent plan or a spent quota."""
    status = int(kind) if kind.isdigit() else 429
    text = TEXTS.get(status, f"mock error {kind}") if kind.isdigit() else f"mock error {kind}"
    wait = int(step.rest) if kind == "plan" else LATER_S if step.retry_s is None else step.retry_s
    refusal = Refusal(status, text, int(time.time()) + wait, "error" if kind.isdigit() else kind)
    reply = api.refuse(refusal)
    again = {} if step.retry_s is None else {"retry-after": str(wait)}
    return Reply(reply.status, reply.value, reply.headers | again)


def texts(step: Step) -> list[str]:
    """What is said, in the pieces of a stream."""
    if step.kind == "slow":
        return ["tick "] * int(step.rest)
    if step.kind == "big":
        return [("x" * 63 + "\n") * 1024] * int(float(step.rest) * MIB_CHUNKS)
    return [step.rest if step.kind == "say" else f"mock {step.kind} {step.rest}".rstrip()]
