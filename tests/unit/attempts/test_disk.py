"""Threads that look at a disk for somebody."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from questlined.attempts.disk import Disk, ForClients


def test_the_error_of_work_that_nobody_waits_for_is_none_of_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Its caller was given up meanwhile; the thread is free for the next one."""
    reached, go = threading.Event(), threading.Event()

    def fail() -> None:
        reached.set()
        go.wait()
        raise ValueError("no such directory")

    async def run() -> None:
        looking = ForClients(1)
        asked = asyncio.ensure_future(looking.do(fail))
        assert await asyncio.get_running_loop().run_in_executor(None, reached.wait, 30)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        go.set()
        assert await looking.do(lambda: 7) == 7
        looking.close()

    asyncio.run(run())
    gc.collect()
    assert caplog.records == []


def test_it_is_idle_when_nothing_is_done_not_even_for_nobody() -> None:
    """What was given up keeps its thread until it is over."""

    async def play() -> None:
        disk, go = Disk(1), threading.Event()
        await disk.idle()
        disk.begin(go.wait).cancel()
        waiting = asyncio.ensure_future(disk.idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        await waiting
        disk.close()

    asyncio.run(play())
