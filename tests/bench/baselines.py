"""What the machine itself can do: spawn and wait, keep a row for good, both. Each in a process of its own."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.bench.rig import folder
from tests.support.daemon import REPOSITORY

COMMITS = 200
INSERT = "INSERT INTO x VALUES (?, 'some text of a usual length')"


def spawns_per_second(number: int) -> float:
    """No-op programs spawned and awaited by a bare asyncio loop in a process of its own, two at a time."""
    return _measured(number, "bare")


def kept_per_second(number: int) -> float:
    """The same with what no durable queue can do without: two commits by a writer thread, and two files."""
    return _measured(number, "kept")


def _measured(number: int, what: str) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.baselines", str(number), what],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return float(done.stdout)


def commit_ms() -> float:
    """One row in one durable commit."""
    db = _database()
    began = time.perf_counter()
    for number in range(COMMITS):
        db.execute(INSERT, (number,))
    spent = time.perf_counter() - began
    db.close()
    return 1000 * spent / COMMITS


def _database() -> sqlite3.Connection:
    db = sqlite3.connect(folder() / "x.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("PRAGMA synchronous = full")
    db.execute("CREATE TABLE x (a, b)")
    return db


async def _spawn_and_wait(stdout: int, stderr: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    popen = subprocess.Popen(  # noqa: ASYNC220 - on the loop's thread, as the daemon does
        ["true"], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
    )
    pidfd = os.pidfd_open(popen.pid)
    loop.add_reader(pidfd, ended.set)
    await ended.wait()
    loop.remove_reader(pidfd)
    os.close(pidfd)
    popen.wait()


class _Commits:
    """A thread that commits rows one by one, each awaited on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    async def commit(self) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put(future)
        await future

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        db = _database()
        while (future := self._jobs.get()) is not None:
            db.execute(INSERT, (1,))
            self._loop.call_soon_threadsafe(future.set_result, None)
        db.close()


async def _bare(number: int) -> None:
    for _ in range(number):
        await _spawn_and_wait(subprocess.DEVNULL, subprocess.DEVNULL)


async def _kept(number: int, commits: _Commits, files: Path) -> None:
    """The same between two durable commits, with its output in two files of a directory of its own."""
    for _ in range(number):
        await commits.commit()
        place = Path(tempfile.mkdtemp(dir=files))
        with (place / "stdout").open("wb") as stdout, (place / "stderr").open("wb") as stderr:
            await _spawn_and_wait(stdout.fileno(), stderr.fileno())
        await commits.commit()


async def _rate(number: int, kept: bool) -> float:
    commits, files = _Commits(), folder()
    began = time.perf_counter()
    half = number // 2
    await asyncio.gather(*(_kept(half, commits, files) if kept else _bare(half) for _ in range(2)))
    spent = time.perf_counter() - began
    commits.close()
    return number / spent


if __name__ == "__main__":
    print(asyncio.run(_rate(int(sys.argv[1]), sys.argv[2] == "kept")))
