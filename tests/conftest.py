"""Fixtures that every tier may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A running daemon whose quests are shell commands."""
    with Daemon(tmp_path) as running:
        yield running
