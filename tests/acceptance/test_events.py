"""qlctl events"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk


def names(events: list[dict[str, object]]) -> list[object]:
    return [event["event"] for event in events]


def test_a_quests_story_newest_first(desk: Desk) -> None:
    """From enqueued to its end, numbered, with what belongs to each change."""
    quest = desk.add("exit 1", "--max-attempts", "2")
    desk.ended(quest)
    events = desk.json("events", quest)
    once = ["claimed", "agent_started"]
    assert names(events)[::-1] == ["enqueued", *once, "retry_scheduled", *once, "failed"]
    assert [event["seq"] for event in events] == sorted((event["seq"] for event in events), reverse=True)
    assert {event["questId"] for event in events} == {quest}
    assert events[0]["data"]["class"] == "failed"
    assert events[3]["data"]["retryAt"] > events[3]["at"]


def test_a_line_an_event(desk: Desk) -> None:
    """For people."""
    quest = desk.add("true", "--external")
    desk.ok("cancel", quest, "--reason", "no more")
    head, first, second = desk.ok("events", quest).splitlines()
    assert head.split() == ["SEQ", "TIME", "QUEST", "EVENT", "DATA"]
    assert "cancelled" in first
    assert '{"reason":"no more"}' in first
    assert "enqueued" in second


def test_of_the_project_or_of_all(desk: Desk, tmp_path: Path) -> None:
    """Another project's are not among this one's."""
    other = Desk(desk.daemon, tmp_path / "other")
    here, there = desk.add("a", "--external"), other.add("b", "--external")
    assert [event["questId"] for event in desk.json("events")] == [here]
    assert [event["questId"] for event in desk.json("events", "--project", other.key)] == [there]
    assert [event["questId"] for event in desk.json("events", "--all-projects", "--limit", "2")] == [there, here]
    other.close()


def test_pages(desk: Desk) -> None:
    """30, or --limit, and the cursor goes on where they end."""
    with desk.peer() as peer:
        quests = [peer.add(external=True) for _ in range(33)][::-1]
    first = desk.run("events")
    assert len(first.stdout.splitlines()) == 31
    cursor = first.stderr.split("--cursor ")[1].strip()
    assert [event["questId"] for event in desk.json("events", "--cursor", cursor)] == quests[30:]
    assert [event["questId"] for event in desk.json("events", "--limit", "4")] == quests[:4]


def test_follow_shows_what_happens(desk: Desk) -> None:
    """A line each, of this project, until a signal."""
    first = desk.add("true", "--external")
    following = desk.start("events", "--follow", "--after", "0")
    following.says("enqueued")
    desk.ok("cancel", first)
    following.says("cancelled")
    following.interrupt()
    status, out, err = following.end()
    lines = [line.split() for line in out.splitlines()]
    assert (status, err) == (130, "")
    assert [cells[:1] + cells[3:5] for cells in lines] == [
        ["SEQ", "EVENT", "DATA"],
        [lines[1][0], first, "enqueued"],
        [lines[2][0], first, "cancelled"],
    ]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_follow_goes_on_after_a_restart_and_misses_nothing(lone: Desk, how: str) -> None:
    """Nor does anything come twice."""
    following = lone.start("events", "--follow", "--json", "--after", "0")
    first = lone.add("true", "--external")
    following.says("enqueued")
    getattr(lone.daemon, how)()
    lone.daemon.start()
    lone.ok("cancel", first)
    following.says("cancelled")
    following.interrupt()
    status, out, err = following.end()
    events = [json.loads(line) for line in out.splitlines()]
    assert (status, err.count("is lost") < 2) == (130, True)  # told where it lasts
    assert [(event["questId"], event["event"]) for event in events] == [(first, "enqueued"), (first, "cancelled")]


def test_follow_of_one_quest(desk: Desk) -> None:
    """The others' events are left out."""
    first, second = desk.add("true", "--external"), desk.add("true", "--external")
    following = desk.start("events", second, "--follow", "--after", "0", "--json")
    desk.ok("cancel", first, second)
    following.says("cancelled")
    following.interrupt(signal.SIGTERM)
    status, out, _ = following.end()
    assert (status, {json.loads(line)["questId"] for line in out.splitlines()}) == (143, {second})


def test_follow_after_what_has_not_happened_is_refused(desk: Desk) -> None:
    """And what pages does not go with it."""
    desk.refused("events", "--follow", "--after", "999999999", says=("after",))
    desk.refused("events", "--follow", "--limit", "3", says=("--limit",))
