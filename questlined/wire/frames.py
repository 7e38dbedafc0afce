"""Varlink framing: JSON objects, each ended by one NUL byte, cut anywhere by the transport."""

from __future__ import annotations

NUL = b"\0"


class FrameTooLong(Exception):
    """A frame passed the limit before its NUL came. `frames` came whole before it, in the same read."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []


class Framer:
    """Cuts a byte stream into frames. Memory is bounded by `limit` plus one read."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was read, give the frames it completes, without their NUL. Raises FrameTooLong."""
        *complete, rest = data.split(NUL)
        given: list[bytes] = []
        try:
            for frame in complete:
                given.append(self._whole(frame))
            self._keep(rest)
        except FrameTooLong as error:
            error.frames = given
            raise
        return given

    def _whole(self, last: bytes) -> bytes:
        """The frame that ends with `last`."""
        if not self._parts and len(last) <= self.limit:
            return last
        self._keep(last)
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._size > self.limit:
            raise FrameTooLong
        self._parts.append(data)
