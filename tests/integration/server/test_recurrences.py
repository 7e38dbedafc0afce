"""io.questline.Recurrences on the wire."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from tests.integration.server.peer import MANAGER, QUESTS, Peer, Refused, until
from tests.support.daemon import Daemon

RULES = "io.questline.Recurrences."
NEVER = "0 0 29 2 *"  # that is, not while the tests run


def add(peer: Peer, name: str = "nightly", cron: str = NEVER, **parameters: Any) -> dict[str, Any]:
    asked = {"name": name, "cron": cron, "task": "true", "directory": peer.directory} | parameters
    return peer.call(RULES + "Add", **asked)


def steer(peer: Peer, method: str, rule: str, **parameters: Any) -> dict[str, Any]:
    return peer.call(RULES + method, **({"id": rule, "directory": peer.directory} | parameters))


def behind(daemon: Daemon, rule: str, **columns: object) -> None:
    """What another program, or time, makes of a rule's row."""
    db = sqlite3.connect(daemon.state / "quests.sqlite", isolation_level=None)
    for column, value in columns.items():
        db.execute(f"UPDATE quest_recurrences SET {column} = ? WHERE id = ?", (value, rule))
    db.close()


def test_a_rule_is_made_with_its_next_times(peer: Peer) -> None:
    """In UTC by default, each once missed made up for by one."""
    reply = add(peer, cron=" 0  0 29 2 * ")
    rule, upcoming = reply["recurrence"], reply["upcoming"]
    assert rule["id"].startswith("r-")
    assert len(rule["id"]) == 14
    told = {key: rule[key] for key in ("project", "name", "cron", "timezone", "role", "task", "catchUp", "enabled")}
    assert told == {
        "project": peer.directory,
        "name": "nightly",
        "cron": NEVER,
        "timezone": "UTC",
        "role": "default",
        "task": "true",
        "catchUp": "one",
        "enabled": True,
    }
    assert (rule["priority"], rule["maxAttempts"], rule["external"]) == (0, 1, False)
    assert not {"lastEnqueuedAt", "context", "lane", "timeoutMs"} & rule.keys()
    assert len(upcoming) == 5
    assert rule["nextRunAt"] == upcoming[0]["at"]
    assert {time["local"][4:] for time in upcoming} == {"-02-29T00:00:00+00:00"}


