"""What the machine itself can do: a bare spawn and wait, a durable commit. `python -m tests.bench.baselines` is one."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time

from tests.bench.rig import folder
from tests.support.daemon import REPOSITORY

COMMITS = 200


def spawns_per_second(number: int) -> float:
    """No-op programs spawned and awaited by a bare asyncio loop in a process of its own, two at a time."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.baselines", str(number)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return float(done.stdout)


def commit_ms() -> float:
    """One row in one durable commit."""
    db = sqlite3.connect(folder() / "x.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("PRAGMA synchronous = full")
    db.execute("CREATE TABLE x (a, b)")
    began = time.perf_counter()
    for number in range(COMMITS):
        db.execute("INSERT INTO x VALUES (?, 'some text of a usual length')", (number,))
    spent = time.perf_counter() - began
    db.close()
    return 1000 * spent / COMMITS


async def _spawns(number: int) -> float:
    loop = asyncio.get_running_loop()

    async def one() -> None:  # spawned on the loop's thread, as the daemon does
        ended = asyncio.Event()
        popen = subprocess.Popen(["true"], stdin=-3, stdout=-3, start_new_session=True)  # noqa: ASYNC220
        pidfd = os.pidfd_open(popen.pid)
        loop.add_reader(pidfd, ended.set)
        await ended.wait()
        loop.remove_reader(pidfd)
        os.close(pidfd)
        popen.wait()

    async def worker() -> None:
        for _ in range(number // 2):
            await one()

    began = time.perf_counter()
    await asyncio.gather(worker(), worker())
    return number / (time.perf_counter() - began)


if __name__ == "__main__":
    print(asyncio.run(_spawns(int(sys.argv[1]))))
