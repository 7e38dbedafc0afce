"""What the tests of processes share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.procs.fake_bus import FakeBus, Scene, usual


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def run(scene: Scene, answer: Callable[..., Any] = usual) -> None:
        async def main() -> None:
            fake = FakeBus(tmp_path / "bus", answer)
            serving = asyncio.get_running_loop().create_task(fake.serve())
            try:
                async with asyncio.timeout(20):
                    await scene(fake)
            finally:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving
                for link in (fake.listening, *fake.links):
                    link.close()

        asyncio.run(main())

    return run
