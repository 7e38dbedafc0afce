"""One connection: frames in, replies out in the order of the calls. A peer that stalls or floods hurts nobody."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

from questlined.operations.context import Caller, Context
from questlined.operations.registry import METHODS
from questlined.server import dispatch
from questlined.wire.errors import InvalidInput
from questlined.wire.frames import Framer, FrameTooLong

log = logging.getLogger(__name__)
QUEUED_CALLS = 128  # read ahead on one connection; above it the peer is not read


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """(pid, uid, gid) of the process that connected, from the kernel."""
    return cast(
        tuple[int, int, int],
        struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))),
    )


class Session(asyncio.Protocol):
    """Reads frames into a bounded queue; `run` answers them one after another."""

    def __init__(self, ctx: Context, is_owner: Callable[[int, int], bool], started: Callable[[Session], None]) -> None:
        self._ctx, self._is_owner, self._started = ctx, is_owner, started
        self._framer = Framer(ctx.config.bounds.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False  # the peer sends no more
        self._too_long = False
        self._waiting: asyncio.Task[None] | None = None  # set while a call waits for something to happen
        self._transport: asyncio.Transport | None = None
        self.caller: Caller | None = None
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        pid, uid, gid = peer(transport.get_extra_info("socket"))
        self.caller = Caller(uid, gid, pid, self._is_owner(uid, gid))
        self._started(self)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._framer.feed(data):
                self._frames.append(frame)
                self._queued_bytes += len(frame)
        except FrameTooLong:
            self._too_long = self._ended = True
            self._pause()
        if len(self._frames) > QUEUED_CALLS or self._queued_bytes > self._framer.limit:
            self._pause()
        self._wake.set()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake.set()
        if self._waiting is not None:
            self._waiting.cancel()
        return True  # what was asked is still answered: the peer may have closed one direction only

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._frames.clear()
        self._queued_bytes = 0
        self._wake.set()
        self._writable.set()
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def close(self) -> None:
        """Let the peer go; what is written is still sent."""
        if self._transport is not None:
            self._transport.close()

    def refuse(self, reply: bytes) -> None:
        """Say why and let the peer go, before any call."""
        self._ended = True
        self._write(reply)
        self.close()

    def _pause(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    async def run(self) -> None:
        """Answer calls until the peer is gone. Raises only cancellation: one bad peer is no reason to end."""
        try:
            while (frame := await self._next()) is not None:
                await self._answer(dispatch.decode(frame))
            if self._too_long:
                self._refuse_long()
        except dispatch.Rubbish as rubbish:
            self._write(rubbish.reply)
        except Exception:
            log.exception("a session failed, ignoring")
        finally:
            self.close()

    async def _next(self) -> bytes | None:
        """The next frame, None when the peer has ended."""
        while not self._frames:
            if self._ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        frame = self._frames.popleft()
        self._queued_bytes -= len(frame)
        transport = self._transport
        if transport is not None and not self._ended and not self._frames and not transport.is_reading():
            transport.resume_reading()
        return frame

    async def _answer(self, call: dispatch.Call) -> None:
        method = METHODS.get(call.method)
        if method is not None and method.waits:
            if self._ended:
                return
            self._waiting = asyncio.current_task()
        assert self.caller is not None
        try:
            async for reply in dispatch.replies(self._ctx, self.caller, call):
                if call.oneway:
                    continue
                self._write(reply)
                await self._writable.wait()
        finally:
            self._waiting = None

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _refuse_long(self) -> None:
        limit = self._framer.limit
        error = InvalidInput(
            f"a call has more than bounds.max_frame_bytes = {limit} bytes",
            hint="send smaller calls, or raise the bound",
            field="frame",
            setting="bounds.max_frame_bytes",
        )
        self._write(dispatch.error_frame(error))
