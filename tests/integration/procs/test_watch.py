"""A file that grows is noticed, at most once an interval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from questlined.procs.watch import Watch
from tests.integration.procs.scene import LONG_S, PATIENCE_S, open_descriptors


class Calls:
    """Counts, and can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._called = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._called.set()

    async def next(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._called.wait()
        self._called.clear()


@asynccontextmanager
async def watching(interval_s: float = 0) -> AsyncIterator[Watch]:
    watch = Watch(interval_s=interval_s)
    try:
        yield watch
    finally:
        watch.close()


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def kernel_watches() -> int:
    """Inotify watches that this process holds."""
    count = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            count += info.read_text().count("inotify wd:")
        except FileNotFoundError:  # the listing's own descriptor
            pass
    return count


async def turn() -> None:
    """Let the loop see everything that is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_each_growth_is_told_to_the_files_own_callback(tmp_path: Path) -> None:
    async def play() -> None:
        async with watching() as watch:
            one, two = tmp_path / "one", tmp_path / "two"
            first, second = Calls(), Calls()
            for path, calls in ((one, first), (two, second)):
                path.touch()
                watch.add(str(path), calls)
            grow(one)
            await first.next()
            grow(two)
            await second.next()
            assert (first.count, second.count) == (1, 1)
            grow(one)
            await first.next()

    asyncio.run(play())


def test_a_loud_writer_is_heard_once_an_interval(tmp_path: Path) -> None:
    async def play() -> None:
        async with watching(LONG_S) as watch:
            path, calls = tmp_path / "out", Calls()
            path.touch()
            watch.add(str(path), calls)
            grow(path)
            await calls.next()
            for _ in range(10):
                grow(path)
                await turn()
            assert calls.count == 1

    asyncio.run(play())


def test_what_was_written_within_the_interval_is_told_after_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with watching(0.01) as watch:
            path, calls = tmp_path / "out", Calls()
            path.touch()
            watch.add(str(path), calls)
            grow(path)
            await calls.next()
            grow(path)
            await calls.next()

    asyncio.run(play())


def test_a_removed_watch_is_silent_even_about_earlier_writes(tmp_path: Path) -> None:
    async def play() -> None:
        async with watching() as watch:
            removed, kept = tmp_path / "removed", tmp_path / "kept"
            silent, calls = Calls(), Calls()
            for path, callback in ((removed, silent), (kept, calls)):
                path.touch()
                watch.add(str(path), callback)
            grow(removed)
            watch.remove(str(removed))
            watch.remove(str(removed))
            grow(kept)
            await calls.next()
            await turn()
            assert silent.count == 0

    asyncio.run(play())


def test_a_new_file_of_the_same_name_can_be_watched(tmp_path: Path) -> None:
    async def play() -> None:
        async with watching() as watch:
            path, old, new = tmp_path / "out", Calls(), Calls()
            path.touch()
            watch.add(str(path), old)
            path.rename(tmp_path / "rotated")
            path.touch()
            watch.add(str(path), new)
            assert kernel_watches() == 1
            grow(tmp_path / "rotated")
            await turn()
            grow(path)
            await new.next()
            assert (old.count, new.count) == (0, 1)
            path.unlink()
            await turn()
            path.touch()
            watch.add(str(path), new)
            grow(path)
            await new.next()

    asyncio.run(play())


def test_a_file_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    async def play() -> None:
        async with watching() as watch:
            with pytest.raises(FileNotFoundError):
                watch.add(str(tmp_path / "none"), Calls())

    asyncio.run(play())


def test_closing_leaves_no_descriptor_and_no_call(tmp_path: Path) -> None:
    async def play() -> None:
        before = open_descriptors()
        path, calls = tmp_path / "out", Calls()
        path.touch()
        async with watching() as watch:
            watch.add(str(path), calls)
            grow(path)
        await turn()
        assert calls.count == 0
        assert open_descriptors() == before

    asyncio.run(play())


def test_a_shorter_interval_ends_a_longer_one_under_way(tmp_path: Path) -> None:
    """What was written within it is told at once; a longer one counts from then on."""

    async def play() -> None:
        async with watching(LONG_S) as watch:
            path, calls = tmp_path / "out", Calls()
            path.touch()
            watch.add(str(path), calls)
            grow(path)
            await calls.next()
            grow(path)
            await turn()
            assert calls.count == 1
            watch.pace(0)
            await calls.next()
            watch.pace(LONG_S)
            grow(path)
            await calls.next()
            grow(path)
            await turn()
            assert calls.count == 3

    asyncio.run(play())
