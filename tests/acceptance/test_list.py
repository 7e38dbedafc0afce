"""qlctl list"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.desk import Desk


def ids(quests: list[dict[str, object]]) -> list[object]:
    return [quest["id"] for quest in quests]


def test_a_row_a_quest_newest_first(desk: Desk) -> None:
    """With state, role, priority and attempts."""
    first = desk.add("exit 1", "--max-attempts", "2", "--priority", "4")
    desk.ended(first)
    second = desk.ok("add", "review", "look", "--external", "--print-id", "--lane", "git").strip()
    head, *rows = desk.ok("list").splitlines()
    assert head.split() == ["ID", "STATE", "ROLE", "PRI", "ATTEMPTS", "AGE", "LANE", "TASK"]
    assert [row.split()[:5] for row in rows] == [
        [second, "queued", "review", "0", "0"],
        [first, "failed", "default", "4", "2/2"],
    ]
    assert rows[0].split()[-2:] == ["git", "look"]


@pytest.mark.parametrize("verb", ["list", "stat"])
def test_json_is_an_array_of_quests(desk: Desk, verb: str) -> None:
    """`stat` is another name of it; long texts are shortened to 200 characters."""
    quest = desk.add("x" * 1000, "--external")
    (found,) = desk.json(verb)
    assert (found["id"], len(found["task"])) == (quest, 200)


def test_without_quests_there_is_nothing_to_print(desk: Desk) -> None:
    """An empty array with --json."""
    done = desk.run("list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert desk.json("list") == []


def test_30_without_a_limit_and_the_cursor_of_the_rest(desk: Desk) -> None:
    """Followed, every quest comes once."""
    with desk.peer() as peer:
        every = [peer.add(external=True) for _ in range(35)][::-1]
    first = desk.run("list")
    assert [row.split()[0] for row in first.stdout.splitlines()[1:]] == every[:30]
    cursor = first.stderr.split("--cursor ")[1].strip()
    assert ids(desk.json("list", "--cursor", cursor)) == every[30:]
    assert ids(desk.json("list", "--limit", "7")) == every[:7]
    assert ids(desk.json("list", "--limit", "7", "--cursor", every[6])) == every[7:14]
    assert ids(desk.json("list", "--limit", "1000")) == every


def test_filters_narrow_it_down(desk: Desk) -> None:
    """State, role and lane, alone and together."""
    done = desk.ok("add", "review", "true", "--wait", "--print-id").strip()
    failed = desk.add("exit 1", "--lane", "git")
    desk.ended(failed)
    queued = desk.ok("add", "review", "true", "--external", "--lane", "git", "--print-id").strip()
    assert ids(desk.json("list", "--state", "done")) == [done]
    assert ids(desk.json("list", "--state", "done,failed")) == [failed, done]
    assert ids(desk.json("list", "--state", "done", "--state", "queued")) == [queued, done]
    assert ids(desk.json("list", "--role", "review")) == [queued, done]
    assert ids(desk.json("list", "--lane", "git")) == [queued, failed]
    assert ids(desk.json("list", "--lane", "git", "--role", "review", "--state", "queued")) == [queued]
    assert desk.json("list", "--role", "nobody") == []


def test_a_project_lists_its_own_and_all_projects_every(desk: Desk, tmp_path: Path) -> None:
    """--project names another, by directory; --all-projects says whose a quest is."""
    other = Desk(desk.daemon, tmp_path / "other")
    here, there = desk.add("a", "--external"), other.add("b", "--external")
    assert ids(desk.json("list")) == [here]
    assert ids(desk.json("list", "--project", str(other.folder))) == [there]
    assert ids(desk.json("list", "--project", "../other/")) == [there]
    assert ids(desk.json("list", "--all-projects", "--limit", "2")) == [there, here]
    rows = desk.ok("list", "--all-projects", "--limit", "2").splitlines()
    assert [other.key in rows[1], desk.key in rows[2]] == [True, True]
    other.close()


def test_what_a_task_holds_moves_no_terminal(desk: Desk) -> None:
    """Control characters are shown, not sent; a row is one line."""
    desk.add("a\x1b[2Jb\rc\nd", "--external")
    out = desk.ok("list")
    assert "\x1b" not in out
    assert "\r" not in out
    assert len(out.splitlines()) == 2
