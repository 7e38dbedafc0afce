"""Calls that a client sends without waiting: adds are worked on together, and nobody can tell but by the time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.integration.server.peer import MANAGER, PATIENCE_S, QUESTS, Peer, frame, until
from tests.support.daemon import SHELL, Daemon

INFO = "org.varlink.service.GetInfo"


def add(peer: Peer, name: str, **parameters: Any) -> bytes:
    """An Add as a frame."""
    oneway = {"oneway": True} if parameters.pop("oneway", False) else {}
    wanted = {"task": "true", "directory": peer.directory, "name": name, "external": True, **parameters}
    return frame(QUESTS + "Add", wanted, **oneway)


def names(peer: Peer) -> list[str]:
    """The project's quests, oldest first."""
    found = peer.call(QUESTS + "List", directory=peer.directory, limit=1000)["quests"]
    return [quest["name"] for quest in reversed(found)]


def test_adds_in_one_write_are_stored_and_answered_in_their_order(peer: Peer) -> None:
    """More of them than are read ahead."""
    wanted = [f"quest {number}" for number in range(700)]
    peer.send(b"".join(add(peer, name) for name in wanted))
    replies = [peer.reply()["parameters"]["quest"] for _ in wanted]
    assert [quest["name"] for quest in replies] == wanted
    assert names(peer) == wanted
    assert len({quest["id"] for quest in replies}) == len(wanted)


def test_adds_of_one_write_share_transactions(server: Daemon, peer: Peer) -> None:
    """Seen by the moment at which other programs see them: those in between are few."""
    peer.add(external=True)  # the place is known from now on
    database = server.state / "quests.sqlite"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)) as db:
        version = "PRAGMA data_version"
        seen = {db.execute(version).fetchone()[0]}
        peer.send(b"".join(add(peer, str(number)) for number in range(100)))
        for _ in range(100):
            peer.reply()
            seen.add(db.execute(version).fetchone()[0])
    assert len(seen) < 20


def test_an_adds_error_is_its_own_and_in_its_place(peer: Peer) -> None:
    """Whether the shape, a rule or the store refuses it; those around it are stored."""
    bad = [
        add(peer, "bad", priority="x"),
        add(peer, "bad", role="not a role"),
        add(peer, "bad", dependsOn=["q-000000000000"]),
        add(peer, "bad", directory="/nowhere/at/all"),
    ]
    calls = b""
    for number, each in enumerate(bad):
        calls += add(peer, f"before {number}") + each + add(peer, f"after {number}")
    peer.send(calls)
    replies = [peer.reply() for _ in range(3 * len(bad))]
    fields = [reply["parameters"].get("field", reply["parameters"].get("reason")) for reply in replies[1::3]]
    assert fields == ["priority", "role", "not_found", "directory"]
    shown = [reply["parameters"]["quest"]["name"] for each in (replies[::3], replies[2::3]) for reply in each]
    assert sorted(shown) == sorted(names(peer))


def test_what_follows_an_add_is_answered_after_it_and_sees_it(peer: Peer) -> None:
    """A page, an add that names the one before it, and what is no call of ours."""
    first = peer.add(external=True)
    peer.send(
        add(peer, "a")
        + frame(QUESTS + "List", {"directory": peer.directory})
        + add(peer, "b", dependsOn=[first])
        + frame(INFO)
        + add(peer, "c")
        + frame("io.questline.Quests.Nothing")
    )
    replies = [peer.reply() for _ in range(6)]
    assert replies[0]["parameters"]["quest"]["name"] == "a"
    assert [quest["name"] for quest in replies[1]["parameters"]["quests"]] == ["a", "true"]
    assert replies[2]["parameters"]["quest"]["dependsOn"] == [first]
    assert replies[3]["parameters"]["product"] == "questlined"
    assert replies[4]["parameters"]["quest"]["name"] == "c"
    assert replies[5]["error"] == "org.varlink.service.MethodNotFound"


def test_a_request_id_that_comes_again_in_the_same_write_is_done_once(peer: Peer) -> None:
    """Both are answered with the one quest; another body under it is a Conflict."""
    token = f"once in {peer.directory}"
    same = add(peer, "same", requestId=token)
    peer.send(add(peer, "first") + same + same + add(peer, "other", requestId=token) + add(peer, "last"))
    first, once, again, conflict, last = (peer.reply() for _ in range(5))
    assert once["parameters"]["quest"] == again["parameters"]["quest"]
    assert conflict["error"] == "io.questline.Conflict"
    assert (
        [each["parameters"]["quest"]["name"] for each in (first, once, last)]
        == names(peer)
        == ["first", "same", "last"]
    )


