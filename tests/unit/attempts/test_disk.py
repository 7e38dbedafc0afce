"""Threads that look at a disk for somebody."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from questlined.attempts.disk import ForClients


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
