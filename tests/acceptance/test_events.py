"""qlctl events"""

from __future__ import annotations

from pathlib import Path

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
