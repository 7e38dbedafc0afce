"""The line of `systemctl status`: told when something changed, no more than once a second, and safe."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from questlined.services import status as status_module
from questlined.services.status import Status, counted, extend, line
from questlined.store.protocol import Pausing
from questlined.sysd.notify import Notifier
from tests.support.parts import Parts, parts

COUNTS = {"queued": 12, "running": 3, "interrupted": 0, "blocked": 1, "done": 9, "failed": 0, "cancelled": 0}


@pytest.mark.parametrize(
    ("paused", "trouble", "text"),
    [
        (False, None, "3 running, 12 queued, 1 blocked"),
        (True, None, "3 running, 12 queued, 1 blocked; paused"),
        (True, "the disk is low", "3 running, 12 queued, 1 blocked; paused; the disk is low"),
    ],
)
def test_the_line_has_what_is_not_over_and_what_holds_it_back(paused: bool, trouble: str | None, text: str) -> None:
    assert line(COUNTS, paused=paused, trouble=trouble) == text
    assert line(COUNTS | {"blocked": 0, "interrupted": 2}, paused=False, trouble=None) == (
        "3 running, 12 queued, 2 interrupted"
    )


def test_attempts_are_counted_in_words() -> None:
    assert [counted(number) for number in range(3)] == ["0 attempts", "1 attempt", "2 attempts"]


class Manager:
    """systemd's end, and what it is told through."""

    def __init__(self, folder: Path) -> None:
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.bind(str(folder / "notify"))
        self._end.setblocking(False)
        self.notifier = Notifier({"NOTIFY_SOCKET": str(folder / "notify")}, os.getpid())

    async def next(self) -> str:
        data = await asyncio.get_running_loop().sock_recv(self._end, 4096)
        return data.decode()

    def silent(self) -> bool:
        """Whether nothing was said that was not heard."""
        try:
            self._end.recv(4096)
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        self._end.close()
        self.notifier.close()


def told(folder: Path, story: Callable[[Parts, Manager, Status], Awaitable[None]]) -> None:
    """Tell a story with a Status that serves; it counts two attempts."""

    async def run() -> None:
        manager = Manager(folder)
        try:
            async with parts(folder) as made:
                status = Status(manager.notifier, made.runtime.store, made.changes, lambda: 2, lambda: None)
                await made.serve(status)
                await story(made, manager, status)
        finally:
            manager.close()

    asyncio.run(run())


def test_a_change_is_told_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is woken for nothing, as by the watchdog, says nothing."""
    monkeypatch.setattr(status_module, "PACE_S", 0.0)

    async def story(made: Parts, manager: Manager, status: Status) -> None:
        assert await manager.next() == "STATUS=0 running, 0 queued"
        await made.add()
        assert await manager.next() == "STATUS=0 running, 1 queued"
        await made.claim()
        assert await manager.next() == "STATUS=1 running, 0 queued"
        await made.runtime.store.pause(Pausing(None, True, "a reason of people's", 0))
        assert await manager.next() == "STATUS=1 running, 0 queued; paused"
        await made.turn(status)
        assert manager.silent()

    told(tmp_path, story)


def test_many_changes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next comes when its time has passed, and has them all."""
    monkeypatch.setattr(status_module, "PACE_S", 0.2)

    async def story(made: Parts, manager: Manager, status: Status) -> None:
        assert await manager.next() == "STATUS=0 running, 0 queued"
        for _ in range(20):
            await made.add()
        await made.turn(status)
        assert manager.silent()
        assert await manager.next() == "STATUS=0 running, 20 queued"

    told(tmp_path, story)


def test_the_end_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "PACE_S", 3600.0)

    async def story(_made: Parts, manager: Manager, status: Status) -> None:
        assert await manager.next() == "STATUS=0 running, 0 queued"
        status.stopping()
        assert await manager.next() == "STATUS=stopping: 2 attempts under way"

    told(tmp_path, story)


def test_more_time_is_asked_for_again_and_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never beyond the bound."""
    monkeypatch.setattr(status_module, "EXTEND_MS", 30)

    async def run() -> None:
        manager = Manager(tmp_path)
        try:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await extend(manager.notifier, 0.1)
            assert loop.time() - began >= 0.1
            asked = []
            while not manager.silent():
                asked.append(1)
            assert len(asked) > 3
        finally:
            manager.close()

    asyncio.run(run())
