"""Workers outside the daemon claim quests and end their attempts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import LEASES, QUESTS, Peer, Refused, frame, until
from tests.support.daemon import Daemon

ENDS = ["Done", "Fail", "Release", "Block"]


def refused(peer: Peer, method: str, **parameters: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        peer.call(method, **parameters)
    return caught.value


def events(peer: Peer, quest: str) -> list[str]:
    return [event["event"] for event in peer.call(QUESTS + "Get", id=quest)["events"]]


def test_a_claim_gives_the_quest_its_attempt_and_what_surrounds_it(peer: Peer) -> None:
    """The attempt's id is `<quest>/<attempt>`; run numbers count in the project."""
    first = peer.add("one", external=True)
    second = peer.add("two", external=True)
    done = peer.claim(agent="bot")
    assert done["quest"]["id"] == first
    assert (done["run"]["id"], done["run"]["number"], done["run"]["agent"]) == (f"{first}/1", 1, "bot")
    assert done["quest"]["state"] == "running"
    assert done["leaseExpiresAt"] == done["quest"]["leaseExpiresAt"] > done["quest"]["updatedAt"]
    running = peer.claim()
    assert (running["quest"]["id"], running["run"]["number"]) == (second, 2)
    assert [run["id"] for run in running["alsoRunning"]] == [f"{first}/1"]
    peer.call(LEASES + "Done", attempt=f"{first}/1", summary="well")
    third = peer.add("three", external=True)
    last = peer.claim()
    assert last["quest"]["id"] == third
    assert [(run["id"], run["summary"]) for run in last["before"]] == [(f"{first}/1", "well")]


def test_the_best_quest_is_claimed_first(peer: Peer) -> None:
    """Priority, then age; a lane or role narrows it down."""
    peer.add("low", external=True)
    high = peer.add("high", external=True, priority=5)
    lane = peer.add("lane", external=True, lane="git")
    role = peer.add("role", external=True, role="review")
    assert peer.claim(lane="git")["quest"]["id"] == lane
    assert peer.claim(role="review")["quest"]["id"] == role
    assert peer.claim()["quest"]["id"] == high


def test_with_nothing_to_claim_the_answer_is_at_once(peer: Peer) -> None:
    """NothingToClaim; a lane that is held counts as nothing."""
    assert refused(peer, LEASES + "Claim", directory=peer.directory).name == "io.questline.NothingToClaim"
    for _ in range(2):
        peer.add(external=True, lane="one")
    peer.claim()
    assert refused(peer, LEASES + "Claim", directory=peer.directory).name == "io.questline.NothingToClaim"


@pytest.mark.parametrize("request_id", [None, "the same"])
def test_a_waiting_claim_wakes_when_a_quest_is_added(server: Daemon, peer: Peer, request_id: str | None) -> None:
    """With a requestId, too: that it found nothing at first is no answer yet."""
    with Peer(server.socket, peer.directory) as worker:
        wanted = {"directory": peer.directory, "waitMs": 40_000}
        if request_id:
            wanted["requestId"] = f"{request_id} {peer.directory}"
        other = peer.add(external=True)
        assert worker.claim()["quest"]["id"] == other  # the daemon has read this connection to here
        worker.send(frame(LEASES + "Claim", wanted))
        quest = peer.add("work", external=True)
        reply = worker.reply()
        assert reply["parameters"]["quest"]["id"] == quest


def test_a_claim_that_waited_for_nothing_ends_with_nothing(peer: Peer) -> None:
    """After waitMs."""
    error = refused(peer, LEASES + "Claim", directory=peer.directory, waitMs=1, requestId=f"w {peer.directory}")
    assert (error.name, error.parameters["reason"]) == ("io.questline.NothingToClaim", "none")


def test_a_claim_that_found_nothing_may_be_repeated_with_its_request_id(peer: Peer) -> None:
    """Nothing was changed, so that there is no answer to repeat."""
    wanted = {"directory": peer.directory, "requestId": f"again {peer.directory}"}
    assert refused(peer, LEASES + "Claim", **wanted).name == "io.questline.NothingToClaim"
    quest = peer.add(external=True)
    assert peer.call(LEASES + "Claim", **wanted)["quest"]["id"] == quest


def test_a_worker_that_leaves_while_it_waits_claims_nothing(server: Daemon, peer: Peer) -> None:
    """The quest stays for others."""
    with Peer(server.socket, peer.directory) as worker:
        worker.send(frame("org.varlink.service.GetInfo"))
        worker.reply()
        worker.send(frame(LEASES + "Claim", {"directory": peer.directory, "waitMs": 40_000}))
    until(lambda: peer.call("io.questline.Manager.Health", allProjects=True)["connections"] == 1)
    quest = peer.add(external=True)
    assert peer.quest(quest)["state"] == "queued"


def test_done_keeps_result_summary_and_commit(peer: Peer) -> None:
    """Finalized at once: nobody else runs it."""
    quest = peer.add(external=True)
    attempt = peer.claim()["run"]["id"]
    told = peer.call(LEASES + "Done", attempt=attempt, result="r", summary="s", commit="c0ffee")["quest"]
    assert (told["state"], told["result"], told["class"], told["attempts"]) == ("done", "r", "ok", 1)
    (run,) = peer.call(QUESTS + "Runs", id=quest)["runs"]
    assert (run["outcome"], run["summary"], run["commit"]) == ("done", "s", "c0ffee")
    assert "exitCode" not in run
    assert [run[key] for key in ("turns", "tokens", "costUsd")] == [None, None, None]


def test_fail_requeues_with_backoff_and_is_charged(peer: Peer) -> None:
    """External quests have no bound unless they say otherwise; the next claim waits for the backoff."""
    quest = peer.add(external=True)
    attempt = peer.claim()["run"]["id"]
    told = peer.call(LEASES + "Fail", attempt=attempt, reason="no way")["quest"]
    assert (told["state"], told["maxAttempts"], told["refunds"]) == ("queued", 0, 0)
    assert told["retryAt"] > told["updatedAt"]
    assert told["error"] == "no way"
    again = peer.claim(waitMs=40_000)
    assert again["run"]["id"] == f"{quest}/2"
    assert events(peer, quest) == ["enqueued", "claimed", "retry_scheduled", "claimed"]


def test_the_last_failure_fails_what_depends_on_it(peer: Peer) -> None:
    """Transitively."""
    quest = peer.add(external=True, maxAttempts=1)
    child = peer.add(dependsOn=[quest])
    grandchild = peer.add(dependsOn=[child])
    told = peer.call(LEASES + "Fail", attempt=peer.claim()["run"]["id"])["quest"]
    assert (told["state"], told["failureKind"]) == ("failed", "execution")
    ends = [peer.quest(each) for each in (child, grandchild)]
    assert [(end["state"], end["failureKind"]) for end in ends] == [("failed", "dependency")] * 2


def test_release_gives_it_back_uncharged(peer: Peer) -> None:
    """At once claimable, attempts − refunds as before."""
    quest = peer.add(external=True, maxAttempts=2)
    told = peer.call(LEASES + "Release", attempt=peer.claim()["run"]["id"], reason="not mine")["quest"]
    assert (told["state"], told["attempts"] - told["refunds"], told["maxAttempts"] - told["refunds"]) == (
        "queued",
        0,
        2,
    )
    assert "retryAt" not in told
    assert peer.claim()["run"]["id"] == f"{quest}/2"


def test_block_asks_a_person(peer: Peer) -> None:
    """With question and choices; it is no more claimable."""
    peer.add(external=True)
    attempt = peer.claim()["run"]["id"]
    told = peer.call(LEASES + "Block", attempt=attempt, question="red or blue?", choices=["red", "blue"])["quest"]
    assert (told["state"], told["question"], told["choices"]) == ("blocked", "red or blue?", ["red", "blue"])
    assert refused(peer, LEASES + "Claim", directory=peer.directory).name == "io.questline.NothingToClaim"


def test_a_heartbeat_pushes_the_lease_out_and_never_in(peer: Peer) -> None:
    """It tells of a cancel, too."""
    quest = peer.add(external=True)
    claimed = peer.claim(leaseMs=60_000)
    attempt = claimed["run"]["id"]
    longer = peer.call(LEASES + "Heartbeat", attempt=attempt, leaseMs=600_000)
    assert longer["leaseExpiresAt"] >= claimed["leaseExpiresAt"] + 500_000
    assert longer["cancelRequested"] is False
    assert peer.call(LEASES + "Heartbeat", attempt=attempt, leaseMs=1000)["leaseExpiresAt"] == longer["leaseExpiresAt"]
    assert peer.call(QUESTS + "Cancel", id=quest)["quest"]["state"] == "running"
    assert peer.call(LEASES + "Heartbeat", attempt=attempt)["cancelRequested"] is True
    assert peer.call(LEASES + "Done", attempt=attempt)["quest"]["state"] == "cancelled"


@pytest.mark.parametrize("method", [*ENDS, "Heartbeat"])
def test_an_attempt_that_is_over_is_stale(peer: Peer, method: str) -> None:
    """Whatever the report; nothing is written."""
    quest = peer.add(external=True)
    attempt = peer.claim()["run"]["id"]
    peer.call(LEASES + "Done", attempt=attempt, result="first")
    before = peer.call(QUESTS + "Get", id=quest)
    for more in ({}, {"requestId": f"{method} {attempt}"}):
        error = refused(peer, LEASES + method, attempt=attempt, **more)
        assert error.name == "io.questline.StaleLease"
        assert (error.parameters["id"], error.parameters["generation"]) == (quest, 1)
    assert peer.call(QUESTS + "Get", id=quest) == before


