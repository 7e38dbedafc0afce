"""Varlink framing: JSON objects, each ended by one NUL byte, cut anywhere by the transport."""

from __future__ import annotations

NUL = b"\0"


class FrameTooLong(Exception):
    """A frame passed the limit before its NUL came."""


class Framer:
    """Cuts a byte stream into frames. Memory is bounded by `limit` plus one read."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was read, give the frames it completes, without their NUL. Raises FrameTooLong."""
        if NUL not in data:
            self._keep(data)
            return []
        *complete, rest = data.split(NUL)
        if self._parts:
            self._keep(complete[0])
            complete[0] = b"".join(self._parts)
        self._parts, self._size = [], 0
        if any(len(frame) > self.limit for frame in complete):
            raise FrameTooLong
        self._keep(rest)
        return complete

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._size > self.limit:
            raise FrameTooLong
        self._parts.append(data)
