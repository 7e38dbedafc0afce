"""kill -9 of a daemon that has a cgroup for each attempt, and no service manager to clean up after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from questlined.procs import procfs
from tests.support.cgroups import enclosures
from tests.support.daemon import SHELL, Daemon
from tests.support.evidence import Fifo

KEEPS = '[executors.server]\ncommand = ["sh", "-c", "{task}"]\nkeep_children = true\n'


@pytest.fixture
def enclosure(tmp_path: Path) -> Iterator[Callable[[], str]]:
    with enclosures(tmp_path) as another:
        yield another


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Fifo]:
    fifo = Fifo(tmp_path / "told")
    yield fifo
    fifo.close()


def alive(pid: int) -> bool:
    seen = procfs.stat(pid)
    return seen is not None and not seen.dead


def leaves(told: Fifo, then: str) -> str:
    """A task that leaves a process without session, environment and parent of the attempt's; it tells its pid."""
    return f"(env -i setsid sh -c 'echo $$ >\"{told.path}\"; exec sleep 1000' &); {then}"


def test_what_left_everything_behind_dies_with_the_attempt_of_a_killed_daemon(
    tmp_path: Path, enclosure: Callable[[], str], told: Fifo
) -> None:
    daemon = Daemon(tmp_path)
    daemon.interpreter = enclosure()
    daemon.start()
    try:
        quest = daemon.add(f"[ -e ../again ] || {{ touch ../again; {leaves(told, 'exec sleep 1000')}; }}")
        left = int(told.next())
        daemon.qlctl("cancel", daemon.add("true"), check=False)  # what it was started as shares a commit with this
        daemon.kill()
        assert alive(left)
        daemon.interpreter = enclosure()
        daemon.start()
        assert not alive(left)
        daemon.qlctl("wait", quest)
    finally:
        daemon.stop()


def test_what_an_executor_keeps_outlives_attempt_and_daemon(
    tmp_path: Path, enclosure: Callable[[], str], told: Fifo
) -> None:
    daemon = Daemon(tmp_path, SHELL + KEEPS)
    daemon.interpreter = enclosure()
    daemon.start()
    try:
        daemon.qlctl("wait", daemon.add(leaves(told, "exit 0"), "server"))
        kept = int(told.next())
        daemon.qlctl("wait", daemon.add("true"))
        assert alive(kept)
        daemon.kill()
        daemon.start()
        assert alive(kept)
    finally:
        daemon.stop()
