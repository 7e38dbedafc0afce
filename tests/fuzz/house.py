"""A daemon's inside in the test's own process: real sessions, operations and store, a transport of the test's own."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from questlined.life import Places, context
from questlined.operations.context import Context
from questlined.operations.registry import METHODS
from questlined.server.listener import Server
from questlined.services.scheduler import Scheduler
from questlined.wire import errors
from tests.fuzz.mutate import FRAME_MAX, JSON
from tests.support.parts import Parts, parts

PATIENCE_S = 30.0
HANG_S = 0.005  # a call that waits is hung up on after so long
CONFIG = f"""
executor.command = ["true"]
executor.timeout = "10s"
backoff_base = "1ms"
bounds.max_frame_bytes = {FRAME_MAX}
bounds.max_task_bytes = "16KiB"
bounds.max_waiting = 4000
"""
INFO = b'{"method":"org.varlink.service.GetInfo"}'
SERVICE = {
    f"org.varlink.service.{name}": key
    for name, key in (
        ("InterfaceNotFound", "interface"), ("MethodNotFound", "method"), ("InvalidParameter", "parameter")
    )
}  # fmt: skip
ANSWERS = {name: cls for name, cls in errors.BY_NAME.items() if cls not in (errors.Internal, errors.DaemonUnreachable)}


class Call(msgspec.Struct):
    """What is a Varlink call: anything else ends the connection."""

    method: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    more: bool = False
    oneway: bool = False
    upgrade: bool = False


class Reply(msgspec.Struct, forbid_unknown_fields=True):
    """What is a Varlink reply."""

    parameters: dict[str, Any]
    error: str | None = None
    continues: bool = False


_calls, _replies = msgspec.json.Decoder(Call), msgspec.json.Decoder(Reply)


def read_call(frame: bytes) -> Call | None:
    """The call in a frame, None where it is none."""
    try:
        return _calls.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def waits(call: Call | None) -> bool:
    """Whether it may be long until the call is answered: when its caller has ended, it is given up."""
    return call is not None and call.method in METHODS and METHODS[call.method].ends_with_client(call.more)


def checked(frame: bytes) -> Reply:
    """A reply that is in order: JSON, ours, and with words for people where it is an error."""
    assert len(frame) <= FRAME_MAX, f"a reply of {len(frame)} bytes: {frame[:200]!r}"
    reply = _replies.decode(frame)
    if reply.error is None:
        return reply
    assert not reply.continues, frame
    if reply.error in SERVICE:
        assert reply.parameters.keys() == {SERVICE[reply.error]}, frame
    else:
        fields = ANSWERS[reply.error].fields
        assert reply.parameters.keys() == {"message", "hint", *fields}, frame
        assert reply.parameters["message"], frame
        assert reply.parameters["hint"], frame
    return reply


class Line(asyncio.Transport):
    """The daemon's end of a connection: what is written is read and checked at once."""

    def __init__(self, house: House, peer: socket.socket) -> None:
        super().__init__({"socket": peer})
        self._house, self._loop = house, asyncio.get_running_loop()
        self.protocol: asyncio.Protocol = house.factory()
        self.reading, self.closed = True, False
        self.last = b""
        self.asked: deque[str] = deque()  # methods that were called and not yet answered
        self.stalled: Random | None = None  # where set, writing is paused now and then
        self.progress = asyncio.Event()
        self.protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket, whose peer is this process."""
        return super().get_extra_info(name, default)

    def write(self, data: Any) -> None:
        """The peer reads it."""
        if self.closed:
            self._house.complaints.found.append("written after the close")
        for frame in bytes(data).split(b"\0")[:-1]:
            self._read(frame)
        if data and not bytes(data).endswith(b"\0"):
            self._house.complaints.found.append(f"written without its NUL: {bytes(data)[:300]!r}")
        self.progress.set()
        if self.stalled is not None and self.stalled.random() < 0.3:
            self.protocol.pause_writing()
            self._loop.call_soon(self.protocol.resume_writing)

    def _read(self, frame: bytes) -> None:
        self.last = frame
        try:
            reply = checked(frame)
        except (AssertionError, msgspec.MsgspecError, LookupError) as error:  # raised, it would be the session's to log
            self._house.complaints.found.append(f"{error!r}: {frame[:300]!r}")
            if self.asked:
                self.asked.popleft()
            return
        self._house.told[reply.error or "ok"] += 1
        if not self.asked:
            self._house.complaints.found.append(f"an answer that nobody waits for: {frame[:300]!r}")
            return
        name = self.asked[0] if reply.continues else self.asked.popleft()
        if reply.error is None:
            self._house.succeeded.add(name)
            self._house.learn(reply.parameters)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """The daemon hangs up."""
        self._end(None)

    abort = close

    def _end(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self.progress.set()
            self._loop.call_soon(self.protocol.connection_lost, error)

    def lose(self, *, reset: bool) -> None:
        """The peer goes away."""
        self._end(ConnectionResetError() if reset else None)

    def is_closing(self) -> bool:
        return self.closed

    def is_reading(self) -> bool:
        return self.reading and not self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        self.progress.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept: the peer reads at once, and pauses as it likes."""

    def get_write_buffer_size(self) -> int:
        return 0

    async def until(self, true: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
        """Wait for it; whether it came."""
        while not true():
            self.progress.clear()
            try:
                async with asyncio.timeout(patience_s):
                    await self.progress.wait()
            except TimeoutError:
                return true()
        return True


class Complaints(logging.Handler):
    """Everything that was logged at ERROR."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def take(self) -> list[str]:
        """What there is, and nothing the next time."""
        taken, self.found = self.found, []
        return taken

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


class House:
    """What a run talks to. `told` counts replies by their error."""

    def __init__(self, inside: Parts, server: Server, ctx: Context, learn: Callable[[JSON], None]) -> None:
        self.parts, self.server, self.ctx, self.learn = inside, server, ctx, learn
        self.told: Counter[str] = Counter()
        self.succeeded: set[str] = set()
        self._patience_s = PATIENCE_S
        self.complaints = Complaints()
        self.factory: Callable[[], asyncio.Protocol]
        self._peer, self._other = socket.socketpair()
        self._line: Line | None = None

    async def open(self) -> None:
        """Take over what makes a session of each connection."""
        self.factory = self.server.session
        logging.getLogger().addHandler(self.complaints)

    async def close(self) -> None:
        """Hang up everything."""
        if self._line is not None:
            self._line.lose(reset=False)
        await self.settled()
        logging.getLogger().removeHandler(self.complaints)
        self._peer.close()
        self._other.close()

    async def settled(self) -> None:
        """No session is left; a line that is open is closed."""
        if self._line is not None:
            self._line.lose(reset=False)
            self._line = None
        async with asyncio.timeout(PATIENCE_S):
            while self.server.connections:  # noqa: ASYNC110  a count and no event
                await asyncio.sleep(0)

    def line(self) -> Line:
        """The open connection, or a new one."""
        if self._line is None or self._line.closed:
            self._line = Line(self, self._peer)
        return self._line

    async def tell(self, frames: list[bytes], random: Random, patience_s: float = PATIENCE_S) -> None:
        """Send the frames, and see that each is answered as it must be. A plain call is answered at the end."""
        self._patience_s = patience_s
        segment: list[bytes] = []
        asked: list[str] = []
        for frame in frames:
            call = None if len(frame) > FRAME_MAX else read_call(frame)
            if waits(call) and segment:
                await self._plain(segment, asked, random)
                segment, asked = [], []
            segment.append(frame)
            if call is None:
                await self._rubbish(segment, asked, random)
                segment, asked = [], []
            elif waits(call):
                await self._waiting(call, frame, random)
                segment = []
            elif not call.oneway:
                asked.append(call.method)
        await self._plain(segment, asked, random)
        self.parts.seen.clear()

    async def _plain(self, frames: list[bytes], asked: list[str], random: Random) -> None:
        """All are calls: all are answered, and one more, and the connection stays."""
        line = self.line()
        line.asked.extend((*asked, "GetInfo"))
        await self._feed(line, [*frames, INFO], random)
        came = await line.until(lambda: not line.asked or line.closed, self._patience_s)
        found = f"no answer to {list(line.asked)}, closed: {line.closed}; {line.last[:300]!r}"
        assert came, found
        assert not line.closed, found
        assert b'"questlined"' in line.last, f"the last answer is not the last call's: {line.last[:300]!r}"

    async def _rubbish(self, frames: list[bytes], asked: list[str], random: Random) -> None:
        """The last is no call: it gets the last answer, and what comes behind it gets none."""
        line = self.line()
        line.asked.extend((*asked, "rubbish"))
        await self._feed(line, [*frames, INFO], random)
        came = await line.until(lambda: line.closed, self._patience_s)
        assert came, f"rubbish, and the connection is open: {line.last[:300]!r}"
        assert not line.asked, (
            f"closed without an answer to {list(line.asked)}: {frames[-1][:100]!r}, {len(frames[-1])} bytes"
        )
        assert b'"error":"io.questline.InvalidInput"' in line.last, line.last[:300]
        assert b'"frame"' in line.last, line.last[:300]

    async def _waiting(self, call: Call, frame: bytes, random: Random) -> None:
        """It is answered soon, or the caller goes away, one way or the other, and nothing of it is left."""
        line = self.line()
        line.asked.append(call.method)
        line.protocol.data_received(frame + b"\0")
        if not call.oneway and await line.until(lambda: not line.asked or line.closed, HANG_S):
            assert not line.closed, line.last[:300]
            return
        if random.random() < 0.5:
            line.protocol.eof_received()
            assert await line.until(lambda: line.closed), "a call goes on waiting when its caller has ended"
        else:
            line.lose(reset=random.random() < 0.5)
        await self.settled()

    async def _feed(self, line: Line, frames: list[bytes], random: Random) -> None:
        """The bytes, whole or cut anywhere; no more than the session wants to read."""
        data = b"".join(frame + b"\0" for frame in frames)
        way = random.random()
        size = len(data) if way < 0.8 else max(1, len(data) // random.choice((2, 3, 10, 50)))
        line.stalled = random if way > 0.9 else None
        for at in range(0, len(data), size):
            if not line.is_reading():
                await line.until(lambda: line.is_reading() or line.closed)
            if line.closed:
                break
            line.protocol.data_received(data[at : at + size])


def seeded_bytes(seed: int) -> Callable[[int], bytes]:
    """Chance for ids: the same for the same seed."""
    count = 0

    def some(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.blake2b(f"{seed}:{count}".encode(), digest_size=size).digest()

    return some


@asynccontextmanager
async def house(folder: Path, seed: int, learn: Callable[[JSON], None]) -> AsyncIterator[House]:
    """All of it, with ids and chance of the seed. Nothing is claimed by the daemon itself: its loops do not run."""
    async with parts(folder, CONFIG, base="", patience_s=3600) as inside:
        runtime = inside.runtime
        where = Places(folder, runtime.socket, folder / "quests.sqlite", runtime.artifacts)
        scheduler = Scheduler(runtime, inside.changes, "daemon:fuzz")
        ctx = context(runtime, inside.changes, scheduler, where, runtime.clock.wall_ms())
        ctx.random_bytes, ctx.chance = seeded_bytes(seed), Random(seed).random
        made = House(inside, Server(ctx, runtime.tasks, None), ctx, learn)
        await made.open()
        try:
            yield made
        finally:
            await made.close()
            await scheduler.stop(at_once=True)