@pytest.mark.parametrize("method", [*ENDS, "Heartbeat"])
def test_an_attempt_before_the_present_one_is_stale(peer: Peer, method: str) -> None:
    """The holder of today is not disturbed."""
    quest = peer.add(external=True)
    old = peer.claim()["run"]["id"]
    peer.call(LEASES + "Release", attempt=old)
    new = peer.claim()["run"]["id"]
    assert refused(peer, LEASES + method, attempt=old).name == "io.questline.StaleLease"
    assert peer.quest(quest)["state"] == "running"
    assert peer.call(LEASES + "Done", attempt=new)["quest"]["state"] == "done"


def test_a_project_and_a_run_number_name_an_attempt(peer: Peer) -> None:
    """The number tells generations apart."""
    quest = peer.add(external=True)
    assert peer.claim()["run"]["number"] == 1
    peer.call(LEASES + "Release", directory=peer.directory, run=1)
    assert peer.claim()["run"]["number"] == 2
    assert refused(peer, LEASES + "Done", directory=peer.directory, run=1).name == "io.questline.StaleLease"
    assert peer.call(LEASES + "Done", project=peer.directory, run=2)["quest"]["id"] == quest


@pytest.mark.parametrize(
    ("parameters", "name", "field"),
    [
        ({}, "InvalidInput", "attempt"),
        ({"attempt": "q-000000000000"}, "InvalidInput", "attempt"),
        ({"attempt": "q-000000000000/1"}, "NotFound", None),
        ({"attempt": "a\0/1"}, "InvalidInput", "attempt"),
        ({"run": 0, "directory": "/"}, "InvalidInput", "run"),
        ({"run": 99, "directory": "/"}, "NotFound", None),
        ({"run": 1}, "InvalidInput", "project"),
    ],
)
def test_an_attempt_that_is_not_named_well_is_refused(
    peer: Peer, parameters: dict[str, Any], name: str, field: str | None
) -> None:
    """Naming the parameter."""
    error = refused(peer, LEASES + "Done", **parameters)
    assert error.name == f"io.questline.{name}"
    assert error.parameters.get("field") == field


@pytest.mark.parametrize(
    ("method", "parameters", "field"),
    [
        ("Claim", {"leaseMs": 999}, "leaseMs"),
        ("Claim", {"leaseMs": 2**53}, "leaseMs"),
        ("Claim", {"lane": "a b"}, "lane"),
        ("Claim", {"role": ""}, "role"),
        ("Claim", {"agent": "a:b"}, "agent"),
        ("Claim", {"requestId": ""}, "requestId"),
        ("Claim", {"requestId": "x" * 201}, "requestId"),
        ("Done", {"result": "a\0b"}, "result"),
        ("Done", {"result": "x" * (256 * 1024 + 1)}, "result"),
        ("Done", {"summary": "x" * 5000}, "summary"),
        ("Fail", {"reason": "\0"}, "reason"),
        ("Block", {"choices": [""]}, "choices"),
        ("Block", {"choices": ["x"] * 51}, "choices"),
        ("Block", {"question": "x" * 5000}, "question"),
    ],
)
def test_a_value_out_of_bounds_is_refused_and_the_attempt_goes_on(
    peer: Peer, method: str, parameters: dict[str, Any], field: str
) -> None:
    """Naming the field."""
    quest = peer.add(external=True)
    named = {"directory": peer.directory}
    if method != "Claim":
        named = {"attempt": peer.claim()["run"]["id"]}
    error = refused(peer, LEASES + method, **named, **parameters)
    assert (error.name, error.parameters["field"]) == ("io.questline.InvalidInput", field)
    assert peer.quest(quest)["state"] == ("queued" if method == "Claim" else "running")


def test_the_daemons_own_attempt_cannot_be_released(peer: Peer, hold: Hold) -> None:
    """Cancel is what stops it."""
    quest = peer.add(hold.task)
    hold.running()
    assert refused(peer, LEASES + "Release", attempt=f"{quest}/1").name == "io.questline.WrongState"
    hold.release()
    assert peer.ended(quest)["state"] == "done"


def test_of_eight_claimers_in_one_instant_one_wins_a_lane(server: Daemon, peer: Peer) -> None:
    """Four quests in each of two lanes: two at a time are claimed, one of each lane, each quest once."""
    quests = {peer.add(external=True, lane=lane) for lane in ("one", "two") for _ in range(4)}
    claimers = [Peer(server.socket, peer.directory) for _ in range(8)]
    won: list[str] = []
    try:
        for _ in range(4):
            for claimer in claimers:
                claimer.send(frame(LEASES + "Claim", {"directory": peer.directory}))
            replies = [claimer.reply() for claimer in claimers]
            lost = [reply["error"] for reply in replies if "error" in reply]
            assert lost == ["io.questline.NothingToClaim"] * 6
            claimed = [reply["parameters"]["quest"] for reply in replies if "error" not in reply]
            assert {quest["lane"] for quest in claimed} == {"one", "two"}
            won += [quest["id"] for quest in claimed]
            for quest in claimed:
                peer.call(LEASES + "Done", attempt=f"{quest['id']}/1")
    finally:
        for claimer in claimers:
            claimer.close()
    assert (len(won), set(won)) == (8, quests)