def test_oneway_adds_among_others_are_stored_and_not_answered(peer: Peer) -> None:
    """Their errors neither."""
    peer.send(
        add(peer, "a", oneway=True) + add(peer, "b") + add(peer, "", oneway=True) + add(peer, "c", oneway=True)
        + add(peer, "d")
    )  # fmt: skip
    assert [peer.reply()["parameters"]["quest"]["name"] for _ in range(2)] == ["b", "d"]
    assert names(peer) == ["a", "b", "c", "d"]


def test_adds_before_rubbish_are_answered_and_those_behind_it_are_not_carried_out(server: Daemon, peer: Peer) -> None:
    """Rubbish ends the connection, in its turn."""
    with Peer(server.socket, peer.directory) as other:
        other.send(add(peer, "a") + add(peer, "b") + b"rubbish\0" + add(peer, "c"))
        assert [other.reply()["parameters"]["quest"]["name"] for _ in range(2)] == ["a", "b"]
        assert other.reply()["error"] == "io.questline.InvalidInput"
        assert other.receive() is None
    assert names(peer) == ["a", "b"]


def test_a_client_that_ends_its_direction_gets_all_its_answers(server: Daemon, peer: Peer) -> None:
    """And then the end."""
    with Peer(server.socket, peer.directory) as other:
        other.send(b"".join(add(peer, str(number)) for number in range(300)))
        other.socket.shutdown(1)
        assert [other.reply()["parameters"]["quest"]["name"] for _ in range(300)] == [str(n) for n in range(300)]
        assert other.receive() is None


def test_a_client_that_goes_away_in_the_middle_leaves_whole_quests(server: Daemon, peer: Peer) -> None:
    """The first of its adds in their order, and a daemon that goes on."""
    peer.add(external=True, name="known place")
    with Peer(server.socket, peer.directory) as other:
        other.send(b"".join(add(peer, str(number)) for number in range(200)))
        other.socket.recv(10)
    until(lambda: int(peer.call(MANAGER + "Health", allProjects=True)["connections"]) == 1)
    stored = names(peer)[1:]
    assert stored == [str(number) for number in range(len(stored))]
    assert stored


def test_a_client_that_reads_nothing_is_held_back(server: Daemon, peer: Peer) -> None:
    """What the daemon keeps for it is bounded, and all that it has taken is answered once the client reads."""
    peer.add(external=True)
    call = add(peer, "x", task="y" * 2000)
    pending = call * 20_000
    with Peer(server.socket, peer.directory) as other:
        other.socket.setblocking(False)
        sent, rounds = 0, 0
        while sent < len(pending) and rounds < 5:
            try:
                sent += other.socket.send(pending[sent : sent + 65536])
                rounds = 0
            except BlockingIOError:
                peer.add(external=True)  # the daemon and its writer have come round, and took nothing more
                rounds += 1
        assert rounds == 5, "it was read without end"
        other.socket.settimeout(PATIENCE_S)
        for _ in range(sent // len(call)):
            assert other.reply()["parameters"]["quest"]["name"] == "x"


def test_streams_above_the_bound_are_refused_naming_it(tmp_path: Path) -> None:
    """Those that are open go on, one that ends makes room, and calls without `more` do not count."""
    project = tmp_path / "project"
    project.mkdir()
    with Daemon(tmp_path, SHELL + "bounds.max_streams = 2\n") as daemon, Peer(daemon.socket, str(project)) as peer:
        quest = peer.add(external=True)
        wait = QUESTS + "Wait"
        streams = [Peer(daemon.socket) for _ in range(2)]
        for stream in streams:
            stream.send(frame(wait, {"id": quest}, more=True))
            assert stream.reply()["continues"] is True
        reply = peer.raw(wait, {"id": quest}, more=True)
        assert reply["error"] == "io.questline.LimitReached"
        assert reply["parameters"]["setting"] == "bounds.max_streams"
        assert reply["parameters"]["retryAfterMs"] > 0
        assert peer.raw(wait, {"id": quest, "timeoutMs": 0})["parameters"]["timedOut"] is True
        assert "error" not in peer.raw(INFO, more=True)
        streams.pop().close()
        until(lambda: int(peer.call(MANAGER + "Health", allProjects=True)["connections"]) == 2)
        assert peer.raw(wait, {"id": quest, "timeoutMs": 0}, more=True)["continues"] is True
        assert peer.reply()["parameters"]["timedOut"] is True
        streams.pop().close()
