"""A store under test from both sides: ours, and another program's connection to the same file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.stores import Bench, open_bench

PATIENCE_S = 30


def on_bench(folder: Path, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    """Run a scenario on the store in `folder`, which may be there already."""

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            bench = await open_bench(folder)
            try:
                await scenario(bench)
            finally:
                await bench.store.close()

    asyncio.run(run())


@contextmanager
def another(database: Path) -> Iterator[sqlite3.Connection]:
    """Another program that uses the file."""
    db = sqlite3.connect(database, isolation_level=None)
    try:
        yield db
    finally:
        db.close()


async def until(holds: Callable[[], bool]) -> None:
    """Turn the loop until another thread has come so far."""
    while not holds():  # noqa: ASYNC110  another thread's doing is no event of this loop
        await asyncio.sleep(0)


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[Path]:
    """A file system of its own, mounted for this test. Skips where that is not permitted."""
    folder.mkdir()
    options = f"size={kibibytes}k,mode=0700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the space there is; the file that holds it."""
    path = folder / "filler"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (65536, 4096, 1):
            try:
                while True:
                    os.write(descriptor, b"x" * size)
            except OSError:
                continue
    finally:
        os.close(descriptor)
    return path
