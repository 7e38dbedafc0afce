"""Fixtures of the fault tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.replacing import Running


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    scene = Running(tmp_path)
    try:
        scene.start()
        yield scene
    finally:
        scene.close()
