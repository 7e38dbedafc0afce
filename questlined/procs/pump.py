"""Copies pipes into files: one thread for all attempts, splicing, so that no output passes through Python. It gets a
pipe with its first bytes: one that stays empty to its end costs no hand-over.

A child that is given the file itself may truncate it by opening /dev/stderr again; a pipe it cannot.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import struct
import termios
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

PIPE_BYTES = 1 << 20
_COPY_BYTES = 64 << 10

OnBytes = Callable[[int], None]
OnEnd = Callable[[OSError | None], None]


def open_pipe() -> tuple[int, int]:
    """(read end for `attach`, write end for the child), both closed on exec. Raises OSError."""
    return os.pipe2(os.O_CLOEXEC)


@dataclass(eq=False, slots=True)
class _Stream:
    """One pipe. The thread writes `total`, both write `told` (a callback is on its way); the loop closes."""

    source: int
    target: int
    on_bytes: OnBytes
    on_end: OnEnd
    total: int = 0
    reported: int = 0
    told: bool = False
    splices: bool = True

    def copy(self, limit: int) -> int:
        """Move up to `limit` bytes; 0 at the end. Raises BlockingIOError when empty, else OSError of the target."""
        if self.splices:
            try:
                return os.splice(self.source, self.target, limit)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self.splices = False  # opened with O_APPEND, or a filesystem that does not take splices
        data = os.read(self.source, min(limit, _COPY_BYTES))
        left = memoryview(data)
        while left:
            left = left[os.write(self.target, left) :]
        return len(data)

    def available(self) -> int:
        """Bytes in the pipe now."""
        return int(struct.unpack("i", fcntl.ioctl(self.source, termios.FIONREAD, b"\0\0\0\0"))[0])


class Pump:
    """The thread. All methods are for the loop's thread, which is also where callbacks are called."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._orders: deque[Callable[[], None]] = deque()
        self._attached: dict[int, _Stream] = {}
        self._moving: dict[int, _Stream] = {}  # the thread's own
        self._running = False

    def start(self) -> None:
        """Begin to copy."""
        self._running = True
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread.start()

    def stop(self) -> None:
        """Copy what the pipes hold now, end every stream, join the thread."""
        for source in list(self._attached):
            self.detach(source)
        self._order(self._halt)
        self._thread.join()
        for stream in list(self._attached.values()):
            self._finish(stream, None)
        self._epoll.close()
        os.close(self._wake)

    def attach(self, source_fd: int, target_fd: int, on_bytes: OnBytes, on_end: OnEnd) -> None:
        """Copy from a pipe's read end to where the file stands, until every writer has closed or the target fails.

        The pump owns `source_fd` from now on and closes it just before `on_end(error or None)`, which is the last
        call; `target_fd` is duplicated (the position is shared) and stays the caller's. `on_bytes(total so far)` is
        called at most once a turn of the loop. Raises OSError, with `source_fd` still the caller's.
        """
        os.set_blocking(source_fd, False)
        stream = _Stream(source_fd, fcntl.fcntl(target_fd, fcntl.F_DUPFD_CLOEXEC, 3), on_bytes, on_end)
        try:
            self._loop.add_reader(source_fd, self._first, stream)
        except OSError:
            os.close(stream.target)
            raise
        self._attached[source_fd] = stream

    def attached(self, source_fd: int) -> bool:
        """Whether the pump owns this descriptor."""
        return source_fd in self._attached

    async def release(self, source_fd: int) -> bool:
        """Stop copying and give the read end back, what the pipe holds still in it: whether there was one to give back.
        Neither callback is called after this. False where the stream has ended: then they were."""
        stream = self._attached.get(source_fd)
        if stream is None:
            return False
        if not self._loop.remove_reader(source_fd):  # the thread has it
            given_up: asyncio.Future[bool] = self._loop.create_future()
            self._order(lambda: self._tell(given_up.set_result, self._give_up(stream)))
            if not await given_up:  # it had ended, and what tells so was told before this
                return False
        del self._attached[source_fd]
        os.close(stream.target)
        return True

    def detach(self, source_fd: int) -> None:
        """Copy what the pipe holds now and end the stream, though writers live on. Unknown or ended: nothing."""
        stream = self._attached.get(source_fd)
        if stream is not None:
            self._hand_over(stream)
            self._order(lambda: self._drain(stream))

    # On the loop's thread

    def _first(self, stream: _Stream) -> None:
        """The pipe has bytes, or it is empty and will remain so."""
        if stream.available():
            self._hand_over(stream)
        else:
            self._loop.remove_reader(stream.source)
            self._finish(stream, None)

    def _hand_over(self, stream: _Stream) -> None:
        """Let the thread have it, if it has not already."""
        if self._loop.remove_reader(stream.source):
            _widen(stream.source)
            self._order(lambda: self._begin(stream))

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        if len(self._orders) == 1:  # else the thread has not taken the one before, and takes this one with it
            os.eventfd_write(self._wake, 1)

    def _report(self, stream: _Stream) -> None:
        stream.told = False  # before the total is read: bytes counted from here on are told again
        if stream.total != stream.reported:
            stream.reported = stream.total
            stream.on_bytes(stream.reported)

    def _finish(self, stream: _Stream, error: OSError | None) -> None:
        if self._attached.get(stream.source) is not stream:
            return  # stop() has finished it already
        del self._attached[stream.source]
        # Closed here and not in the thread, so that the number cannot be another stream's before the caller knows.
        os.close(stream.source)
        os.close(stream.target)
        try:
            self._report(stream)
        finally:
            stream.on_end(error)

    # On the pump's own thread

    def _run(self) -> None:
        while self._running:
            for fd, _ in self._epoll.poll():
                if fd == self._wake:
                    self._obey()
                elif (stream := self._moving.get(fd)) is not None:
                    self._move(stream, PIPE_BYTES)

    def _obey(self) -> None:
        os.eventfd_read(self._wake)
        while self._orders:
            self._orders.popleft()()

    def _halt(self) -> None:
        self._running = False

    def _begin(self, stream: _Stream) -> None:
        self._moving[stream.source] = stream
        try:
            self._epoll.register(stream.source, select.EPOLLIN)
        except OSError as error:
            self._end(stream, error)

    def _move(self, stream: _Stream, limit: int) -> int:
        """Bytes copied once; 0 also when the stream has ended."""
        try:
            moved = stream.copy(limit)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._end(stream, error)
            return 0
        if moved == 0:
            self._end(stream, None)
        stream.total += moved
        if moved and not stream.told:
            stream.told = True
            self._tell(self._report, stream)
        return moved

    def _give_up(self, stream: _Stream) -> bool:
        """Copy no more; whether the stream had not ended."""
        if self._moving.pop(stream.source, None) is None:
            return False
        self._epoll.unregister(stream.source)
        return True

    def _drain(self, stream: _Stream) -> None:
        if self._moving.get(stream.source) is not stream:
            return  # it has ended, its last callback is on its way
        left = stream.available()
        while left > 0 and (moved := self._move(stream, left)):
            left -= moved
        self._end(stream, None)

    def _end(self, stream: _Stream, error: OSError | None) -> None:
        if self._moving.pop(stream.source, None) is None:
            return
        try:
            self._epoll.unregister(stream.source)
        except OSError:  # it could not be registered
            pass
        self._tell(self._finish, stream, error)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            pass


def _widen(source_fd: int) -> None:
    """A larger pipe means fewer wake-ups. Refused above the user's quota, and then the usual size does."""
    try:
        fcntl.fcntl(source_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass
