"""When an index is written, who is told, and that a disk which fails or hangs keeps nobody."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from questlined.attempts import index, output, records
from questlined.attempts.disk import ForClients
from questlined.attempts.index import Index
from questlined.attempts.records import Recorder
from questlined.store.protocol import Sealed
from questlined.wire.errors import Unavailable
from tests.support.parts import Parts, parts

NEVER_S = 1000.0


@dataclass
class Scene:
    """A recorder of files that the test writes."""

    parts: Parts
    files: output.Files
    recorder: Recorder
    quest: str
    grown: asyncio.Event

    def write(self, data: bytes = b"x") -> None:
        os.write(self.files.stdout, data)
        self.recorder.grew()

    def index(self) -> list[int]:
        """The kinds of its entries."""
        descriptor = index.opened(self.files.directory / "records")
        if descriptor is None:
            return []
        try:
            return [entry.kind for entry in index.entries(descriptor, 0, 1000)]
        finally:
            os.close(descriptor)

    async def told(self) -> None:
        """Returns when its readers are told of more."""
        await self.grown.wait()
        self.grown.clear()


def play(folder: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with parts(folder) as here:
            quest = await here.add()
            claimed = await here.claim()
            files = output.create(folder / "1", prompt=None, stdin_prompt=False, append=True)
            try:
                recorder = here.runtime.records.open(claimed, files)
                await story(Scene(here, files, recorder, quest, asyncio.Event()))
                await recorder.end()
            finally:
                files.close()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reader no look is due while a test runs, unless it says so."""
    monkeypatch.setattr(records, "UNREAD_S", NEVER_S)


async def until(holds: Callable[[], object]) -> None:
    """Turn the loop until another thread has come so far."""
    while not holds():  # noqa: ASYNC110  another thread's doing is no event of this loop
        await asyncio.sleep(0)


class Hung:
    """A disk that does not answer until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self._go = threading.Event()
        real = Index.observe

        def observe(this: Index, *arguments: Any, **more: Any) -> int:
            self.calls += 1
            self._go.wait()
            return real(this, *arguments, **more)

        monkeypatch.setattr(Index, "observe", observe)

    async def reached(self) -> None:
        await until(lambda: self.calls)

    def release(self) -> None:
        self._go.set()


def test_an_attempt_that_is_over_before_a_look_is_due_asks_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much it wrote."""

    async def story(scene: Scene) -> None:
        monkeypatch.setattr(scene.parts.runtime.disk, "begin", None)
        for _ in range(5):
            scene.write()
            await asyncio.sleep(0)
        assert await scene.recorder.end() == ()
        assert scene.index() == []

    play(tmp_path, story)


def test_without_a_reader_there_is_a_look_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its index is an artifact, with its size, on disk."""

    async def story(scene: Scene) -> None:
        monkeypatch.setattr(records, "UNREAD_S", 0.001)
        scene.write()
        await until(scene.index)
        assert scene.index() == [index.STATE, index.OUTPUT]
        path = scene.files.directory / "records"
        assert await scene.recorder.end() == (Sealed("records", str(path), 2 * index.ENTRY_BYTES),)
        scene.write()
        await asyncio.sleep(0)
        assert path.stat().st_size == 2 * index.ENTRY_BYTES

    play(tmp_path, story)


def test_a_reader_who_joins_has_a_look_made_at_once(tmp_path: Path) -> None:
    """And is told of it; from then on each growth is looked at, the first after a silence without a delay."""

    async def story(scene: Scene) -> None:
        scene.write()
        with scene.parts.runtime.records.reading(scene.quest, scene.grown):
            await scene.told()
            assert scene.index() == [index.STATE, index.OUTPUT]
            scene.write()
            await scene.told()
            assert scene.index() == [index.STATE, index.OUTPUT, index.OUTPUT]
        assert not scene.parts.runtime.records.has_readers(scene.quest)

    play(tmp_path, story)


def test_a_reader_who_joins_before_there_is_output_makes_no_index(tmp_path: Path) -> None:
    """A silent attempt has none."""

    async def story(scene: Scene) -> None:
        with scene.parts.runtime.records.reading(scene.quest, scene.grown):
            await until(lambda: scene.recorder._looking)
            await until(lambda: scene.recorder._looking is None)
            assert not scene.grown.is_set()
        assert await scene.recorder.end() == ()
        assert not (scene.files.directory / "records").exists()

    play(tmp_path, story)


def test_a_look_that_hangs_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hangs and no second one behind it, whatever is written; all of that is in the next. The end waits for it,
    since what it writes would have the numbers of what readers compute then."""

    async def story(scene: Scene) -> None:
        hung = Hung(monkeypatch)
        with scene.parts.runtime.records.reading(scene.quest, scene.grown):
            scene.write()
            await hung.reached()
            for _ in range(20):
                scene.write(b"y")
                scene.recorder.hurry()
                await asyncio.sleep(0)
            ending = scene.parts.runtime.tasks.create_task(scene.recorder.end())
            assert await scene.parts.runtime.disk.do(lambda: "alive") == "alive"
            assert (hung.calls, ending.done()) == (1, False)
            hung.release()
            assert len(await ending) == 1
            assert hung.calls == 1

    play(tmp_path, story)


