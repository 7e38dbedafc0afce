"""What is measured: a real daemon, and a cheap client that speaks to it over connections held open."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon

QUESTS, PROJECTS, MANAGER = "io.questline.Quests", "io.questline.Projects", "io.questline.Manager"
NOTHING = 'executor.command = ["true"]\nscheduler.max_concurrent = 2\n'
ADD_MANY = 5000
GET_FLAGS, SET_FLAGS, TOP_DIRECTORY = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h, for `chattr +T`
# As an installed program runs: byte code is kept, nothing else of the test's interpreter.
BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONUNBUFFERED": ""}


class Wire:
    """One connection."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self._rest = b""

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """One call, one reply. Raises AssertionError for an error reply."""
        self.socket.sendall(frame(method, **parameters))
        return self.reply()

    def reply(self) -> dict[str, Any]:
        """The next reply's parameters."""
        while b"\0" not in self._rest:
            data = self.socket.recv(1 << 20)
            assert data, "the daemon hung up"
            self._rest += data
        one, _, self._rest = self._rest.partition(b"\0")
        reply = json.loads(one)
        assert "error" not in reply, reply
        parameters: dict[str, Any] = reply["parameters"]
        return parameters

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def frame(method: str, **parameters: object) -> bytes:
    """A call, with its NUL."""
    return json.dumps({"method": method, "parameters": parameters}).encode() + b"\0"


class Rig:
    """A daemon with one open connection, `wire`."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.wire = Wire(daemon.socket)
        self.directory = str(daemon.project)

    def add(self, task: str = "true", **more: object) -> str:
        """Add one quest; its id."""
        added = self.wire.call(f"{QUESTS}.Add", directory=self.directory, path=os.environ["PATH"], task=task, **more)
        return str(added["quest"]["id"])

    def fill(self, number: int, **more: object) -> list[str]:
        """Add many quests in calls of ADD_MANY; their ids."""
        ids: list[str] = []
        while len(ids) < number:
            quests = [{"task": f"true {len(ids) + one}", **more} for one in range(min(ADD_MANY, number - len(ids)))]
            place = {"directory": self.directory, "path": os.environ["PATH"]}
            added = self.wire.call(f"{QUESTS}.AddMany", **place, quests=quests)
            ids += [one["id"] for one in added["added"]]
        return ids

    def wait(self, quest: str) -> str:
        """Until it has ended; its state."""
        while (reply := self.wire.call(f"{QUESTS}.Wait", id=quest))["timedOut"]:
            pass
        return str(reply["quest"]["state"])

    def pause(self) -> None:
        """Start nothing any more."""
        self.wire.call(f"{PROJECTS}.Pause", all=True)

    def resume(self) -> None:
        """Start quests again."""
        self.wire.call(f"{PROJECTS}.Resume", all=True)

    def counts(self) -> dict[str, int]:
        """Quests by state."""
        counts: dict[str, int] = self.wire.call(f"{MANAGER}.Status")["counts"]
        return counts

    def restart(self) -> None:
        """Start the daemon again on its files."""
        self.wire.close()
        self.daemon.start(**BYTE_CODE)
        self.wire = Wire(self.daemon.socket)


@cache
def _root() -> Path:
    """Where all directories of this run are: on a disk (/tmp may be none), until the program ends.

    ext4 passes over inodes that were freed within the last minute one by one, so whoever makes files where many have
    just been deleted pays twice for it. Below a top directory it spreads new directories over the disk instead.
    """
    made = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flags = struct.unpack("l", fcntl.ioctl(descriptor, GET_FLAGS, bytes(8)))[0]
        fcntl.ioctl(descriptor, SET_FLAGS, struct.pack("l", flags | TOP_DIRECTORY))
    except OSError:  # another filesystem, without such a flag
        pass
    finally:
        os.close(descriptor)
    return made


def folder() -> Path:
    """A new directory."""
    return Path(tempfile.mkdtemp(dir=_root()))


@contextmanager
def rig(config: str = NOTHING) -> Iterator[Rig]:
    """A daemon on a directory of its own, and its end."""
    daemon = Daemon(folder(), config)
    daemon.start(**BYTE_CODE)
    try:
        made = Rig(daemon)
        try:
            yield made
        finally:
            made.wire.close()
    finally:
        daemon.stop()


class Pipe:
    """A FIFO that both ends of a measurement may open at any time: we hold it open for reading and writing."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._rest = b""

    def line(self) -> str:
        """The next line that somebody wrote."""
        while b"\n" not in self._rest:
            self._rest += os.read(self._descriptor, 4096)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def write(self, text: str) -> None:
        """For whoever reads it."""
        os.write(self._descriptor, text.encode())

    def close(self) -> None:
        """Let go."""
        os.close(self._descriptor)


def now_ms() -> float:
    """CLOCK_MONOTONIC, in milliseconds."""
    return time.monotonic_ns() / 1e6
