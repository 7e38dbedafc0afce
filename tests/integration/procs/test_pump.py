"""Pipes are copied into files whole, in order and to a defined end."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from questlined.procs.pump import Pump, open_pipe
from tests.integration.procs.scene import PATIENCE_S, open_descriptors


class Copy:
    """One attached pipe and what was told of it."""

    def __init__(self, pump: Pump, target: int) -> None:
        self.source, self.sink = open_pipe()
        self.totals: list[int] = []
        self.errors: list[OSError | None] = []
        self._ended = asyncio.Event()
        pump.attach(self.source, target, self.totals.append, self._end)

    def _end(self, error: OSError | None) -> None:
        self.errors.append(error)
        self._ended.set()

    def run(self, script: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """A child that writes to the pipe; no descriptor of it is left here."""
        child = subprocess.Popen(["sh", "-c", script], stdin=stdin, stdout=self.sink, stderr=self.sink)
        os.close(self.sink)
        return child

    async def end(self) -> OSError | None:
        async with asyncio.timeout(PATIENCE_S):
            await self._ended.wait()
        assert len(self.errors) == 1
        return self.errors[0]


@asynccontextmanager
async def running() -> AsyncIterator[Pump]:
    pump = Pump()
    pump.start()
    try:
        yield pump
    finally:
        pump.stop()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    yield fd
    os.close(fd)


def contents(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size + 1, 0)


def test_eight_mebibytes_arrive_whole_and_are_counted(target: int) -> None:
    block = bytes(range(256)) * 4096

    async def play() -> None:
        async with running() as pump:
            copy = Copy(pump, target)
            child = copy.run("cat", stdin=subprocess.PIPE)
            assert child.stdin is not None
            for _ in range(8):
                await asyncio.to_thread(child.stdin.write, block)
            child.stdin.close()
            assert await copy.end() is None
            assert child.wait() == 0
            assert copy.totals[-1] == 8 << 20
            assert copy.totals == sorted(set(copy.totals))

    asyncio.run(play())
    assert contents(target) == block * 8


def test_opening_stderr_again_loses_nothing(target: int) -> None:
    async def play() -> None:
        async with running() as pump:
            copy = Copy(pump, target)
            child = copy.run("echo one; echo two; echo three >/dev/stderr; echo four >/dev/stdout; echo five")
            assert await copy.end() is None
            assert child.wait() == 0

    asyncio.run(play())
    assert contents(target) == b"one\ntwo\nthree\nfour\nfive\n"


def test_several_pipes_end_on_their_own(target: int, tmp_path: Path) -> None:
    second = os.open(tmp_path / "err", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    async def play() -> None:
        async with running() as pump:
            first, other = Copy(pump, target), Copy(pump, second)
            os.write(other.sink, b"early ")
            assert first.run("echo done").wait() == 0
            assert await first.end() is None
            assert other.errors == []
            os.write(other.sink, b"late")
            os.close(other.sink)
            assert await other.end() is None

    asyncio.run(play())
    assert contents(target) == b"done\n"
    assert contents(second) == b"early late"
    os.close(second)


def test_an_empty_stream_ends_without_a_count(target: int) -> None:
    async def play() -> None:
        async with running() as pump:
            copy = Copy(pump, target)
            os.close(copy.sink)
            assert await copy.end() is None
            assert copy.totals == []

    asyncio.run(play())


def test_detaching_takes_what_is_there_and_ends_although_a_writer_lives(target: int) -> None:
    async def play() -> None:
        async with running() as pump:
            copy = Copy(pump, target)
            os.write(copy.sink, b"x" * 50_000)
            pump.detach(copy.source)
            pump.detach(copy.source)
            assert await copy.end() is None
            assert copy.totals[-1] == 50_000
            with pytest.raises(BrokenPipeError):
                os.write(copy.sink, b"too late")
            os.close(copy.sink)
            pump.detach(copy.source)

    asyncio.run(play())
    assert contents(target) == b"x" * 50_000


def test_stopping_ends_every_stream_with_what_was_written(target: int) -> None:
    async def play() -> Copy:
        async with running() as pump:
            copy = Copy(pump, target)
            os.write(copy.sink, b"last words")
        assert copy.errors == [None]
        assert copy.totals == [10]
        await asyncio.sleep(0)
        os.close(copy.sink)
        return copy

    copy = asyncio.run(play())
    assert copy.errors == [None]
    assert contents(target) == b"last words"


def test_a_target_that_appends_is_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before ")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    async def play() -> None:
        async with running() as pump:
            copy = Copy(pump, fd)
            copy.run("printf after").wait()
            assert await copy.end() is None

    asyncio.run(play())
    os.close(fd)
    assert path.read_bytes() == b"before after"


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[int]:
    where = tmp_path / "small"
    where.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", where], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("may not mount a small filesystem")
    fd = os.open(where / "out", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    yield fd
    os.close(fd)
    subprocess.run(["umount", where], check=True)


async def is_told_of_the_full_target(fd: int) -> None:
    async with running() as pump:
        copy = Copy(pump, fd)
        child = copy.run("trap '' PIPE; head -c 4194304 /dev/zero 2>&-; exit 0")
        error = await copy.end()
        assert error is not None
        assert error.errno == errno.ENOSPC
        assert child.wait() == 0  # nobody reads any more, and it does not hang on that


def test_a_full_disk_ends_the_stream_and_blocks_nobody(full_disk: int) -> None:
    asyncio.run(is_told_of_the_full_target(full_disk))


def test_a_target_that_cannot_be_spliced_into_tells_its_errors_too() -> None:
    fd = os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)
    asyncio.run(is_told_of_the_full_target(fd))
    os.close(fd)


def test_no_descriptor_is_left_open(target: int) -> None:
    async def play() -> None:
        async with running() as pump:
            copy = Copy(pump, target)
            copy.run("echo hello").wait()
            await copy.end()

    asyncio.run(play())
    before = open_descriptors()
    for _ in range(3):
        asyncio.run(play())
    assert open_descriptors() == before


def test_the_targets_descriptor_may_be_closed_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with running() as pump:
            fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT, 0o600)
            copy = Copy(pump, fd)
            os.close(fd)
            copy.run("echo hello").wait()
            assert await copy.end() is None

    asyncio.run(play())
    assert (tmp_path / "out").read_bytes() == b"hello\n"
