"""qlctl recurring"""

from __future__ import annotations

import json
import sqlite3

import pytest

from tests.acceptance.desk import Desk
from tests.integration.server.peer import until

NEVER = "0 0 29 2 *"


def overdue(desk: Desk, rule: str) -> None:
    """As if the daemon had not looked since long ago."""
    db = sqlite3.connect(desk.daemon.state / "quests.sqlite", isolation_level=None)
    db.execute("UPDATE quest_recurrences SET next_run_at = 0 WHERE id = ?", (rule,))
    db.close()


def test_add_shows_the_next_five_times(desk: Desk) -> None:
    """By the clock here and by the rule's, with the zone."""
    out = desk.ok("recurring", "add", "nightly", "30 2 * * *", "look at it", "--zone", "Asia/Kathmandu", TZ="UTC")
    first, heads, *times = out.splitlines()
    assert first.split()[0].startswith("r-")
    assert first.endswith(f" nightly in {desk.key}")
    assert heads.split() == ["NEXT", "Asia/Kathmandu"]
    assert len(times) == 5
    for line in times:
        assert "20:45:00" in line
        assert "T02:30:00+05:45" in line


def test_json_is_the_rule(desk: Desk) -> None:
    options = ("--role", "review", "--priority", "-2", "--lane", "web", "--max-attempts", "0", "--timeout", "1h")
    made = desk.json("recurring", "add", "n", NEVER, "-", *options, "--catch-up", "all", stdin="from stdin\n")
    assert (made["task"], made["role"], made["priority"], made["lane"]) == ("from stdin\n", "review", -2, "web")
    assert (made["maxAttempts"], made["timeoutMs"], made["catchUp"]) == (0, 3_600_000, "all")
    assert len(made["upcoming"]) == 5
    shown = desk.json("recurring", "show", "n")
    assert shown == made
    listed = desk.json("recurring", "list")
    assert listed == [{key: value for key, value in made.items() if key != "upcoming"}]
    assert made["id"] in [rule["id"] for rule in desk.json("recurring", "list", "--all-projects")]


def test_rule_and_task_may_be_options(desk: Desk) -> None:
    """As in questline."""
    made = desk.json("recurring", "add", "n", "--cron", NEVER, "--timezone", "Europe/Berlin", "--task", "do it")
    assert (made["cron"], made["timezone"], made["task"]) == (NEVER, "Europe/Berlin", "do it")
    (desk.folder / "task.md").write_text("from a file\n")
    assert desk.json("recurring", "add", "f", NEVER, "--file", "task.md")["task"] == "from a file\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("add", "n"), ("argument is missing", "MINUTE HOUR DAY MONTH WEEKDAY")),
        (("add", "n", NEVER), ("argument is missing",)),
        (("add", "n", "0", "2", "*", "*", "*", "do it"), ("wants quotes",)),
        (("add", "n", "0 0 31 2 *", "t"), ("cron", "day 31")),
        (("add", "n", "*/90 * * * *", "t"), ("minute", "*/90")),
        (("add", "n", NEVER, "t", "--zone", "Berlin"), ("timezone", "Europe/Berlin")),
        (("add", "n", NEVER, "t", "--catch-up", "none"), ("catchUp", "one, all, skip")),
        (("add", "r-n", NEVER, "t"), ("name",)),
        (("add", "n", NEVER, "t", "--timeout", "soon"), ("--timeout",)),
        (("add", "n", NEVER, "--task", "t", "--file", "f"), ("--file and --task",)),
        (("list", "--zone", "UTC"), ("recurring list takes no --zone",)),
        (("lst",), ("'lst'", "did you mean list?")),
        (("show",), ("argument is missing", "qlctl recurring show NAME|ID")),
        ((), ("argument is missing",)),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(desk: Desk, arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    desk.refused("recurring", *arguments, says=says)
    assert desk.json("recurring", "list") == []


def test_fire_adds_what_is_due_once(desk: Desk) -> None:
    """And says so where nothing is, which is no failure."""
    rule = desk.json("recurring", "add", "n", NEVER, "echo fired")["id"]
    assert desk.ok("recurring", "fire", "n").startswith("nothing is due: n comes in ")
    desk.ok("recurring", "pause", "n")
    overdue(desk, rule)
    assert desk.ok("recurring", "fire", "n") == "nothing was added: n is paused\n"
    assert desk.json("recurring", "fire", rule)["held"] == "n is paused"
    assert desk.ok("recurring", "resume", "n") == "n: resumed\n"
    fired = desk.ok("recurring", "fire", rule)  # the calendar may have been first
    until(lambda: desk.count() == 1)
    (quest,) = desk.json("list")
    assert fired in (f"{quest['id']}\n", desk.ok("recurring", "fire", rule))
    assert desk.ended(quest["id"])["result"] == "fired\n"


def test_a_paused_project_makes_nothing_and_says_so(desk: Desk) -> None:
    """Nor does a resumed rule in it."""
    rule = desk.json("recurring", "add", "n", NEVER, "true")["id"]
    desk.ok("pause", "--reason", "holidays")
    overdue(desk, rule)
    assert desk.ok("recurring", "fire", "n") == f"nothing was added: project {desk.key} is paused: holidays\n"
    assert desk.count() == 0
    desk.ok("resume")
    until(lambda: desk.count() == 1)


def test_tables_are_for_people(desk: Desk) -> None:
    desk.ok("recurring", "add", "zz", NEVER, "second\nline")
    desk.ok("recurring", "add", "aa", "0 3 * * mon", "first", "--zone", "Europe/Berlin")
    desk.ok("recurring", "pause", "zz")
    heads, first, second = desk.ok("recurring", "list").splitlines()
    assert heads.split() == ["ID", "NAME", "NEXT", "LAST", "RULE", "ZONE", "TASK"]
    assert first.split()[1:3] == ["aa", "in"]
    assert first.endswith("-     0 3 * * mon  Europe/Berlin  first")
    assert second.split()[1:4] == ["zz", "paused", "-"]
    assert second.endswith("second")
    shown = desk.ok("recurring", "show", "zz")
    assert shown.splitlines()[0].endswith("zz  paused")
    assert "    second\n    line\n" in shown


def test_each_of_several_is_tried(desk: Desk) -> None:
    """The status is that of the first that was refused."""
    for name in ("a", "b"):
        desk.ok("recurring", "add", name, NEVER, "true")
    done = desk.run("recurring", "remove", "a", "gone", "b", "--json")
    assert done.returncode == 1
    assert [rule["name"] for rule in json.loads(done.stdout)] == ["a", "b"]
    assert "there is no recurring quest gone" in done.stderr
    assert desk.json("recurring", "list") == []
