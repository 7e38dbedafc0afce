"""Tells when files grow. The one inotify descriptor is read at most every `interval_s`: a loud writer costs little."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Iterator

from questlined.procs import libc

_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 << 10
# The kernel dropped events: any file may have changed.
_OVERFLOW = -1


class Watch:
    """Callbacks on modification, on the loop's thread. They get nothing: what is new is asked of the file."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, *, interval_s: float = 0.1) -> None:
        """Raises OSError where the user has too many inotify descriptors."""
        self._loop = loop or asyncio.get_running_loop()
        self._interval_s = interval_s
        self._callbacks: dict[str, Callable[[], None]] = {}
        self._numbers: dict[str, int] = {}
        self._resume: asyncio.TimerHandle | None = None
        self._fd = libc.inotify_open()
        self._loop.add_reader(self._fd, self._wake)

    def add(self, path: str, callback: Callable[[], None]) -> None:
        """Call back after each modification of the file, several within an interval being one.

        A second callback for a path replaces the first. Raises OSError (ENOENT, ENOSPC: too many watches).
        """
        number = libc.inotify_add(self._fd, path, libc.IN_MODIFY)
        if self._numbers.get(path) != number:
            self.remove(path)  # another file has this name now
        self._numbers[path] = number
        self._callbacks[path] = callback

    def remove(self, path: str) -> None:
        """No call for this path after this one, not even for what was written before. Unknown: nothing."""
        self._callbacks.pop(path, None)
        number = self._numbers.pop(path, None)
        if number is not None and number not in self._numbers.values():
            libc.inotify_remove(self._fd, number)

    def pace(self, interval_s: float) -> None:
        """Another interval from now on; a longer one that is under way is cut short."""
        self._interval_s = interval_s
        if self._resume is not None and self._resume.when() > self._loop.time() + interval_s:
            self._resume.cancel()
            self._resume = self._loop.call_later(interval_s, self._listen)

    def close(self) -> None:
        """End every watch."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._callbacks.clear()
        self._numbers.clear()

    def _wake(self) -> None:
        self._loop.remove_reader(self._fd)
        self._resume = self._loop.call_later(self._interval_s, self._listen)
        changed = set()
        for number, mask in _events(os.read(self._fd, _READ_BYTES)):
            if mask & libc.IN_IGNORED:
                self._forget(number)
            else:
                changed.add(number)
        for path, number in self._numbers.items():
            if number in changed or _OVERFLOW in changed:
                self._loop.call_soon(self._call, path)

    def _listen(self) -> None:
        self._resume = None
        self._loop.add_reader(self._fd, self._wake)

    def _call(self, path: str) -> None:
        callback = self._callbacks.get(path)
        if callback is not None:
            callback()

    def _forget(self, number: int) -> None:
        """The kernel ended a watch, for its file is gone. Numbers are not used again, so a late event is harmless."""
        for path in [path for path, known in self._numbers.items() if known == number]:
            del self._numbers[path]
            del self._callbacks[path]


def _events(block: bytes) -> Iterator[tuple[int, int]]:
    """(watch number, mask) of each event in what was read."""
    offset = 0
    while offset < len(block):
        number, mask, _, name_bytes = _EVENT.unpack_from(block, offset)
        offset += _EVENT.size + name_bytes
        yield number, mask
