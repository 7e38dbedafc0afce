"""What a connection may do to the daemon: nothing that anybody else notices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import MANAGER, QUESTS, Peer, frame, until
from tests.support.daemon import SHELL, Daemon

INFO = "org.varlink.service.GetInfo"
MIB = 1024 * 1024


def connections(peer: Peer) -> int:
    return int(peer.call(MANAGER + "Health", allProjects=True)["connections"])


def test_pipelined_calls_are_answered_in_order(peer: Peer) -> None:
    """All sent before the first answer is read; a slow one holds back a quick one."""
    names = [f"quest {number}" for number in range(50)]
    for name in names:
        peer.send(frame(QUESTS + "Add", {"task": "true", "directory": peer.directory, "name": name, "external": True}))
        peer.send(frame(INFO))
    replies = [peer.reply()["parameters"] for _ in range(100)]
    assert [reply["quest"]["name"] for reply in replies[::2]] == names
    assert {reply["product"] for reply in replies[1::2]} == {"questlined"}


def test_a_call_behind_a_wait_is_answered_after_it(peer: Peer, hold: Hold) -> None:
    """One connection is one line of calls."""
    quest = peer.add(hold.task)
    peer.send(frame(QUESTS + "Wait", {"id": quest}) + frame(INFO))
    hold.running()
    hold.release("out")
    assert peer.reply()["parameters"]["quest"]["state"] == "done"
    assert peer.reply()["parameters"]["product"] == "questlined"


def test_a_call_cut_into_single_bytes_is_a_call(peer: Peer) -> None:
    """Characters of several bytes included."""
    call = json.dumps(
        {"method": QUESTS + "Add", "parameters": {"task": "äöü€𝄞", "directory": peer.directory, "external": True}},
        ensure_ascii=False,
    ).encode()
    for byte in call + b"\0":
        peer.send(bytes([byte]))
    assert peer.reply()["parameters"]["quest"]["task"] == "äöü€𝄞"


def test_many_calls_in_one_write_and_the_rest_in_the_next(peer: Peer) -> None:
    """The cut lies in the fourth."""
    data = frame(INFO) * 5
    cut = len(frame(INFO)) * 3 + 10
    peer.send(data[:cut])
    assert [peer.reply()["parameters"]["product"] for _ in range(3)] == ["questlined"] * 3
    peer.send(data[cut:])
    assert [peer.reply()["parameters"]["product"] for _ in range(2)] == ["questlined"] * 2


def test_half_a_call_and_an_end_is_nothing(server: Daemon, peer: Peer) -> None:
    """It is not carried out, and nobody else notices."""
    whole = frame(QUESTS + "Add", {"task": "true", "directory": peer.directory})
    for cut in (1, len(whole) // 2, len(whole) - 1):
        with Peer(server.socket) as other:
            other.send(whole[:cut])
    until(lambda: connections(peer) == 1)
    assert peer.total() == 0


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0",
        b"\0",
        b"[]\0",
        b"null\0",
        b'{"parameters":{}}\0',
        b'{"method":7}\0',
        b'{"method":"a.B","more":"yes"}\0',
        b'{"method":"a.B"\0',
        b"\xff\xfe\0",
        b"[" * 100_000 + b"\0",
        b'{"method":"a.B","parameters":' + b'{"a":' * 100_000 + b"\0",
    ],
    ids=lambda value: repr(value[:20]),
)
def test_rubbish_is_answered_once_and_ends_the_connection(server: Daemon, peer: Peer, rubbish: bytes) -> None:
    """With InvalidInput; a call behind it is not carried out, the other connection goes on."""
    with Peer(server.socket) as other:
        other.send(rubbish + frame(QUESTS + "Add", {"task": "true", "directory": peer.directory}))
        reply = other.reply()
        assert reply["error"] == "io.questline.InvalidInput"
        assert set(reply["parameters"]) == {"message", "hint", "field", "setting"}
        assert other.receive() is None
    assert peer.raw(INFO)["parameters"]["product"] == "questlined"
    assert peer.total() == 0


@pytest.mark.parametrize("parameters", ["[]", '"x"', "7", '{"id":7}', '{"id":["x"]}', '{"id":null}'])
def test_parameters_of_another_shape_are_an_error_of_that_call_only(peer: Peer, parameters: str) -> None:
    """The connection goes on."""
    peer.send(f'{{"method":"{QUESTS}Get","parameters":{parameters}}}'.encode() + b"\0")
    reply = peer.reply()
    assert reply["error"] == "io.questline.InvalidInput"
    assert reply["parameters"]["field"] in ("parameters", "id")
    assert peer.raw(INFO)["parameters"]["product"] == "questlined"


@pytest.mark.parametrize("ended", [True, False], ids=["whole", "endless"])
def test_a_frame_of_5_mb_is_refused_naming_the_bound(server: Daemon, peer: Peer, ended: bool) -> None:
    """Whether its end has come or not; what was asked before it is answered."""
    call = frame(QUESTS + "Add", {"task": "x" * 5 * MIB, "directory": peer.directory})
    with Peer(server.socket) as other:
        other.send(frame(INFO))
        other.send(call if ended else call[:-1])
        assert other.reply()["parameters"]["product"] == "questlined"
        reply = other.reply()
        assert reply["error"] == "io.questline.InvalidInput"
        assert reply["parameters"]["setting"] == "bounds.max_frame_bytes"
        assert str(4 * MIB) in reply["parameters"]["message"]
        assert other.receive() is None
    assert peer.total() == 0


def test_a_reply_above_the_bound_is_one_error_and_the_end_of_its_call(tmp_path: Path) -> None:
    """Of a stream, too, though more of it would have followed."""
    config = SHELL + 'bounds.max_frame_bytes = "24KiB"\n'
    with Daemon(tmp_path, config) as daemon, Peer(daemon.socket, str(daemon.project)) as peer:
        quest = peer.add("head -c 100000 /dev/zero | tr '\\0' x")
        assert peer.ended(quest)["state"] == "done"
        peer.send(frame(QUESTS + "Follow", {"id": quest}, more=True) + frame(INFO))
        refused = peer.reply()
        assert refused["error"] == "io.questline.InvalidInput"
        assert refused["parameters"]["setting"] == "bounds.max_frame_bytes"
        assert peer.reply()["parameters"]["product"] == "questlined"


def test_more_connections_than_the_bound_are_refused_naming_it(tmp_path: Path) -> None:
    """Those that are open go on, and a place that becomes free is free."""
    with Daemon(tmp_path, SHELL + "bounds.max_connections = 3\n") as daemon:
        peers = [Peer(daemon.socket) for _ in range(3)]
        assert [connections(peer) for peer in peers] == [3, 3, 3]
        with Peer(daemon.socket) as other:
            other.send(frame(INFO))
            reply = other.reply()
            assert reply["error"] == "io.questline.LimitReached"
            assert reply["parameters"]["setting"] == "bounds.max_connections"
            assert reply["parameters"]["retryAfterMs"] > 0
            assert other.receive() is None
        refused = daemon.qlctl("list", check=False)
        assert (refused.returncode, refused.stdout) == (75, "")
        assert "bounds.max_connections" in refused.stderr
        peers.pop().close()
        until(lambda: connections(peers[0]) == 2)
        with Peer(daemon.socket) as other:
            assert connections(other) == 3
        for peer in peers:
            peer.close()


def test_a_client_that_leaves_its_replies_unread_is_let_go(server: Daemon, peer: Peer) -> None:
    """In the middle of one; the daemon reads no more of it than it can answer, and goes on for others."""
    quest = peer.add("x" * 400_000, external=True)
    other = Peer(server.socket)
    other.send(frame(QUESTS + "Get", {"id": quest}) * 30)
    assert other.socket.recv(1000)
    other.close()
    until(lambda: connections(peer) == 1)
    assert peer.quest(quest)["state"] == "queued"


def test_a_client_that_leaves_during_a_wait_is_let_go(server: Daemon, peer: Peer) -> None:
    """With and without `more`, whether it hangs up or only ends its own direction."""
    quest = peer.add(external=True)
    for more in (True, False):
        with Peer(server.socket) as other:
            other.send(frame(QUESTS + "Wait", {"id": quest}, more=more))
            if more:
                assert other.reply()["continues"] is True
        until(lambda: connections(peer) == 1)
    with Peer(server.socket) as other:
        other.send(frame(QUESTS + "Wait", {"id": quest}, more=True))
        assert other.reply()["parameters"]["quest"]["state"] == "queued"
        other.socket.shutdown(1)
        assert other.receive() is None
    assert peer.quest(quest)["state"] == "queued"


def test_what_was_asked_before_the_end_is_answered_after_it(server: Daemon, project: Path) -> None:
    """A client may send its calls, end its direction, and read."""
    with Peer(server.socket, str(project)) as other:
        other.send(frame(QUESTS + "Add", {"task": "true", "directory": str(project)}) + frame(INFO))
        other.socket.shutdown(1)
        assert other.reply()["parameters"]["quest"]["id"].startswith("q-")
        assert other.reply()["parameters"]["product"] == "questlined"
        assert other.receive() is None


def test_a_oneway_call_is_carried_out_and_not_answered(peer: Peer) -> None:
    """Not even with an error."""
    peer.send(frame(QUESTS + "Add", {"task": "true", "directory": peer.directory, "external": True}, oneway=True))
    peer.send(frame(QUESTS + "Get", {"id": "q-000000000000"}, oneway=True))
    peer.send(frame("io.questline.Quests.Nothing", {}, oneway=True))
    assert peer.raw(INFO)["parameters"]["product"] == "questlined"
    assert peer.total() == 1


def test_more_of_a_method_that_has_one_answer_gives_one(peer: Peer) -> None:
    """It does not continue."""
    reply = peer.raw(MANAGER + "Status", more=True)
    assert "continues" not in reply
    assert peer.raw(INFO)["parameters"]["product"] == "questlined"


@pytest.mark.parametrize(
    ("method", "error", "parameters"),
    [
        ("io.questline.Quests.Nothing", "MethodNotFound", {"method": "io.questline.Quests.Nothing"}),
        ("org.varlink.service.Nothing", "MethodNotFound", {"method": "org.varlink.service.Nothing"}),
        ("io.questline.Add", "MethodNotFound", {"method": "io.questline.Add"}),
        ("io.nobody.Quests.Add", "InterfaceNotFound", {"interface": "io.nobody.Quests"}),
        ("Add", "InterfaceNotFound", {"interface": ""}),
        ("\x01" * 4000 + ".Add", "InterfaceNotFound", {"interface": "\x01" * 256}),
        ("io.questline." + "x" * 4000, "MethodNotFound", {"method": ("io.questline." + "x" * 4000)[:256]}),
    ],
)
def test_an_unknown_method_is_named(peer: Peer, method: str, error: str, parameters: dict[str, str]) -> None:
    """By the errors of Varlink itself; of a long name, its beginning."""
    assert peer.raw(method) == {"error": f"org.varlink.service.{error}", "parameters": parameters}


def test_an_unknown_interface_has_no_description(peer: Peer) -> None:
    """And a call that names none says which parameter is missing."""
    describe = "org.varlink.service.GetInterfaceDescription"
    unknown = peer.raw(describe, {"interface": "a.b"})
    assert unknown == {"error": "org.varlink.service.InterfaceNotFound", "parameters": {"interface": "a.b"}}
    missing = peer.raw(describe)
    assert missing == {"error": "org.varlink.service.InvalidParameter", "parameters": {"parameter": "interface"}}


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"task": "true", "directory": "/", "pirority": 1}, "pirority"),
        ({"directory": "/"}, "task"),
        ({"task": 7, "directory": "/"}, "task"),
        ({"task": "true", "directory": "/", "dependsOn": ["a", 2]}, "dependsOn[1]"),
        ({"task": "true", "directory": "/", "priority": 1.5}, "priority"),
        ({"task": "true", "directory": "/", "priority": "1"}, "priority"),
        ({"task": "true", "directory": "/", "external": 1}, "external"),
    ],
)
def test_a_wrong_parameter_is_named(peer: Peer, parameters: dict[str, object], field: str) -> None:
    """Unknown, missing or of another type, by its path."""
    reply = peer.raw(QUESTS + "Add", parameters)
    assert reply["error"] == "io.questline.InvalidInput"
    assert reply["parameters"]["field"] == field
    assert field in reply["parameters"]["message"]