def test_a_rule_has_what_its_quests_get(peer: Peer) -> None:
    given = {
        "timezone": "Asia/Kathmandu",
        "role": "review",
        "context": "c",
        "priority": 3,
        "maxAttempts": 4,
        "timeoutMs": 5000,
        "lane": "web",
        "external": True,
        "catchUp": "all",
    }
    rule = add(peer, **given)["recurrence"]
    assert {key: rule[key] for key in given} == given


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"name": "two words"}, "name"),
        ({"name": "r-1"}, "name"),
        ({"cron": "@daily"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": "0 0 * * *\0"}, "cron"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"catchUp": "some"}, "catchUp"),
        ({"task": " "}, "task"),
        ({"task": "x" * 1024 * 1024}, "task"),
        ({"role": "no role"}, "role"),
        ({"lane": ""}, "lane"),
        ({"maxAttempts": -1}, "maxAttempts"),
        ({"timeoutMs": 0}, "timeoutMs"),
        ({"directory": "/no/such/directory"}, "directory"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(peer: Peer, parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        add(peer, **parameters)
    assert refusal.value.name == "io.questline.InvalidInput"
    assert refusal.value.parameters["field"] == field
    assert refusal.value.parameters["hint"]
    assert peer.call(RULES + "List", directory=peer.directory)["recurrences"] == []


def test_a_rule_is_known_by_id_prefix_and_name(peer: Peer, server: Daemon) -> None:
    """The name in its project only, the id everywhere."""
    rule = add(peer)["recurrence"]["id"]
    for text in ("nightly", rule, rule[:13]):
        assert steer(peer, "Get", text)["recurrence"]["id"] == rule
    assert steer(peer, "Get", rule, directory="/")["recurrence"]["id"] == rule
    assert peer.call(RULES + "Get", id=rule)["recurrence"]["id"] == rule
    for text, where in (("nightly", "/"), ("weekly", peer.directory), ("r-nope", peer.directory), ("x" * 999, "/")):
        with pytest.raises(Refused) as refusal:
            steer(peer, "Get", text, directory=where)
        assert refusal.value.name == "io.questline.NotFound"
    with pytest.raises(Refused) as refusal:
        add(peer)
    assert "nightly already" in refusal.value.parameters["message"]


def test_a_doubled_name_of_another_program_asks_for_the_id(peer: Peer, server: Daemon) -> None:
    first, second = (add(peer, name)["recurrence"]["id"] for name in ("one", "two"))
    behind(server, second, name="one")
    with pytest.raises(Refused) as refusal:
        steer(peer, "Fire", "one")
    assert refusal.value.name == "io.questline.Ambiguous"
    assert set(refusal.value.parameters["candidates"]) == {first, second}


def test_the_calendar_adds_what_is_due_by_itself(peer: Peer, server: Daemon) -> None:
    """Woken by the rule's own change; the quest runs like any other."""
    rule = add(peer, cron="* * * * *", task="echo by the clock")["recurrence"]
    steer(peer, "Pause", rule["id"])
    behind(server, rule["id"], next_run_at=rule["nextRunAt"] - 3_600_000)
    steer(peer, "Resume", rule["id"])
    until(lambda: peer.total() > 0)
    steer(peer, "Pause", rule["id"])
    (quest, *_) = peer.call(QUESTS + "List", directory=peer.directory)["quests"]
    assert (quest["name"], quest["recurrenceId"]) == ("nightly", rule["id"])
    assert quest["occurrenceAt"] % 60_000 == 0
    assert peer.ended(quest["id"])["result"] == "by the clock\n"


def test_fire_beside_the_calendar_adds_one(peer: Peer, server: Daemon) -> None:
    """Whoever comes first; the other finds nothing due."""
    rule = add(peer)["recurrence"]
    steer(peer, "Pause", "nightly")
    behind(server, rule["id"], next_run_at=1_700_000_000_000)
    held = steer(peer, "Fire", "nightly")
    assert (held["quests"], held["held"]) == ([], "nightly is paused")
    steer(peer, "Resume", "nightly")
    steer(peer, "Fire", "nightly")
    again = steer(peer, "Fire", "nightly")
    assert again["quests"] == []
    assert "held" not in again
    assert again["recurrence"]["nextRunAt"] == rule["nextRunAt"]
    assert peer.total() == 1


def test_pause_resume_and_remove_tell_the_rule(peer: Peer) -> None:
    """Each may be repeated; a removed one is gone."""
    rule = add(peer)["recurrence"]
    for _ in range(2):
        assert steer(peer, "Pause", "nightly")["recurrence"]["enabled"] is False
    for _ in range(2):
        assert steer(peer, "Resume", "nightly")["recurrence"]["enabled"] is True
    assert steer(peer, "Remove", "nightly")["recurrence"]["id"] == rule["id"]
    with pytest.raises(Refused) as refusal:
        steer(peer, "Remove", "nightly")
    assert refusal.value.name == "io.questline.NotFound"
    add(peer)


def test_a_repeated_request_makes_one_rule(peer: Peer) -> None:
    first = add(peer, requestId="once")
    assert add(peer, requestId="once") == first
    with pytest.raises(Refused) as refusal:
        add(peer, name="other", requestId="once")
    assert refusal.value.name == "io.questline.Conflict"


def test_a_repeated_removal_answers_as_the_first(peer: Peer) -> None:
    """By name, too, which means nothing any more, or another rule by now."""
    add(peer)
    first = steer(peer, "Remove", "nightly", requestId="removal")
    assert steer(peer, "Remove", "nightly", requestId="removal") == first
    other = add(peer)["recurrence"]
    assert steer(peer, "Remove", "nightly", requestId="removal") == first
    assert steer(peer, "Get", "nightly")["recurrence"] == other
    with pytest.raises(Refused) as refusal:
        steer(peer, "Remove", "weekly", requestId="another")
    assert refusal.value.name == "io.questline.NotFound"
    assert refusal.value.parameters["id"] == "weekly"


def test_a_repeated_add_of_a_rule_that_is_gone_tells_its_id(peer: Peer) -> None:
    first = add(peer, requestId="made")["recurrence"]["id"]
    steer(peer, "Remove", first)
    assert add(peer, requestId="made")["recurrence"]["id"] == first
    assert peer.call(RULES + "List", directory=peer.directory)["recurrences"] == []


def test_rules_are_listed_in_pages(peer: Peer) -> None:
    """By name; of all projects where that is asked for."""
    for name in ("c", "a", "b"):
        add(peer, name, task="x" * 1000)
    first = peer.call(RULES + "List", directory=peer.directory, limit=2)
    assert [rule["name"] for rule in first["recurrences"]] == ["a", "b"]
    assert {len(rule["task"]) for rule in first["recurrences"]} == {200}
    rest = peer.call(RULES + "List", directory=peer.directory, limit=2, cursor=first["next"])
    assert [rule["name"] for rule in rest["recurrences"]] == ["c"]
    assert "next" not in rest
    everything = peer.call(RULES + "List", allProjects=True, limit=1000)["recurrences"]
    assert {rule["id"] for rule in (*first["recurrences"], *rest["recurrences"])} <= {rule["id"] for rule in everything}
    with pytest.raises(Refused):
        peer.call(RULES + "List", directory=peer.directory, cursor="r-nope")


def test_a_timer_is_rendered(peer: Peer) -> None:
    """What it says of the rule cannot end a line of it, nor be taken for a specifier."""
    rule = add(peer, cron="30 2 * * *", timezone="America/New_York")["recurrence"]
    reply = steer(peer, "Timer", "nightly", randomizedDelayMs=90_000)
    assert reply["unit"] == f"questline-recurring@{rule['id']}.timer"
    lines = reply["text"].splitlines()
    assert lines[0].startswith("# Written by qlctl timer install")
    assert [line for line in lines if line.startswith("OnCalendar=")] == [
        "OnCalendar=*-*-* 02:30:00 America/New_York",
        "OnCalendar=*-03-* 07:00:00 UTC",
    ]
    assert {"Persistent=true", "RandomizedDelaySec=90000ms", "AccuracySec=1s", "WantedBy=timers.target"} <= set(lines)
    assert f'Recurrence="{rule["id"]}"' in lines
    plain = steer(peer, "Timer", "nightly")["text"]
    assert "RandomizedDelaySec" not in plain
    with pytest.raises(Refused) as refusal:
        steer(peer, "Timer", "nightly", randomizedDelayMs=-1)
    assert refusal.value.parameters["field"] == "randomizedDelayMs"


def test_a_timer_is_not_delayed_beyond_what_its_rule_skips(peer: Peer) -> None:
    """It would wake for nothing, each time."""
    add(peer, catchUp="skip")
    assert "RandomizedDelaySec=60000ms" in steer(peer, "Timer", "nightly", randomizedDelayMs=60_000)["text"]
    with pytest.raises(Refused) as refusal:
        steer(peer, "Timer", "nightly", randomizedDelayMs=60_001)
    assert refusal.value.parameters["field"] == "randomizedDelayMs"
    assert "skips what is more than a minute late" in refusal.value.parameters["message"]


def test_a_bad_rule_of_another_program_is_named(daemon: Daemon) -> None:
    """By health and Get; others come all the same."""
    with Peer(daemon.socket, str(daemon.project)) as peer:
        rule = add(peer)["recurrence"]["id"]
        assert peer.call(MANAGER + "Health", directory=peer.directory)["ok"] is True
        behind(daemon, rule, cron="@reboot")
        health = peer.call(MANAGER + "Health", directory=peer.directory)
        (problem,) = health["problems"]
        assert f"nightly ({rule})" in problem["what"]
        assert rule in problem["hint"]
        told = steer(peer, "Get", "nightly")
        assert told["upcoming"] == []
        assert "@reboot" in told["problem"]
        for method in ("Timer", "Fire"):
            behind(daemon, rule, next_run_at=0)
            with pytest.raises(Refused) as refusal:
                steer(peer, method, "nightly")
            assert refusal.value.parameters["field"] == "cron"


def test_rules_outlive_a_restart_and_make_up_for_it(daemon: Daemon) -> None:
    """With what the clock went past meanwhile."""
    with Peer(daemon.socket, str(daemon.project)) as peer:
        rule = add(peer, catchUp="one")["recurrence"]["id"]
    daemon.stop()
    behind(daemon, rule, next_run_at=1_700_000_000_000)
    daemon.start()
    with Peer(daemon.socket, str(daemon.project)) as peer:
        until(lambda: peer.total() == 1)
        (quest,) = peer.call(QUESTS + "List", directory=peer.directory)["quests"]
        assert quest["occurrenceAt"] == 1_709_164_800_000  # 29 February 2024
