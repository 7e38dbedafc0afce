"""What runs at one time, where it runs, and what it waits for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.integration.attempts.scene import Scene, scene

CONFIG = """
scheduler.max_concurrent = 4
scheduler.role_concurrency = {shy = 1, pair = 2}
lanes.wide.slots = 2
executors.where.command = ["sh", "-c", "{task}", "sh", "{project}"]
"""
LIMITS = {"role": {"shy": 1, "pair": 2}}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("queue"), CONFIG) as playing:
        yield playing


@pytest.mark.parametrize(
    ("role", "lane", "most", "gate"),
    [
        ("default", None, 4, "concurrency"),
        ("shy", None, 1, "role-concurrency"),
        ("pair", None, 2, "role-concurrency"),
        ("default", "narrow", 1, "lane"),
        ("default", "wide", 2, "lane"),
    ],
)
def test_no_more_run_than_may(stage: Scene, role: str, lane: str | None, most: int, gate: str) -> None:
    """Of all, of a role, or of a lane; a free slot is taken as soon as there is one."""
    name = f"{role}-{lane}"
    task = stage.held(after=f"( {stage.evidence.within(name, most, 'git --version >/dev/null')} )")
    more = {"lane": lane} if lane else {}
    quests = [
        stage.call("Quests.Add", directory=str(stage.project), task=task, role=role, **more)["quest"]["id"]
        for _ in range(most + 3)
    ]
    for _ in range(most):
        stage.started.next()
    for _ in range(3):
        states = [stage.call("Quests.Get", id=quest)["quest"]["state"] for quest in quests]
        assert states.count("running") == most
        waiting = quests[len(states) - 1 - states[::-1].index("queued")]
        assert gate in [each["gate"] for each in stage.call("Quests.Why", id=waiting)["gates"]]
        stage.hold.put()
        stage.started.next()
    stage.hold.put(most)
    assert {stage.ended(quest)["quest"]["state"] for quest in quests} == {"done"}
    stage.in_order(**LIMITS)


def test_lanes_and_roles_are_kept_by_evidence(stage: Scene) -> None:
    """Many short quests of all kinds: at no time too many of one kind, as their own locks tell."""
    kinds = [
        ("shy", None, 1),
        ("pair", None, 2),
        ("default", "narrow", 1),
        ("default", "wide", 2),
        ("default", None, 4),
    ]
    quests = []
    for number in range(60):
        role, lane, most = kinds[number % len(kinds)]
        work = stage.evidence.within(f"{role}.{lane}", most, "git --version >/dev/null; git --version >/dev/null")
        more = {"lane": lane} if lane else {}
        added = stage.call("Quests.Add", directory=str(stage.project), task=work, role=role, **more)
        quests.append(added["quest"]["id"])
    assert {stage.ended(quest)["quest"]["state"] for quest in quests} == {"done"}
    stage.in_order(**LIMITS)


def test_one_directory_is_one_project_however_it_is_written(stage: Scene) -> None:
    """With spaces, through a symlink, with a trailing slash, from below by way of `..`."""
    real = stage.folder / "with  two spaces"
    (real / "below").mkdir(parents=True)
    link = stage.folder / "link"
    link.symlink_to(real)
    ways = [str(real), f"{real}/", str(link), f"{link}/", f"{real}/below/..", f"{real}/./"]
    quests = [stage.qlctl("add", "--print-id", "--project", way, "pwd").stdout.strip() for way in ways]
    quests.append(stage.qlctl("add", "--print-id", "pwd", cwd=link).stdout.strip())
    shown = [stage.ended(quest)["quest"] for quest in quests]
    assert {quest["project"] for quest in shown} == {str(real)}
    assert {quest["result"] for quest in shown} == {f"{real}\n"}
    assert len(stage.json("list", "--project", str(link))) == len(quests)


def test_a_quest_waits_for_a_directory_that_is_gone(stage: Scene) -> None:
    """It says so, nothing is charged, and no other project waits with it."""
    gone = stage.folder / "gone"
    gone.mkdir()
    stage.qlctl("pause", cwd=gone)
    quest = stage.qlctl("add", "--print-id", "--max-attempts", "1", "pwd", cwd=gone).stdout.strip()
    gone.rmdir()
    stage.qlctl("resume", "--project", f"{gone}/")
    shown = stage.until(quest, lambda seen: seen["quest"]["attempts"] == 1 and seen["quest"]["state"] == "queued")
    assert (shown["quest"]["refunds"], shown["runs"][0]["class"]) == (1, "released")
    gates = stage.call("Quests.Why", id=quest)["gates"]
    assert [(gate["gate"], str(gone) in gate["detail"]) for gate in gates] == [("path", True)]
    assert stage.qlctl("health", check=False).returncode == 1
    assert stage.run("true")["quest"]["state"] == "done"
    stage.qlctl("cancel", quest)
    stage.in_order(**LIMITS)
    gone.mkdir()


def test_a_file_where_the_directory_was_is_a_directory_gone(stage: Scene) -> None:
    """And is not executed in."""
    place = stage.folder / "turned"
    place.mkdir()
    stage.qlctl("pause", cwd=place)
    quest = stage.qlctl("add", "--print-id", "pwd", cwd=place).stdout.strip()
    place.rmdir()
    place.touch()
    stage.qlctl("resume", "--project", f"{place}/", check=False)
    stage.call("Projects.Resume", project=str(place))
    stage.until(quest, lambda seen: seen["quest"]["attempts"] == 1 and seen["quest"]["state"] == "queued")
    assert [gate["gate"] for gate in stage.call("Quests.Why", id=quest)["gates"]] == ["path"]
    stage.qlctl("cancel", quest)
    os.unlink(place)


@pytest.mark.parametrize(
    "name", ["-rf", 'it\'s "quoted"', "$(id) `id`", "100% {task} {}", "a;b|c&d", "ümläut \u202ertl"]
)
def test_a_directory_of_any_name_is_where_its_quests_run(stage: Scene, name: str) -> None:
    """Nothing in it is expanded, neither in argv nor in what the quest is told."""
    place = stage.folder / name
    place.mkdir()
    quest = stage.qlctl("add", "--print-id", "--", "where", 'printf %s "$1|$QUESTLINE_PROJECT|"; pwd', cwd=place)
    shown = stage.ended(quest.stdout.strip())["quest"]
    assert (shown["project"], shown["result"]) == (str(place), f"{place}|{place}|{place}\n")
    assert [each["id"] for each in stage.json("list", cwd=place)] == [shown["id"]]
