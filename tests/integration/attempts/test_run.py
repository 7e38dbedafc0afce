"""What people run by hand, beside a scheduler that does the same: judged by what the quests themselves saw."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.attempts.scene import Scene, scene
from tests.integration.server.peer import QUESTS, Peer, frame, until
from tests.support.evidence import alive

CONFIG = """
scheduler.max_concurrent = 2
scheduler.role_concurrency = {shy = 1}
lanes.wide.slots = 2
"""
LIMITS = {"role": {"shy": 1}}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("run"), CONFIG) as playing:
        yield playing


def add(stage: Scene, task: str, **more: Any) -> str:
    return str(stage.call("Quests.Add", directory=str(stage.project), task=task, **more)["quest"]["id"])


def test_lanes_hold_and_no_quest_runs_twice_whoever_runs_them(stage: Scene) -> None:
    """Sixty quests, a scheduler, and four people who run what they can get, by id and by turn."""
    kinds = [("narrow", 1), ("wide", 2), (None, 60)]
    quests = []
    for number in range(60):
        lane, slots = kinds[number % 3]
        work = stage.evidence.within(f"{lane}", min(slots, 6), "git --version >/dev/null") if lane else "true"
        quests.append(add(stage, stage.evidence.task(work), **({"lane": lane} if lane else {})))
    told: list[str] = []

    def person(mine: list[str]) -> None:
        with Peer(stage.socket, str(stage.project)) as peer:
            for quest in mine:
                for parameters in ({"id": quest}, {"directory": peer.directory}):
                    told.append(peer.raw(QUESTS + "Run", parameters).get("error", "run"))

    people = [threading.Thread(target=person, args=(quests[number::4][::-1],)) for number in range(4)]
    for each in people:
        each.start()
    for each in people:
        each.join()
    assert {stage.ended(quest)["quest"]["state"] for quest in quests} == {"done"}
    assert set(told) <= {"run", "io.questline.WrongState", "io.questline.NothingToClaim"}
    assert told.count("run") > 0
    assert {len(stage.evidence.runs(quest)) for quest in quests} == {1}
    stage.in_order(**LIMITS)


def test_a_full_role_is_passed_by_and_stays_full_for_the_others(stage: Scene) -> None:
    """Until as few run as may."""
    first = add(stage, stage.held(), role="shy")
    stage.started.next()
    second, third = (add(stage, stage.held(), role="shy") for _ in range(2))
    assert stage.call("Quests.Run", id=second)["run"]["quest"] == second
    stage.started.next()
    gates = stage.call("Quests.Why", id=third)["gates"]
    assert [gate["gate"] for gate in gates] == ["role-concurrency"]
    stage.hold.put()
    stage.until(third, lambda _: stage.counts()["running"] == 1)
    assert stage.call("Quests.Get", id=third)["quest"]["state"] == "queued"
    stage.hold.put()
    stage.started.next()
    stage.hold.put()
    assert {stage.ended(quest)["quest"]["state"] for quest in (first, second, third)} == {"done"}
    stage.in_order(**LIMITS)


def test_all_that_a_client_ran_is_dead_when_it_has_gone(stage: Scene) -> None:
    """Its process, and what that one has started in sessions of its own; then the quest runs again by itself."""
    task = stage.held(before="{ setsid sleep 600 & sleep 600 & }")
    with Peer(stage.socket, str(stage.project)) as peer:
        stage.call("Projects.Pause", directory=peer.directory)
        quest = add(stage, task)
        peer.send(frame(QUESTS + "Run", {"id": quest}, more=True))
        assert peer.reply()["parameters"]["run"]["quest"] == quest
        stage.started.next()
        until(lambda: len(alive(stage.database)) >= 3)  # one that is just being executed shows no variables
    until(lambda: stage.call("Quests.Get", id=quest)["quest"]["state"] == "interrupted")
    assert alive(stage.database) == []
    stage.call("Projects.Resume", directory=str(stage.project))
    stage.started.next()
    stage.hold.put()
    assert (stage.ended(quest)["quest"]["state"], len(stage.evidence.runs(quest))) == ("done", 2)
    stage.in_order(**LIMITS)
