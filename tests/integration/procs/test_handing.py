"""What one family of processes hands over, another one in the same process goes on with."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from questlined.procs import procfs
from questlined.procs.family import Family
from questlined.procs.pump import Pump, open_pipe
from tests.integration.procs.scene import PATIENCE_S, Scene, alive, open_descriptors, run_another, scene, until_unknown


async def _pass_on(played: Scene, meanwhile: Callable[[], None] = lambda: None) -> Family:
    """The scene's family is another one from here on."""
    given = played.family.hand_over()
    meanwhile()
    run_another()  # which would reap a child that subprocess takes for forgotten
    played.family = Family()
    played.family.adopt(given)
    played.family.start()
    return played.family


def test_a_child_is_seen_through_by_the_family_that_adopts_it() -> None:
    """To its exit status, its sweep and its end; and no descriptor is left."""

    async def play() -> None:
        async with scene() as played:
            before = open_descriptors()
            child = played.spawn("(setsid sleep 1000 & echo $!); read line; exit 7", stdin=(pipe := os.pipe())[0])
            escaped = played.lines.pid()
            family = await _pass_on(played)
            (adopted,) = family._children.values()
            assert (adopted.pid, adopted.marker, adopted.started) == (child.pid, child.marker, child.started)
            assert not adopted.exited.is_set()
            os.close(pipe[1])
            killed, ended = await played.finish(adopted)
            assert (killed, ended.code, alive(escaped)) == ([escaped], 7, False)
            os.close(pipe[0])
            assert open_descriptors() == before

    asyncio.run(play())


def test_an_exit_that_nobody_watched_is_not_missed() -> None:
    async def play() -> None:
        async with scene() as played:
            child = played.spawn("exit 3")
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222  the loop must not see it
            family = await _pass_on(played)
            (adopted,) = family._children.values()
            assert (await played.finish(adopted))[1].code == 3

    asyncio.run(play())


def test_an_orphan_that_ends_meanwhile_is_buried_and_no_child_with_it() -> None:
    """It has come to this process, and is nobody's zombie for long."""

    async def play() -> None:
        async with scene() as played:
            played.spawn("(setsid sleep 1000 & echo $!); exec sleep 1000")
            orphan = played.lines.pid()

            def end_it() -> None:
                os.kill(orphan, signal.SIGKILL)
                while (seen := procfs.stat(orphan)) and not (seen.dead and seen.parent == os.getpid()):
                    pass

            family = await _pass_on(played, end_it)
            await until_unknown(orphan)
            (adopted,) = family._children.values()
            assert alive(adopted.pid)

    asyncio.run(play())


def test_a_child_on_its_way_down_is_told_once() -> None:
    """The ladder goes on where it was, and the child has its grace anew."""

    async def play() -> None:
        async with scene() as played:
            child = played.spawn("trap 'echo told' TERM; echo up; while :; do sleep 1000 & wait; done")
            assert played.lines.next() == "up"
            first = asyncio.ensure_future(played.family.take_down(child, 1000))
            await asyncio.sleep(0)
            assert await asyncio.to_thread(played.lines.next) == "told"
            family = await _pass_on(played)
            first.cancel()
            (adopted,) = family._children.values()
            assert adopted.terminating
            async with asyncio.timeout(PATIENCE_S):
                await family.take_down(adopted, 0.05)
            await played.finish(adopted)
            assert played.lines.rest() == b""

    asyncio.run(play())


def test_what_was_kept_on_purpose_stays_kept() -> None:
    """No sweep of a later attempt takes it."""

    async def play() -> None:
        async with scene() as played:
            first = played.spawn("setsid sleep 1000 & echo $!; exit 0", "store:q-1:1")
            server = played.lines.pid()
            await played.family.sweep(first, keep=True)
            played.family.reap(first)
            await _pass_on(played)
            killed, _ = await played.finish(played.spawn("exit 0", "store:q-2:1"))
            assert (killed, alive(server)) == ([], True)
            await played.end(last := played.spawn("sleep 1000", "store:q-3:1"))
            assert alive(server)
            assert last.swept
            os.kill(server, 9)
            await until_unknown(server)

    asyncio.run(play())


@pytest.fixture
def files(tmp_path: Path) -> list[int]:
    return [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC) for name in ("out", "err")]


def test_a_pipe_is_given_back_with_what_it_holds(tmp_path: Path, files: list[int]) -> None:
    """And another pump goes on behind the last byte: nothing is lost, doubled or out of order."""
    blocks = [b"".join(b"%d.%d\n" % (block, line) for line in range(5000)) for block in range(20)]

    async def play() -> None:
        before = open_descriptors()
        source, sink = open_pipe()
        ends: list[OSError | None] = []
        for block in blocks:
            told: list[int] = []
            some = asyncio.Event()
            pump = Pump()
            pump.start()

            def count(total: int, told: list[int] = told, some: asyncio.Event = some) -> None:
                told.append(total)
                some.set()

            at = os.lseek(files[0], 0, os.SEEK_CUR)
            os.write(sink, block)
            pump.attach(source, files[0], count, ends.append)
            await some.wait()
            assert await pump.release(source)
            assert told[-1] == os.lseek(files[0], 0, os.SEEK_CUR) - at
            assert not pump.attached(source)
            pump.stop()
        assert ends == []
        ended = asyncio.Event()
        pump = Pump()
        pump.start()
        pump.attach(source, files[0], lambda total: None, lambda error: ended.set())
        os.close(sink)
        await ended.wait()
        assert not await pump.release(source)  # it has ended, and was closed
        pump.stop()
        assert open_descriptors() == before

    asyncio.run(play())
    assert (tmp_path / "out").read_bytes() == b"".join(blocks)
    for descriptor in files:
        os.close(descriptor)


def test_a_pipe_in_which_nothing_has_come_is_given_back(files: list[int]) -> None:
    """The thread has never had it."""

    async def play() -> None:
        source, sink = open_pipe()
        pump = Pump()
        pump.start()
        pump.attach(source, files[0], lambda total: None, lambda error: None)
        assert await pump.release(source)
        os.write(sink, b"later")
        assert os.read(source, 10) == b"later"
        pump.stop()
        for descriptor in (source, sink, *files):
            os.close(descriptor)

    asyncio.run(play())
