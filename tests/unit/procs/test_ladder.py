"""Waiting for what does not die."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from questlined.procs.child import Child
from questlined.procs.ladder import until_gone


def child() -> Child:
    return Child(pid=10, pidfd=-1, started=0, marker="s:q:1", popen=cast(Any, None))


def test_what_does_not_die_is_named_once_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        held, gone, stays = child(), asyncio.Event(), asyncio.Event()
        gone.set()
        waiting = asyncio.create_task(until_gone(held, [(11, gone), (12, stays)], 0))
        async with asyncio.timeout(10):
            while not held.stuck:  # noqa: ASYNC110  the list is what is shown, and tells nobody
                await asyncio.sleep(0)
        assert held.stuck == [12]
        assert not waiting.done()
        stays.set()
        await waiting
        assert held.stuck == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    assert [record.getMessage() for record in caplog.records] == ["killed processes do not end: 12, waiting"]


def test_what_dies_in_time_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        gone = asyncio.Event()
        asyncio.get_running_loop().call_soon(gone.set)
        await until_gone(held := child(), [(11, gone)], 1000)
        assert held.stuck == []

    asyncio.run(play())
    assert caplog.records == []
