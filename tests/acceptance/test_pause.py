"""qlctl pause and resume"""

from __future__ import annotations

from tests.acceptance.desk import Desk
from tests.support.daemon import Daemon


def test_a_paused_project_starts_nothing_and_what_runs_goes_on(desk: Desk) -> None:
    """Resume starts what waited."""
    hold = desk.hold()
    running = desk.add(hold.task)
    hold.running()
    assert desk.ok("pause") == f"{desk.key}: paused; running quests go on\n"
    waiting = desk.add(hold.task)
    hold.release("kept")
    assert desk.ended(running)["result"] == "kept"
    assert (desk.quest(waiting)["state"], hold.started()) == ("queued", False)
    assert desk.ok("resume") == f"{desk.key}: resumed\n"
    hold.running()
    hold.release()
    assert desk.ended(waiting)["state"] == "done"


def test_json_is_the_project(desk: Desk) -> None:
    """With its counts; it is made if it is new."""
    told = desk.json("pause", "--summary", "lunch")
    assert (told["key"], told["paused"], told["pausedReason"]) == (desk.key, True, "lunch")
    assert set(told["counts"].values()) == {0}
    assert len(told["counts"]) == 7
    told = desk.json("resume")
    assert told["paused"] is False
    assert "pausedReason" not in told


def test_a_paused_project_gives_nothing_to_workers_either(desk: Desk) -> None:
    """Though another project does."""
    desk.add("true", "--external")
    desk.ok("pause")
    with desk.peer() as peer:
        answer = peer.raw("io.questline.Leases.Claim", {"directory": desk.key})
        assert answer["error"] == "io.questline.NothingToClaim"
        desk.ok("resume")
        assert peer.claim()["quest"]["state"] == "running"


def test_pauses_of_project_and_daemon_are_two_and_outlive_a_restart(daemon: Daemon) -> None:
    """Each is lifted by its own resume only; a pause again, without a reason, keeps the one that was given."""
    desk = Desk(daemon, daemon.project)
    assert desk.ok("pause", "--all", "--reason", "upgrade") == "the whole daemon: paused; running quests go on\n"
    assert desk.json("pause", "--all") == {"all": True, "paused": True}
    desk.ok("pause")
    quest = desk.add("true")
    daemon.stop()
    daemon.start()
    gates = desk.json("why", quest)["gates"]
    assert [gate["gate"] for gate in gates] == ["paused", "paused"]
    desk.ok("resume")
    assert [gate["detail"] for gate in desk.json("why", quest)["gates"]] == ["the whole daemon is paused: upgrade"]
    assert desk.json("health")["paused"] == ["the whole daemon is paused: upgrade"]
    assert desk.json("version")["daemon"]["paused"] is True
    desk.ok("resume", "--all")
    assert desk.json("health")["paused"] == []
    assert desk.ended(quest)["state"] == "done"


def test_a_resume_makes_no_project(daemon: Daemon) -> None:
    """A name that is not there is no success."""
    desk = Desk(daemon, daemon.project)
    refused = daemon.qlctl("--project", "nobody", "resume", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no project name:nobody" in refused.stderr
    assert desk.ok("--project", "nobody", "pause")
    assert desk.ok("--project", "nobody", "resume")
