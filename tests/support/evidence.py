"""What quests leave behind to be judged by: who ran when, how often, and what still lives."""

from __future__ import annotations

import os
import select
import sqlite3
import time
from pathlib import Path

PATIENCE_S = 30


class Evidence:
    """A folder in which every run of a task leaves its mark, and every two that overlap a complaint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def task(self, command: str) -> str:
        """A shell task. Its lock is held by each process that comes of it, so that a leftover is an overlap, too."""
        quest = f'"{self.folder}/$QUESTLINE_ID.'
        return (
            f'exec 9>>{quest}lock"; flock -n 9 || echo "$QUESTLINE_ID" >>"{self.folder}/overlaps"; '
            f'echo "$QUESTLINE_RUN" >>{quest}runs"; {command}'
        )

    def within(self, name: str, slots: int, command: str) -> str:
        """A shell task that complains where more than `slots` of `name` run at one time."""
        tries = " || ".join(f"flock -n {9 - n}" for n in range(slots))
        opened = "; ".join(f'exec {9 - n}>>"{self.folder}/{name}.{n}"' for n in range(slots))
        return f'{opened}; {tries} || echo "{name}" >>"{self.folder}/overlaps"; {command}'

    def runs(self, quest: str) -> list[str]:
        """The run numbers under which a quest's command began."""
        return self._lines(f"{quest}.runs")

    def overlaps(self) -> list[str]:
        """Quests that ran twice at once, and names that ran too often at once."""
        return self._lines("overlaps")

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []


class Fifo:
    """A named pipe to the children: they block on it until told, or tell that they have come so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # For both ways: neither the children's opening nor their end is then seen by the others.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._read = b""

    def put(self, lines: int = 1) -> None:
        """Let as many readers go on."""
        os.write(self._descriptor, b"go\n" * lines)

    def next(self) -> str:
        """The next line that a child writes."""
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._descriptor], [], [], PATIENCE_S)
            assert ready, f"nobody wrote to {self.path}"
            self._read += os.read(self._descriptor, 65536)
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def during(self, seconds: float) -> None:
        """Take all lines that come within so long; with 0 those that are there."""
        until = time.monotonic() + seconds
        while select.select([self._descriptor], [], [], max(until - time.monotonic(), 0))[0]:
            self._read += os.read(self._descriptor, 65536)
        self._read = self._read.rpartition(b"\n")[2]

    @property
    def empty(self) -> bool:
        """Whether nothing was put or written that nobody has read."""
        return not self._read and not select.select([self._descriptor], [], [], 0)[0]

    def close(self) -> None:
        os.close(self._descriptor)


def store_uuid(database: Path) -> str:
    """The name by which this store's processes are marked."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return str(db.execute("SELECT value FROM meta WHERE key = 'store_uuid'").fetchone()[0])
    finally:
        db.close()


def alive(database: Path) -> list[int]:
    """Living processes that carry the mark of this store's attempts."""
    mark = f"QUESTLINE_ATTEMPT={store_uuid(database)}:".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if mark in Path(entry.path, "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
