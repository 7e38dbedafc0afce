"""qlctl why"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from tests.acceptance.desk import Desk
from tests.integration.server.peer import until
from tests.support.daemon import SHELL, Daemon


def gates(desk: Desk, quest: str) -> dict[str, dict[str, Any]]:
    return {gate["gate"]: gate for gate in desk.json("why", quest)["gates"]}


def test_not_before_shows_the_gate_and_when_it_opens(desk: Desk) -> None:
    """+SPAN from the moment it was added; exact in JSON, local and relative for people."""
    quest = desk.add("true", "--not-before", "+2h 30min")
    stored = desk.quest(quest)
    gate = gates(desk, quest)["not-before"]
    assert gate["opensAt"] == stored["scheduledAt"]
    assert abs(stored["scheduledAt"] - stored["createdAt"] - 9_000_000) < 60_000
    out = desk.ok("why", quest)
    assert f"{quest} is queued and waits:" in out
    assert f"opens {datetime.fromtimestamp(gate['opensAt'] // 1000).isoformat(sep=' ')}" in out  # noqa: DTZ006
    assert "(in 2h)" in out


def test_a_time_that_comes_starts_it(desk: Desk) -> None:
    """Without anybody asking."""
    assert desk.json("add", "true", "--not-before", "+50ms", "--wait")["state"] == "done"


def test_dependency_lane_external_and_pause_are_named(desk: Desk) -> None:
    """Each with whom it waits for."""
    hold = desk.hold()
    running = desk.add(hold.task, "--lane", "git")
    hold.running()
    waiting = desk.add("true", "--lane", "git")
    dependent = desk.add("true", "--depends", f"{running},{waiting}")
    outside = desk.add("true", "--external")
    desk.ok("pause", "--reason", "lunch time")
    assert running in gates(desk, waiting)["lane"]["detail"]
    found = gates(desk, dependent)
    assert set(found) == {"dependency", "paused"}
    assert f"{running} (running)" in found["dependency"]["detail"]
    assert f"{waiting} (queued)" in found["dependency"]["detail"]
    assert found["paused"]["detail"].endswith("lunch time")
    assert set(gates(desk, outside)) == {"external", "paused"}
    desk.ok("resume")
    assert set(gates(desk, outside)) == {"external"}
    hold.release()


def test_a_quest_that_does_not_wait_has_no_gate(desk: Desk) -> None:
    """Its state is told instead."""
    quest = desk.add("exit 3")
    desk.ended(quest)
    assert desk.json("why", quest) == {"gates": []}
    assert desk.ok("why", quest) == f"{quest} is failed: exit code 3\n"


def test_limits_of_the_daemon_are_named(tmp_path: Path) -> None:
    """All slots, a role's and a project's."""
    config = SHELL + (
        "scheduler.max_concurrent = 2\nscheduler.project_concurrency = 1\nscheduler.role_concurrency.review = 1\n"
    )
    with Daemon(tmp_path, config) as daemon:
        desk, other = Desk(daemon, tmp_path / "one"), Desk(daemon, tmp_path / "two")
        hold, hers = desk.hold(), other.hold()
        desk.ok("add", "review", hold.task)
        hold.running()
        waiting = desk.add("true")
        assert set(gates(desk, waiting)) == {"project-concurrency"}
        review = other.ok("add", "review", "true", "--print-id").strip()
        assert set(gates(other, review)) == {"role-concurrency"}
        other.add(hers.task)
        hers.running()
        assert set(gates(desk, waiting)) == {"project-concurrency", "concurrency"}
        assert set(gates(other, review)) == {"role-concurrency", "project-concurrency", "concurrency"}
        hold.release()
        hers.release()
        assert [desk.ended(waiting)["state"], other.ended(review)["state"]] == ["done", "done"]
        desk.close()
        other.close()


def test_backoff_tells_when_the_next_attempt_is_due(tmp_path: Path) -> None:
    """From the quest's retryAt."""
    with Daemon(tmp_path, SHELL.replace('"100ms"', '"1h"')) as daemon:
        desk = Desk(daemon, daemon.project)
        quest = desk.add("exit 1", "--max-attempts", "2")
        with desk.peer() as peer:
            until(lambda: "retryAt" in peer.quest(quest))
        stored = desk.quest(quest)
        assert stored["state"] == "queued"
        assert gates(desk, quest)["backoff"]["opensAt"] == stored["retryAt"]
