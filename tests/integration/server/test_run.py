"""Run starts a quest for a person: it is followed while he looks on, and interrupted when he goes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import MANAGER, QUESTS, Peer, Refused, Reply, frame, until
from tests.support.daemon import Daemon
from tests.support.evidence import alive
from tests.support.invariants import broken

RUN, PAUSE = QUESTS + "Run", "io.questline.Projects.Pause"


@pytest.fixture
def paused(peer: Peer) -> Peer:
    """A connection for a project of which nothing runs by itself."""
    peer.call(PAUSE, directory=peer.directory)
    return peer


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that a test may kill."""
    with Daemon(tmp_path) as daemon:
        yield daemon
        daemon.stop()
        assert alive(daemon.state / "quests.sqlite") == []
        assert broken(daemon.state / "quests.sqlite") == []


def begun(peer: Peer, **parameters: Any) -> Reply:
    """Run with more: the attempt, as the first reply has it."""
    peer.send(frame(RUN, {"directory": peer.directory} | parameters, more=True))
    reply = peer.reply()
    assert "error" not in reply, reply
    first = reply["parameters"]
    assert (reply.get("continues"), first["records"], first["state"]) == (True, [], "running")
    attempt: Reply = first["run"]
    return attempt


def rest(peer: Peer) -> tuple[list[Reply], Reply]:
    """The records that come, and the last reply."""
    records: list[Reply] = []
    while True:
        reply = peer.reply()
        assert "error" not in reply, reply
        page = reply["parameters"]
        assert "run" not in page
        records += page["records"]
        if not reply.get("continues"):
            return records, page
        assert "quest" not in page


def output(records: list[Reply], stream: str = "stdout") -> str:
    return "".join(
        each["data"]["text"] for each in records if each["kind"] == "output" and each["data"]["stream"] == stream
    )


