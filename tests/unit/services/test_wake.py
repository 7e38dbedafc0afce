"""A wake-up that can be counted."""

from __future__ import annotations

import asyncio

from questlined.services.service import Wake


def test_each_time_a_loop_comes_to_wait_is_a_round() -> None:
    """Any number of wake-ups before that are one, and none is lost."""

    async def run() -> None:
        wake = Wake()
        seen: list[int] = []

        async def loop() -> None:
            while True:
                seen.append(wake.rounds)
                await wake.wait()

        task = asyncio.ensure_future(loop())
        await turns()
        assert (seen, wake.rounds) == ([0], 1)
        for _ in range(3):
            wake.set()
        await turns()
        assert (seen, wake.rounds) == ([0, 1], 2)
        wake.set()
        await turns()
        assert wake.rounds == 3
        task.cancel()

    asyncio.run(run())


def test_what_happened_before_the_wait_counts() -> None:
    async def run() -> None:
        wake = Wake()
        wake.set()
        await wake.wait()
        assert wake.rounds == 1
        await wake.wait(0)  # and only once: without a bound, this one would wait for ever
        assert wake.rounds == 2

    asyncio.run(run())


def test_a_wait_is_bounded() -> None:
    """0 is at once; the next one waits anew."""

    async def run() -> None:
        wake = Wake()
        for _ in range(3):
            await wake.wait(0)
        assert wake.rounds == 3

    asyncio.run(run())


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
