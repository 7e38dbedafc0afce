"""qlctl health"""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.desk import Desk
from tests.integration.server.peer import until
from tests.support.daemon import SHELL, Daemon

STATES = ["queued", "running", "interrupted", "blocked", "done", "failed", "cancelled"]


def test_all_seven_states_are_counted(desk: Desk) -> None:
    """Zeros included; of this project, or of all."""
    done, failed, off = desk.add("true"), desk.add("exit 1"), desk.add("true", "--external")
    for quest in (done, failed):
        desk.ended(quest)
    desk.ok("cancel", off)
    health = desk.json("health")
    assert (health["ok"], health["problems"]) == (True, [])
    assert list(health["counts"]) == STATES
    assert health["counts"] == dict.fromkeys(STATES, 0) | {"done": 1, "failed": 1, "cancelled": 1}
    every = desk.json("health", "--all-projects")["counts"]
    assert all(every[state] >= count for state, count in health["counts"].items())


def test_a_line_for_people(desk: Desk) -> None:
    """The verdict, then the counts."""
    first, second = desk.ok("health").splitlines()
    assert first.endswith(": all is well")
    assert second.split()[::2] == STATES


def test_a_disk_that_is_nearly_full_is_a_problem(tmp_path: Path) -> None:
    """1, with what and what to do; claims wait, and why says so."""
    with Daemon(tmp_path, SHELL + 'disk.min_free_bytes = "1000TiB"\n') as daemon:
        quest = daemon.add("true")
        desk = Desk(daemon, daemon.project)
        assert [gate["gate"] for gate in desk.json("why", quest)["gates"]] == ["disk"]
        done = desk.run("health")
        assert done.returncode == 1
        assert "problems: 1" in done.stdout
        assert "disk.min_free_bytes" in done.stdout
        told = daemon.json("health", check=False)
        assert told["ok"] is False
        assert all(problem["what"] and problem["hint"] for problem in told["problems"])


def test_a_directory_that_is_gone_is_a_problem_and_its_quest_waits(tmp_path: Path) -> None:
    """Health and why name the path, no attempt is charged, and the project can still be looked at and steered."""
    with Daemon(tmp_path) as daemon:
        desk, gone = Desk(daemon, daemon.project), Desk(daemon, tmp_path / "checkout")
        desk.ok("pause", "--all")
        quest = gone.add("true", "--max-attempts", "1")
        gone.folder.rmdir()
        desk.ok("resume", "--all")
        with desk.peer() as peer:
            until(lambda: peer.quest(quest)["attempts"] == 1 and peer.quest(quest)["state"] == "queued")
        stored = desk.quest(quest)
        assert (stored["refunds"], stored["maxAttempts"] - stored["refunds"]) == (1, 1)
        (gate,) = desk.json("why", quest)["gates"]
        assert gate["gate"] == "path"
        assert gone.key in gate["detail"]
        done = desk.run("health")
        assert done.returncode == 1
        assert f"the path of project {gone.key} is gone" in done.stdout
        assert [each["id"] for each in desk.json("list", "--project", gone.key)] == [quest]
        assert desk.json("pause", "--project", f"{gone.folder}/")["key"] == gone.key
        assert desk.json("cancel", quest)["state"] == "cancelled"