def refused(peer: Peer, **parameters: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        peer.call(RUN, **parameters)
    assert caught.value.parameters["hint"]
    return caught.value


def last_run(peer: Peer, quest: str) -> Reply:
    found: Reply = peer.call(QUESTS + "Runs", id=quest)["runs"][-1]
    return found


def test_a_quest_is_run_before_its_turn_and_followed_to_its_end(paused: Peer) -> None:
    """In a paused project, before its time; its records begin with the first, and the last reply has the quest."""
    quest = paused.add("echo out; echo err >&2; exit 3", maxAttempts=1, notBefore=2**53 - 1)
    run = begun(paused, id=quest)
    assert (run["id"], run["quest"], run["attempt"], run["number"]) == (f"{quest}/1", quest, 1, 1)
    records, last = rest(paused)
    assert [each["number"] for each in records] == list(range(1, len(records) + 1))
    assert [records[0]["kind"], records[-1]["kind"]] == ["state", "end"]
    assert (output(records), output(records, "stderr")) == ("out\n", "err\n")
    assert (records[-1]["data"]["class"], records[-1]["data"]["exitCode"]) == ("failed", 3)
    assert (last["state"], last["quest"]["state"], last["quest"]["id"]) == ("failed", "failed", quest)
    assert paused.quest(quest) == last["quest"]


def test_output_is_told_while_it_runs(paused: Peer, hold: Hold) -> None:
    quest = paused.add(f"echo first; {hold.task}")
    begun(paused, id=quest)
    hold.running()
    seen = ""
    while "first\n" not in seen:
        seen += output(paused.reply()["parameters"]["records"])
    hold.release("second")
    records, _ = rest(paused)
    assert output(records) == "second"


def test_the_end_is_that_of_the_attempt(paused: Peer) -> None:
    """Though the quest waits for another one."""
    quest = paused.add("false", maxAttempts=2)
    begun(paused, id=quest)
    _, last = rest(paused)
    assert (last["quest"]["state"], last["quest"]["attempts"]) == ("queued", 1)


def test_the_best_of_a_project_is_run_where_none_is_named(paused: Peer) -> None:
    """And where there is none, that is said."""
    _, best = paused.add("echo a"), paused.add("echo b", priority=1)
    assert begun(paused)["quest"] == best
    assert output(rest(paused)[0]) == "b\n"
    begun(paused)
    assert output(rest(paused)[0]) == "a\n"
    assert refused(paused, directory=paused.directory).name == "io.questline.NothingToClaim"


def test_without_more_it_runs_on(server: Daemon, paused: Peer, hold: Hold) -> None:
    """The answer has the attempt; nobody needs to stay."""
    quest = paused.add(hold.task)
    with Peer(server.socket, paused.directory) as other:
        answer = other.call(RUN, id=quest)
    assert (answer["run"]["id"], answer["records"], answer["state"]) == (f"{quest}/1", [], "running")
    assert "quest" not in answer
    hold.running()
    hold.release("out")
    assert paused.ended(quest)["result"] == "out"


def test_without_more_a_client_that_sends_no_more_is_answered(server: Daemon, paused: Peer) -> None:
    """It has closed one direction only."""
    quest = paused.add("echo out")
    with Peer(server.socket) as other:
        other.send(frame(RUN, {"id": quest}))
        other.socket.shutdown(socket.SHUT_WR)
        assert other.reply()["parameters"]["run"]["quest"] == quest
        assert other.receive() is None
    assert paused.ended(quest)["result"] == "out\n"


@pytest.mark.parametrize("half", [False, True], ids=["gone", "half-closed"])
def test_a_client_that_goes_away_interrupts_what_it_ran(server: Daemon, paused: Peer, hold: Hold, half: bool) -> None:
    """Not charged, with the reason, claimable again."""
    quest = paused.add(hold.task)
    with Peer(server.socket, paused.directory) as other:
        begun(other, id=quest)
        hold.running()
        if half:
            other.socket.shutdown(socket.SHUT_WR)
    until(lambda: paused.quest(quest)["state"] == "interrupted")
    shown, run = paused.quest(quest), last_run(paused, quest)
    assert (shown["attempts"], shown["refunds"]) == (1, 1)
    assert (run["class"], run["error"]) == ("interrupted", "the client that ran it went away")
    assert paused.call(QUESTS + "Why", id=quest)["gates"][0]["gate"] == "paused"
    begun(paused, id=quest)
    hold.running()
    hold.release("again")
    assert output(rest(paused)[0]) == "again"


def test_a_client_that_stalls_and_goes_away_interrupts_it_too(server: Daemon, paused: Peer) -> None:
    """While the daemon waits for it to read."""
    quest = paused.add("yes | head -c 50000000; sleep 600")
    with Peer(server.socket, paused.directory) as other:
        begun(other, id=quest)
        until(lambda: (last_run(paused, quest).get("lastOutputAt") or 0) > 0)
    until(lambda: paused.quest(quest)["state"] == "interrupted")


def test_a_client_that_goes_at_once_leaves_no_lease_alone(server: Daemon, paused: Peer) -> None:
    """Before the first reply, whether its call was taken or not: nothing runs on, nothing is charged."""
    quests = [paused.add("sleep 600") for _ in range(20)]
    for quest in quests:
        with Peer(server.socket) as other:
            other.send(frame(RUN, {"id": quest}, more=True))
    until(lambda: paused.call(MANAGER + "Health", directory=paused.directory)["counts"]["running"] == 0)
    shown = [paused.quest(quest) for quest in quests]
    assert all(quest["attempts"] == quest["refunds"] for quest in shown)
    assert {quest["state"] for quest in shown} <= {"queued", "interrupted"}


def test_a_second_thought_cancels_it(server: Daemon, paused: Peer, hold: Hold) -> None:
    """A cancel is stronger than a client that goes away, and is told in the records."""
    quest = paused.add(hold.task)
    begun(paused, id=quest)
    hold.running()
    with Peer(server.socket) as other:
        other.call(QUESTS + "Cancel", id=quest)
    records, last = rest(paused)
    assert (records[-1]["data"]["class"], last["quest"]["state"]) == ("cancelled", "cancelled")


def test_what_cannot_run_says_why(paused: Peer, hold: Hold) -> None:
    """Each closed gate by its name, each state with its remedy."""
    first = paused.add(hold.task, lane="docs")
    behind, child, external = (
        paused.add(lane="docs"),
        paused.add(dependsOn=[first]),
        paused.add(external=True),
    )
    paused.call(RUN, id=first)
    hold.running()
    for quest, says in ((behind, "lane docs"), (child, "dependency"), (external, "external"), (first, "running")):
        error = refused(paused, id=quest)
        assert (error.name, says in error.parameters["message"]) == ("io.questline.WrongState", True)
    hold.release()
    paused.ended(first)
    assert refused(paused, id=first).parameters["state"] == "done"
    paused.call(QUESTS + "Block", id=child)
    assert "retry" in refused(paused, id=child).parameters["hint"]
    assert refused(paused, id="q-ffffffffffff").name == "io.questline.NotFound"
    assert refused(paused).name == "io.questline.InvalidInput"


def test_of_many_who_run_one_quest_one_does(server: Daemon, paused: Peer, hold: Hold) -> None:
    """The others are told that it runs already."""
    quest = paused.add(hold.task)
    peers = [Peer(server.socket) for _ in range(8)]
    barrier, replies = threading.Barrier(len(peers)), list[Reply]()

    def call(peer: Peer) -> None:
        barrier.wait()
        replies.append(peer.raw(RUN, {"id": quest}))

    threads = [threading.Thread(target=call, args=(peer,)) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for peer in peers:
        peer.close()
    assert sorted(reply.get("error", "") for reply in replies) == ["", *["io.questline.WrongState"] * 7]
    hold.running()
    hold.release("once")
    assert (paused.ended(quest)["attempts"], paused.ended(quest)["result"]) == (1, "once")


def test_a_repeated_call_gives_the_same_attempt(server: Daemon, paused: Peer, hold: Hold) -> None:
    """While it runs and when it is over, with the same records; the better quest that came meanwhile is let alone."""
    token = f"token of {paused.directory}"
    quest = paused.add(f"echo begun; {hold.task}")
    with Peer(server.socket, paused.directory) as other:
        run = begun(other, requestId=token)
        hold.running()
        better = paused.add(priority=9)
        assert begun(paused, requestId=token)["id"] == run["id"] == f"{quest}/1"
        hold.release("out")
        first, _ = rest(other)
    again, last = rest(paused)
    assert [each["id"] for each in again] == [each["id"] for each in first]
    assert (output(again), last["quest"]["state"]) == ("begun\nout", "done")
    paused.send(frame(RUN, {"directory": paused.directory, "requestId": token}, more=True))
    assert paused.reply()["parameters"]["state"] == "done"
    assert output(rest(paused)[0]) == "begun\nout"
    assert paused.quest(better)["state"] == "queued"


def test_a_daemon_that_stops_ends_what_was_run(own: Daemon) -> None:
    """Its client still hears of the end; the next daemon tells the same to who asks."""
    project = str(own.project)
    with Peer(own.socket, project) as peer, Peer(own.socket, project) as other:
        other.call(PAUSE, directory=project)
        quest = other.add("echo out; sleep 600")
        begun(peer, id=quest)
        seen: list[Reply] = []
        while "out\n" not in output(seen):
            seen += peer.reply()["parameters"]["records"]
        assert own.stop() == 0
        ended, last = rest(peer)
        assert (last["quest"]["state"], peer.receive()) == ("interrupted", None)
        seen += ended
    own.start()
    with Peer(own.socket, project) as peer:
        assert peer.call(QUESTS + "Follow", id=quest, attempt=1)["records"] == seen
        assert [each["kind"] for each in seen] == ["state", "output", "end"]
        assert seen[-1]["data"]["error"].startswith("the daemon was stopped")
        assert (peer.quest(quest)["state"], peer.quest(quest)["refunds"]) == ("interrupted", 1)


def test_what_a_killed_daemon_ran_for_a_client_is_claimable_again(own: Daemon) -> None:
    """Its repeated call gives the lost attempt and starts nothing."""
    project = str(own.project)
    with Peer(own.socket, project) as peer, Peer(own.socket, project) as other:
        other.call(PAUSE, directory=project)
        quest = other.add("echo out; sleep 600")
        begun(peer, id=quest, requestId="r")
        until(lambda: "pid" in str(other.quest(quest).get("agentRunId")))
        own.kill()
    own.start()
    with Peer(own.socket, project) as peer:
        peer.send(frame(RUN, {"id": quest, "directory": project, "requestId": "r"}, more=True))
        first = peer.reply()["parameters"]
        assert (first["run"]["id"], first["run"]["class"], first["state"]) == (f"{quest}/1", "lost", "interrupted")
        records, last = rest(peer)
        assert (records[-1]["data"]["class"], last["quest"]["state"]) == ("lost", "interrupted")
        assert len(peer.call(QUESTS + "Runs", id=quest)["runs"]) == 1


def test_a_daemon_killed_between_claim_and_start_has_started_nothing(own: Daemon, tmp_path: Path) -> None:
    """The attempt is lost and not charged; a repeated call gives it as it is."""
    project = str(own.project)
    with Peer(own.socket, project) as peer:
        peer.call(PAUSE, directory=project)
        quest = peer.add(f"touch '{tmp_path}/ran'")
    own.stop()
    own.start(crash_at="claim.after:2")  # the first claim is the scheduler's, which finds nothing
    with Peer(own.socket, project) as peer:
        peer.send(frame(RUN, {"id": quest, "requestId": "r"}))
        assert peer.receive() is None
    assert own.wait() == -9
    own.start()
    with Peer(own.socket, project) as peer:
        run = peer.call(RUN, id=quest, requestId="r")["run"]
        assert (run["id"], run["class"]) == (f"{quest}/1", "lost")
        assert (peer.quest(quest)["state"], peer.quest(quest)["refunds"]) == ("interrupted", 1)
    assert not (tmp_path / "ran").exists()


def test_a_client_that_goes_with_the_daemon_full_gives_no_slot_away(tmp_path: Path) -> None:
    """One slot, taken: what is run beside it comes and goes, and the queue goes on as it did."""
    with Daemon(tmp_path, 'executor.command = ["sh", "-c", "{task}"]\nscheduler.max_concurrent = 1\n') as daemon:
        project = str(daemon.project)
        slot, beside = Hold(daemon.project, "slot"), Hold(daemon.project, "beside")
        with Peer(daemon.socket, project) as peer, Peer(daemon.socket, project) as other:
            first, second = peer.add(slot.task), peer.add(beside.task)
            slot.running()
            begun(other, id=second)
            beside.running()
            waiting = peer.add("echo waited", priority=9)
            gates = peer.call(QUESTS + "Why", id=waiting)["gates"]
            assert [gate["gate"] for gate in gates] == ["concurrency"]
            assert "1 of scheduler.max_concurrent = 1" in gates[0]["detail"]
            other.close()
            until(lambda: peer.quest(second)["state"] == "interrupted")
            assert peer.quest(waiting)["state"] == "queued"
            slot.release()
            assert peer.ended(waiting)["state"] == peer.ended(first)["state"] == "done"
            beside.running()
            beside.release()
            assert peer.ended(second)["state"] == "done"
        slot.close()
        beside.close()
        assert daemon.stop() == 0
        assert broken(daemon.state / "quests.sqlite") == []