def test_what_came_during_a_look_is_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        hung = Hung(monkeypatch)
        with scene.parts.runtime.records.reading(scene.quest, scene.grown):
            scene.recorder.hurry()
            await hung.reached()
            scene.recorder.cancelling()
            hung.release()
            await scene.told()
            assert scene.index() == [index.STATE, index.STATE]
            assert hung.calls == 2

    play(tmp_path, story)


def test_however_often_a_stop_is_asked_for_it_is_one_record(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with scene.parts.runtime.records.reading(scene.quest, scene.grown):
            for _ in range(3):
                scene.parts.runtime.records.cancelling(scene.quest)
                scene.write()
                await scene.told()
            assert scene.index().count(index.STATE) == 2

    play(tmp_path, story)


@pytest.mark.parametrize("printed", [b"", b"out"])
def test_a_stop_that_is_asked_for_just_before_the_end_is_a_record(tmp_path: Path, printed: bytes) -> None:
    """A program may be dead before a look is due."""

    async def story(scene: Scene) -> None:
        scene.write(printed)
        scene.parts.runtime.records.cancelling(scene.quest)
        (sealed,) = await scene.recorder.end()
        kinds = [index.STATE, *([index.OUTPUT] if printed else []), index.STATE]
        assert (scene.index(), sealed.bytes) == (kinds, len(kinds) * index.ENTRY_BYTES)

    play(tmp_path, story)


def test_a_look_that_fails_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With one warning for as long as it fails, and nothing lost, not even a request to stop."""

    async def story(scene: Scene) -> None:
        monkeypatch.setattr(records, "AGAIN_S", 0.001)
        real, failures = Index.observe, [3]

        def observe(this: Index, *arguments: Any, **more: Any) -> int:
            if failures[0]:
                failures[0] -= 1
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(this, *arguments, **more)

        monkeypatch.setattr(Index, "observe", observe)
        with scene.parts.runtime.records.reading(scene.quest, scene.grown):
            scene.write()
            scene.parts.runtime.records.cancelling(scene.quest)
            await scene.told()
            assert scene.index() == [index.STATE, index.OUTPUT, index.STATE]
        assert failures == [0]

    play(tmp_path, story)
    warned = [record.getMessage() for record in caplog.records if "cannot be kept" in record.getMessage()]
    assert len(warned) == 1
    assert warned[0].endswith("ignoring")


def test_readers_on_a_disk_that_hangs_starve_no_attempt(tmp_path: Path) -> None:
    """They wait for one another; who gives up leaves nothing behind."""

    async def story(scene: Scene) -> None:
        shared, tasks, go = scene.parts.runtime.records, scene.parts.runtime.tasks, threading.Event()
        started: list[int] = []

        def hang(number: int) -> int:
            started.append(number)
            go.wait()
            return number

        reading = [tasks.create_task(shared.read(lambda n=n: hang(n))) for n in range(10)]
        await until(lambda: len(started) == records.READERS)
        assert await scene.parts.runtime.disk.do(lambda: "alive") == "alive"
        for task in reading[:-1]:
            task.cancel()
        await asyncio.wait(reading[:-1])
        assert len(started) == records.READERS
        go.set()
        assert await reading[-1] == 9
        assert sorted(started) == [0, 1, 9]
        assert await asyncio.gather(*(shared.read(lambda n=n: n) for n in range(20))) == list(range(20))
        shared.close()

    play(tmp_path, story)


def test_threads_that_cannot_be_had_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked is told to try again, and those that were started end."""
    real, started = threading.Thread.start, list[threading.Thread]()

    def start(this: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(this)
        real(this)

    async def run() -> None:
        shared = ForClients(2)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with pytest.raises(Unavailable, match="no thread"):
                await shared.do(lambda: 1)
        await until(lambda: not started[0].is_alive())
        assert await shared.do(lambda: 1) == 1
        shared.close()

    asyncio.run(run())
