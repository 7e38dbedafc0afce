"""One daemon for one state directory and one database: a lock that ends with its holder, and says who that is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

from questlined.wire.errors import Unavailable


class StateLock:
    """An flock on a file. Never a POSIX lock: closing any descriptor of the file would drop that one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, holder: dict[str, object]) -> None:
        """Take the lock and write the holder down. Raises Unavailable, naming the daemon that has it, or the fault."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}", hint="is the disk well, and yours to write?") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = _described(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise Unavailable(
                f"{self.path.parent} belongs to another questlined: {first}",
                hint="use that one, stop it, or choose another QUESTLINED_STATE",
            ) from None
        self._descriptor = descriptor
        self._describe(json.dumps(holder).encode() + b"\n")

    def hand_over(self) -> int:
        """The descriptor that has the lock, for `take_over`; it is not this object's any more."""
        assert self._descriptor is not None
        descriptor, self._descriptor = self._descriptor, None
        return descriptor

    def take_over(self, descriptor: int, holder: dict[str, object]) -> None:
        """Go on with a lock that was never let go of."""
        self._descriptor = descriptor
        self._describe(json.dumps(holder).encode() + b"\n")

    def _describe(self, holder: bytes) -> None:
        """For people. The lock holds without it, on a disk that is full or has become read-only."""
        assert self._descriptor is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, holder, 0)

    def release(self) -> None:
        """Let go. The file stays: removing it would let two daemons hold locks on two files of one name."""
        if self._descriptor is not None:
            self._describe(b"")
            os.close(self._descriptor)
            self._descriptor = None


def _described(text: bytes) -> str:
    try:
        holder = json.loads(text)
    except ValueError:
        holder = None
    if not isinstance(holder, dict):
        return "it is starting"
    return ", ".join(f"{key} {value}" for key, value in holder.items())
