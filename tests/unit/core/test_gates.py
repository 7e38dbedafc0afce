"""Why a quest does not run yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from questlined.core import gates
from questlined.core.gates import Gate, Situation, closed_gates

OPEN = Situation(
    now=1000,
    scheduled_at=0,
    retry_at=None,
    external=False,
    lane=None,
    role="build",
    project="/p",
    path="/p",
    closed=0,
    closed_daemon=0,
    daemon_paused=None,
    project_paused=None,
)


def closed(**fields: Any) -> list[Gate]:
    return list(closed_gates(replace(OPEN, **fields)))


def test_with_nothing_closed_there_is_no_gate() -> None:
    """Times that are over, and a limit that is not reached, close nothing."""
    assert closed(scheduled_at=1000, retry_at=1000, running_here=1, max_concurrent=2) == []


@pytest.mark.parametrize(
    ("fields", "gate", "words", "opens_at"),
    [
        ({"unmet": 1, "waiting_for": (("q-1", "running"),)}, "dependency", "q-1 (running)", None),
        ({"unmet": 9, "waiting_for": (("q-1", "queued"),)}, "dependency", "and 8 more", None),
        ({"scheduled_at": 1001}, "not-before", "", 1001),
        ({"retry_at": 5000}, "backoff", "", 5000),
        ({"external": True}, "external", "outside", None),
        ({"lane": "git", "closed": gates.LANE, "lane_holders": ("q-2",)}, "lane", "git is held by q-2", None),
        ({"lane": "git", "closed": gates.LANE}, "lane", "another quest", None),
        ({"project_paused": "lunch"}, "paused", "/p is paused: lunch", None),
        ({"project_paused": ""}, "paused", "/p is paused", None),
        ({"daemon_paused": ""}, "paused", "whole daemon", None),
        ({"closed": gates.ARCHIVED}, "archived", "/p", None),
        ({"closed": gates.PARKED}, "parked", "", None),
        ({"closed": gates.BUDGET}, "budget", "", None),
        ({"path": None}, "path", "no path", None),
        ({"closed_daemon": gates.PATH_MISSING}, "path", "/p is not there", None),
        ({"closed_daemon": gates.ROLE_FULL, "role_concurrency": {"build": 3}}, "role-concurrency", "build: 3", None),
        ({"closed_daemon": gates.PROJECT_FULL, "project_concurrency": 4}, "project-concurrency", "4", None),
        ({"running_here": 2, "max_concurrent": 2}, "concurrency", "scheduler.max_concurrent = 2", None),
        ({"disk_low": "only 3 MiB are free"}, "disk", "3 MiB", None),
    ],
)
def test_each_gate_is_named_with_its_reason(
    fields: dict[str, Any], gate: str, words: str, opens_at: int | None
) -> None:
    """And when it opens, where time alone opens it."""
    (found,) = closed(**fields)
    assert (found.gate, found.opens_at) == (gate, opens_at)
    assert words in found.detail


def test_all_closed_gates_are_named_together() -> None:
    """Opening one shows no new one behind it."""
    found = closed(
        scheduled_at=2000,
        retry_at=3000,
        unmet=1,
        closed=gates.LANE | gates.ARCHIVED,
        closed_daemon=gates.ROLE_FULL,
        project_paused="",
        daemon_paused="",
    )
    assert [gate.gate for gate in found] == [
        "dependency",
        "not-before",
        "backoff",
        "lane",
        "paused",
        "paused",
        "archived",
        "role-concurrency",
    ]


def test_a_person_passes_by_time_pause_and_concurrency_and_nothing_else() -> None:
    """What may never run as it is stays closed."""
    everything = replace(
        OPEN,
        scheduled_at=2000,
        retry_at=3000,
        unmet=1,
        closed=gates.LANE | gates.ARCHIVED | gates.PARKED | gates.BUDGET,
        closed_daemon=gates.ROLE_FULL | gates.PROJECT_FULL | gates.PATH_MISSING,
        project_paused="",
        daemon_paused="",
        running_here=2,
        max_concurrent=2,
        disk_low="low",
    )
    bound = [gate.gate for gate in gates.binding(everything)]
    assert bound == ["dependency", "lane", "archived", "parked", "budget", "path"]
    assert {gate.gate for gate in closed_gates(everything)} - set(bound) == gates.PASSED
    assert [gate.gate for gate in gates.binding(replace(OPEN, external=True))] == ["external"]


def test_the_daemons_own_limits_say_nothing_of_a_quest_for_others() -> None:
    """Paths, concurrency and disk bind the daemon only."""
    found = closed(external=True, path=None, closed_daemon=7, running_here=2, max_concurrent=2, disk_low="low")
    assert [gate.gate for gate in found] == ["external"]


def test_the_bits_do_not_overlap() -> None:
    """Two masks of single bits."""
    shared = (gates.LANE, gates.PAUSED, gates.PARKED, gates.ARCHIVED, gates.BUDGET)
    own = (gates.ROLE_FULL, gates.PROJECT_FULL, gates.PATH_MISSING)
    for mask in (shared, own):
        assert sum(mask) == 2 ** len(mask) - 1
