"""One daemon for the tests that can share it, and a project and a connection of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import Peer
from tests.support.daemon import SHELL, Daemon


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose quests are shell commands; it ends well and never had a fault."""
    daemon = Daemon(tmp_path_factory.mktemp("server"), SHELL + "scheduler.max_concurrent = 32\n")
    with daemon:
        yield daemon
        assert daemon.stop() == 0
    assert "Traceback" not in daemon.log.read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new directory."""
    made = tmp_path / "project"
    made.mkdir()
    return made.resolve()


@pytest.fixture
def peer(server: Daemon, project: Path) -> Iterator[Peer]:
    """A connection, for that project."""
    with Peer(server.socket, str(project)) as connected:
        yield connected


@pytest.fixture
def hold(project: Path) -> Iterator[Hold]:
    """A task that runs until it is let go."""
    made = Hold(project)
    yield made
    made.close()
