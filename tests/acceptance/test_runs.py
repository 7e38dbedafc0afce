"""qlctl runs"""

from __future__ import annotations

from tests.acceptance.desk import Desk


def test_the_attempts_of_a_quest_oldest_first(desk: Desk) -> None:
    """Attempts count in the quest, run numbers in the project, without a gap."""
    first = desk.add("exit 1", "--max-attempts", "2")
    desk.ended(first)
    second = desk.add("true")
    desk.ended(second)
    desk.ok("retry", first)
    desk.ended(first)
    runs = desk.json("runs", first)
    assert [(run["id"], run["attempt"], run["number"], run["generation"]) for run in runs] == [
        (f"{first}/1", 1, 1, 1),
        (f"{first}/2", 2, 2, 2),
        (f"{first}/3", 3, 4, 3),
    ]
    assert [run["number"] for run in desk.json("runs", second)] == [3]
    assert {(run["outcome"], run["class"], run["exitCode"]) for run in runs} == {("failed", "failed", 1)}


def test_what_is_not_known_is_null_and_not_0(desk: Desk) -> None:
    """In JSON; people are not shown columns in which nothing is known."""
    quest = desk.add("true")
    desk.ended(quest)
    (run,) = desk.json("runs", quest)
    unknown = ("provider", "model", "turns", "tokens", "tokensInput", "tokensOutput", "costUsd", "sessionId")
    assert [run[key] for key in unknown] == [None] * len(unknown)
    heads, row = (line.split() for line in desk.ok("runs", quest).splitlines())
    assert row[:4] == ["1", "#1", "ok", "0"]
    assert not {"TURNS", "TOKENS", "COST"} & set(heads)


def test_a_signal_is_told(desk: Desk) -> None:
    """A program that kills itself was not stopped by us."""
    quest = desk.add("kill -SEGV $$")
    desk.ended(quest)
    (run,) = desk.json("runs", quest)
    assert (run["exitSignal"], run.get("exitCode"), run["class"]) == (11, None, "failed")
    assert "signal 11" in desk.ok("runs", quest)


def test_pages(desk: Desk) -> None:
    """All without a limit; with one, the cursor is the attempt last shown."""
    quest = desk.add("exit 1", "--max-attempts", "3")
    desk.ended(quest)
    page = desk.run("runs", quest, "--limit", "2")
    assert f"--cursor {quest}/2" in page.stderr
    assert [run["attempt"] for run in desk.json("runs", quest, "--cursor", f"{quest}/2")] == [3]
    assert len(desk.json("runs", quest)) == 3


def test_a_quest_that_never_ran_has_none(desk: Desk) -> None:
    """An empty array."""
    quest = desk.add("true", "--external")
    assert (desk.json("runs", quest), desk.ok("runs", quest)) == ([], "")
