"""The watchdog is fed while all come round, and only then."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from questlined.services.service import Wake
from questlined.services.watchdog import Watchdog
from questlined.sysd.notify import Notifier
from questlined.wire.errors import Unavailable
from tests.integration.store.scene import until

USEC = "6000"  # a period of 2 ms


class Loop:
    """A service that waits for ever, until it is made to hang."""

    def __init__(self) -> None:
        self.wake = Wake()
        self.hangs = False

    async def run(self, started: Callable[[], None]) -> None:
        while not self.hangs:
            await self.wake.wait()
        await asyncio.Event().wait()


class Manager:
    """systemd's end of the notify socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    async def next(self) -> str:
        data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 4096), 30)
        return data.decode()

    def waiting(self) -> list[str]:
        """Everything sent so far."""
        found = []
        try:
            while True:
                found.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


def watched(
    folder: Path,
    touch: Callable[[], Awaitable[object]],
    story: Callable[[dict[str, Loop]], Awaitable[None]],
    busy: Callable[[], bool] = lambda: False,
) -> None:
    """Tell a story while two services and a watchdog run."""

    async def run() -> None:
        notifier = Notifier(
            {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": USEC, "WATCHDOG_PID": str(os.getpid())}
        )
        services = {"one": Loop(), "two": Loop()}
        watchdog = Watchdog(notifier, services, touch, busy)
        tasks = [asyncio.ensure_future(each.run(lambda: None)) for each in (*services.values(), watchdog)]
        try:
            await story(services)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            notifier.close()

    asyncio.run(run())


async def prompt() -> None:
    """A writer that comes round at once."""


def test_services_that_wait_for_hours_are_proven_alive(tmp_path: Path, manager: Manager) -> None:
    """They are woken for it, again and again."""

    async def story(services: dict[str, Loop]) -> None:
        said = [await manager.next() for _ in range(10)]
        assert said == ["WATCHDOG=1"] * 10
        assert all(service.wake.rounds >= 4 for service in services.values())

    watched(tmp_path, prompt, story)


async def refused(manager: Manager, caplog: pytest.LogCaptureFixture, who: str) -> None:
    """It is said several times who does not come round, and the manager hears nothing any more."""
    message = f"the watchdog is not fed: {who} did not come round"

    async def said(times: int) -> None:
        await until(lambda: [record.getMessage() for record in caplog.records].count(message) >= times)

    await asyncio.wait_for(said(1), 30)
    manager.waiting()
    await asyncio.wait_for(said(4), 30)
    assert manager.waiting() == []


def test_one_service_that_hangs_ends_the_feeding(
    tmp_path: Path, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    """Although the other and the loop itself are well."""
    caplog.set_level(logging.ERROR)

    async def story(services: dict[str, Loop]) -> None:
        assert await manager.next() == "WATCHDOG=1"
        services["two"].hangs = True
        await refused(manager, caplog, "two")

    watched(tmp_path, prompt, story)


def test_a_writer_that_hangs_ends_the_feeding(
    tmp_path: Path, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    """And it begins again when the writer is back: a slow disk is not the end."""
    caplog.set_level(logging.ERROR)
    free = asyncio.Event()
    free.set()

    async def story(_services: dict[str, Loop]) -> None:
        assert await manager.next() == "WATCHDOG=1"
        free.clear()
        await refused(manager, caplog, "writer")
        free.set()
        assert await manager.next() == "WATCHDOG=1"

    watched(tmp_path, free.wait, story)


def test_a_writer_that_can_write_nothing_comes_round_all_the_same(tmp_path: Path, manager: Manager) -> None:
    """A full disk, or one that has become read-only, is not mended by a restart."""

    async def refused() -> None:
        raise Unavailable("the database cannot be written", hint="")

    async def story(_services: dict[str, Loop]) -> None:
        said = [await manager.next() for _ in range(10)]
        assert said == ["WATCHDOG=1"] * 10

    watched(tmp_path, refused, story)


def test_another_programs_lock_is_no_reason_to_be_killed(tmp_path: Path, manager: Manager) -> None:
    """The writer waits for it and says so; a restart would not help."""

    async def story(services: dict[str, Loop]) -> None:
        services["two"].hangs = True
        said = [await manager.next() for _ in range(10)]
        assert said == ["WATCHDOG=1"] * 10

    watched(tmp_path, asyncio.Event().wait, story, lambda: True)


def test_without_a_watchdog_nothing_is_sent(tmp_path: Path, manager: Manager) -> None:
    """Nor for another process's."""

    async def run() -> None:
        for more in ({}, {"WATCHDOG_USEC": USEC, "WATCHDOG_PID": "1"}):
            notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), **more})
            service = Loop()
            task = asyncio.ensure_future(Watchdog(notifier, {"one": service}, prompt, lambda: False).run(lambda: None))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not task.done()
            assert service.wake.rounds == 0
            task.cancel()
            notifier.close()

    asyncio.run(run())
    assert manager.waiting() == []
