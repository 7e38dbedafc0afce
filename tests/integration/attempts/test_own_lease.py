"""An attempt may last longer than any lease: the daemon's own end with it, and not by time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene, scene

LEASE_MS = 400
CONFIG = f'lease_ttl = "{LEASE_MS}ms"\nheartbeat = "100ms"\n'


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path, CONFIG) as playing:
        yield playing


def expiry(stage: Scene, quest: str) -> int:
    """When the running attempt's lease runs out, epoch ms."""
    found: int = stage.call("Quests.Get", id=quest)["quest"]["leaseExpiresAt"]
    return found


def test_work_that_goes_on_past_its_first_lease_is_not_started_twice(stage: Scene) -> None:
    """Heartbeats move the end of the lease; nobody takes age for death."""
    quest = stage.add(stage.held())
    assert stage.started.next() == "1"
    first = expiry(stage, quest)
    stage.until(quest, lambda shown: shown["quest"]["leaseExpiresAt"] > first + 2 * LEASE_MS)
    stage.hold.put()
    shown = stage.ended(quest)["quest"]
    assert (shown["state"], shown["attempts"], shown["refunds"]) == ("done", 1, 0)
    assert stage.evidence.runs(quest) == ["1"]
    stage.in_order()


def test_a_daemon_that_was_stopped_for_longer_than_a_lease_takes_nothing_back(stage: Scene) -> None:
    """As a laptop that slept: when it goes on, the healthy attempt is the one there is."""
    quest = stage.add(stage.held())
    assert stage.started.next() == "1"
    stage.signal(signal.SIGSTOP)
    try:
        stage.started.during(3 * LEASE_MS / 1000)
    finally:
        stage.signal(signal.SIGCONT)
    stopped = expiry(stage, quest)
    stage.until(quest, lambda shown: shown["quest"]["leaseExpiresAt"] > stopped)
    stage.hold.put()
    shown = stage.ended(quest)["quest"]
    assert (shown["state"], shown["attempts"], shown["refunds"]) == ("done", 1, 0)
    assert stage.evidence.runs(quest) == ["1"]
    stage.in_order()


def test_a_daemon_that_dies_again_and_again_does_not_run_its_work_for_ever(tmp_path: Path) -> None:
    """The bound on interruptions outlives every restart."""
    with scene(tmp_path, "max_interruptions = 2\n") as stage:
        quest = stage.add(stage.held())
        for number in range(3):
            while stage.started.next() != str(number + 1):
                pass
            stage.kill()
            stage.start()
        shown = stage.ended(quest)["quest"]
        assert (shown["state"], shown["failureKind"]) == ("failed", "interrupted")
        assert (shown["attempts"], shown["refunds"]) == (3, 3)
        assert stage.evidence.runs(quest) == ["1", "2", "3"]
        stage.in_order()
