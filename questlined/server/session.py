"""One connection: frames in, replies out in the order of the calls. A peer that stalls or floods hurts nobody."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from typing import cast

from questlined.operations.context import Caller, Context
from questlined.operations.registry import METHODS
from questlined.server import dispatch
from questlined.wire.errors import InvalidInput
from questlined.wire.frames import Framer, FrameTooLong

log = logging.getLogger(__name__)
QUEUED_CALLS = 128  # read ahead on one connection; above it the peer is not read
BEGUN_CALLS = 128  # of those, under way at one time, where a method may be begun before its turn


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """(pid, uid, gid) of the process that connected, from the kernel."""
    return cast(
        tuple[int, int, int],
        struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))),
    )


class Session(asyncio.Protocol):
    """Calls wait in three places, oldest first: those begun, `_next`, whose turn it is after them, and frames.

    Neighbours of a method that may be begun (adds) are handed to the store as they arrive, so that they share a
    transaction, and are answered without a task. `run` answers all others, one after another, in their turn.
    """

    def __init__(self, ctx: Context, is_owner: Callable[[int, int], bool], started: Callable[[Session], None]) -> None:
        self._ctx, self._is_owner, self._started = ctx, is_owner, started
        self._framer = Framer(ctx.config.bounds.max_frame_bytes)
        self._begun: deque[dispatch.Begun] = deque()
        self._begun_bytes = 0
        self._next: dispatch.Call | dispatch.Rubbish | None = None
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False  # the peer sends no more
        self._lost = False  # nor is it there to be answered
        self._too_long = False
        self._waiting: asyncio.Task[None] | None = None  # set while a call waits for something to happen
        self._transport: asyncio.Transport | None = None
        self.caller: Caller | None = None
        self.task: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()  # all that was written is sent, or cannot be

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        pid, uid, gid = peer(transport.get_extra_info("socket"))
        self.caller = Caller(uid, gid, pid, self._is_owner(uid, gid))
        self._started(self)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._framer.feed(data)
        except FrameTooLong as error:
            frames = error.frames  # calls that came whole before it are answered
            self._too_long = self._ended = True
            self._pause()
        for frame in frames:
            self._frames.append(frame)
            self._queued_bytes += len(frame)
        self._advance()
        if len(self._frames) > QUEUED_CALLS or self._queued_bytes > self._framer.limit:
            self._pause()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake.set()
        if self._waiting is not None:
            self._waiting.cancel()
        return True  # what was asked is still answered: the peer may have closed one direction only

    def connection_lost(self, exc: Exception | None) -> None:
        """What was begun is done all the same, and until then the session keeps its place: else peers that come and
        go could have the store owe any number of calls."""
        self._ended = self._lost = True
        self.gone.set()
        self._frames.clear()
        self._queued_bytes = 0
        self._wake.set()
        self._writable.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self._advance()

    def finish(self) -> None:
        """Take no more calls. Those that came whole are answered, but for one that waits for something to happen: it is
        given up, as if its peer had hung up. Then hang up. A peer that does not read gets the reply under way only."""
        self._pause()
        if not self._writable.is_set():
            self._frames.clear()
            self._queued_bytes = 0
            self._writable.set()
        self.eof_received()

    def close(self) -> None:
        """Let the peer go; what is written is still sent."""
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        """Let the peer go, whatever it has not read yet."""
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, reply: bytes) -> None:
        """Say why and let the peer go, before any call."""
        self._ended = True
        self._write(reply)
        self.close()

    def _pause(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _advance(self) -> None:
        """Begin calls in the order of their frames, up to one that must wait for its turn."""
        while self._frames and self._next is None and self._has_room():
            frame = self._taken()
            try:
                call = dispatch.decode(frame)
            except dispatch.Rubbish as rubbish:
                self._next = rubbish
                break
            assert self.caller is not None
            begun = dispatch.begin(self._ctx, self.caller, call)
            if begun is None:
                self._next = call
                break
            begun.size = len(frame)
            self._begun_bytes += begun.size
            self._begun.append(begun)
        self._send_finished()

    def _has_room(self) -> bool:
        return (
            len(self._begun) < BEGUN_CALLS
            and (self._begun_bytes < self._framer.limit or not self._begun)
            and self._writable.is_set()
        )

    def _taken(self) -> bytes:
        frame = self._frames.popleft()
        self._queued_bytes -= len(frame)
        transport = self._transport
        if transport is not None and not self._ended and not self._frames and not transport.is_reading():
            transport.resume_reading()
        return frame

    def _send_finished(self) -> None:
        """Answer the oldest calls as far as they are done, in one write; be called again when the next one is."""
        replies = []
        while self._begun and self._begun[0].done():
            reply = self._begun[0].reply(self._ctx)
            if reply is None and not self._lost:
                break
            replies.append(b"" if reply is None or self._begun[0].call.oneway else reply)
            self._begun_bytes -= self._begun.popleft().size
        if replies:
            self._write(b"".join(replies))
        if self._begun and not self._begun[0].done():
            self._begun[0].when_done(self._finished)
        elif self._begun or self._next is not None or self._ended:
            self._wake.set()

    def _finished(self, _answer: object) -> None:
        self._send_finished()
        self._advance()

    async def run(self) -> None:
        """Answer calls until the peer is gone. Raises only cancellation: one bad peer is no reason to end."""
        try:
            while (call := await self._turn()) is not None:
                await self._answer(call)
                if self._begun:
                    self._begun_bytes -= self._begun.popleft().size
                else:
                    self._next = None
                self._advance()
            if self._too_long:
                self._refuse_long()
        except dispatch.Rubbish as rubbish:
            self._write(rubbish.reply)
        except Exception:
            log.exception("a session failed, ignoring")
        finally:
            for begun in self._begun:
                begun.forget()
            self.close()

    async def _turn(self) -> dispatch.Call | None:
        """The call whose turn it is, None when the peer has ended. Raises Rubbish."""
        while True:
            if self._begun:
                # Not one that is merely done: `_finished` answers it in a moment, here it would be carried out twice.
                if self._begun[0].unknown:
                    return self._begun[0].call
            elif self._lost:
                return None
            elif isinstance(self._next, dispatch.Rubbish):
                raise self._next
            elif self._next is not None:
                return self._next
            elif self._ended and not self._frames:
                return None
            self._wake.clear()
            await self._wake.wait()

    async def _answer(self, call: dispatch.Call) -> None:
        method = METHODS.get(call.method)
        if method is not None and method.ends_with_client(call.more):
            if self._ended:
                return
            self._waiting = asyncio.current_task()
        assert self.caller is not None
        if call.more and self._transport is not None:
            self._transport.set_write_buffer_limits(high=0)  # many streams, each of which may stall
        try:
            async with aclosing(dispatch.replies(self._ctx, self.caller, call)) as replies:
                async for reply in replies:
                    if call.oneway:
                        continue
                    self._write(reply)
                    del reply  # nothing is kept for a peer that takes its time but what is on its way
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
