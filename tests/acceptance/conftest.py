"""One daemon for the tests that can share it, and a project of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk
from tests.support.daemon import SHELL, Daemon

MANY = SHELL + 'scheduler.max_concurrent = 32\nexecutors.missing.command = ["no-such-program-here"]\n'


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose quests are shell commands; it ends well and never had a fault."""
    daemon = Daemon(tmp_path_factory.mktemp("shared"), MANY)
    with daemon:
        yield daemon
        assert daemon.stop() == 0
    assert "Traceback" not in daemon.log.read_text()


@pytest.fixture
def desk(shared: Daemon, tmp_path: Path) -> Iterator[Desk]:
    """qlctl in a project of this test's own."""
    made = Desk(shared, tmp_path / "project")
    yield made
    made.close()


@pytest.fixture
def lone(daemon: Daemon) -> Iterator[Desk]:
    """qlctl with a daemon of its own, which a test may kill."""
    made = Desk(daemon, daemon.project)
    yield made
    made.close()
