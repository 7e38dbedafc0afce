"""The client against a real socket: pieces, errors, streams, and connections that end in the middle."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qlctl import client as client_module
from qlctl import client as module
from qlctl import link
from qlctl.client import PATIENCE_S, QUIET_S, Client
from questlined.wire.errors import DaemonUnreachable, Internal, InvalidInput, NotFound, PermissionDenied
from tests.unit.qlctl.scripted import Answer, Clock, Hangup, Scripted, error, frame

Serve = Callable[[Answer], Scripted]


def plain() -> tuple[str, dict[str, object]]:
    """A call without parameters."""
    return "a.B.C", {}


def test_reply_cut_anywhere_is_put_together(serve: Serve, client: Client) -> None:
    """A reply may come byte by byte, and a multibyte character in two pieces."""

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        for byte in '{"parameters": {"task": "ä€😀"}}'.encode() + b"\0":
            yield bytes([byte])

    serve(answer)
    assert client.call("io.questline.Quests.Get", {"id": "q-1"}) == {"task": "ä€😀"}


def test_a_signal_that_came_before_a_read_is_handled_before_it(serve: Serve, client: Client) -> None:
    """Its byte in the pipe is taken, and the reply is waited for as before: here it comes only then."""
    client.woken_by, signalled = os.pipe2(os.O_NONBLOCK)
    os.write(signalled, b"\x02")

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        until_taken(client.woken_by)
        yield frame({"a": 1})

    serve(answer)
    assert client.call("a.B.C", {}) == {"a": 1}
    client.close()
    os.close(client.woken_by)
    os.close(signalled)


def until_taken(pipe: int | None) -> None:
    """Returns when the pipe is empty: asked for again and again, as nothing tells."""
    assert pipe is not None
    end = time.monotonic() + PATIENCE_S
    while select.select([pipe], [], [], 0)[0]:
        assert time.monotonic() < end, "nobody took it"


def test_request_is_one_varlink_call(serve: Serve, client: Client) -> None:
    """Method and parameters go out as Varlink has them; without `more` the key is absent."""
    service = serve(lambda _request: iter([frame({})]))
    client.call("io.questline.Manager.Status", {"text": 'ä"\\\n'})
    assert service.requests == [{"method": "io.questline.Manager.Status", "parameters": {"text": 'ä"\\\n'}}]


def test_changing_call_carries_a_new_request_id_each(serve: Serve, client: Client) -> None:
    """Two changes have two ids; a reading call has none."""
    service = serve(lambda _request: iter([frame({})]))
    client.change("a.B.C", {})
    client.change("a.B.C", {})
    client.call("a.B.C", {})
    first, second, third = (request["parameters"] for request in service.requests)
    assert len(first["requestId"]) == 32
    assert first["requestId"] != second["requestId"]
    assert "requestId" not in third


def test_end_before_the_reply_repeats_with_the_same_request_id(serve: Serve, client: Client, clock: Clock) -> None:
    """Neither no reply nor half a one counts as an answer; the call is repeated as it was, after growing pauses."""
    replies = iter([b"", b'{"parameters": {"qu', frame({"fine": True})])

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        piece = next(replies)
        yield piece
        if not piece.endswith(b"\0"):
            raise Hangup

    service = serve(answer)
    assert client.change("a.B.C", {"x": 1}) == {"fine": True}
    assert len(service.requests) == service.connections == 3
    assert len({request["parameters"]["requestId"] for request in service.requests}) == 1
    assert clock.pauses == [0.05, 0.1]


def test_patience_starts_anew_after_an_answer(serve: Serve, client: Client, clock: Clock) -> None:
    """A daemon that answered in between has not been away for the sum of both times."""
    alive = iter([False, True, False, True])

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        if not next(alive):
            raise Hangup
        yield frame({})

    serve(answer)
    client.call("a.B.C", {})
    clock.at += PATIENCE_S
    client.call("a.B.C", {})
    assert clock.pauses == [0.05, 0.05]


def test_daemon_that_went_away_is_given_up_after_thirty_seconds(serve: Serve, client: Client, clock: Clock) -> None:
    """Once met, a socket that is gone or refuses counts as restarting, but not for ever."""

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        os.unlink(client.path)
        yield b""
        raise Hangup

    serve(answer)
    before = clock.at
    with pytest.raises(DaemonUnreachable, match="did not come back"):
        client.change("a.B.C", {})
    assert PATIENCE_S <= clock.at - before <= PATIENCE_S + 2
    assert clock.pauses == sorted(clock.pauses)


def test_daemon_that_comes_back_answers(serve: Serve, tmp_path: Path, clock: Clock) -> None:
    """The socket file vanishes during a restart, and the repeated call reaches the new daemon."""
    path = tmp_path / "questlined.sock"

    def vanish(_request: dict[str, Any]) -> Iterator[bytes]:
        path.unlink()
        yield b""
        raise Hangup

    def pause(seconds: float) -> None:
        clock.pause(seconds)
        if len(clock.pauses) == 3:
            serve(lambda _request: iter([frame({"new": True})]))

    serve(vanish)
    client = Client(str(path), pause=pause, now=clock.now)
    assert client.change("a.B.C", {}) == {"new": True}
    client.close()


@pytest.mark.parametrize("kind", ["absent", "refusing", "plain file"])
def test_absent_daemon_is_said_at_once(
    client: Client, clock: Clock, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Never met: no patience, exit status 69, and the command that starts it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    if kind == "refusing":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(client.path)
    elif kind == "plain file":
        Path(client.path).touch()
    with pytest.raises(DaemonUnreachable) as caught:
        client.call("a.B.C", {})
    assert client.path in caught.value.message
    assert caught.value.hint == "start it: questlined"
    assert caught.value.exit_status == 69
    assert clock.pauses == []


def test_absent_daemon_with_a_user_unit_is_started_by_systemd(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the unit is installed the hint names it."""
    unit = tmp_path / "systemd/user/questlined.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(DaemonUnreachable) as caught:
        client.call("a.B.C", {})
    assert caught.value.hint.startswith("start it: systemctl --user start questlined; why ")


def test_absent_daemon_of_the_system_is_started_by_systemd(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the unit of its socket is installed."""
    unit = tmp_path / "questlined.service"
    unit.touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(client_module, "SYSTEM_UNIT", str(unit))
    monkeypatch.setattr(client_module, "SYSTEM_SOCKET", str(tmp_path / "system.sock"))
    with pytest.raises(DaemonUnreachable) as caught:
        Client(str(tmp_path / "system.sock"), pause=clock.pause, now=clock.now).call("a.B.C", {})
    assert caught.value.hint.startswith("start it: systemctl start questlined; why ")


def test_path_that_cannot_be_a_socket_is_bad_input(clock: Clock) -> None:
    """A path above the length that the kernel takes is the caller's mistake, not an absent daemon."""
    with pytest.raises(InvalidInput):
        Client("/" + "x" * 200, pause=clock.pause, now=clock.now).call("a.B.C", {})


def test_error_reply_becomes_its_exception(serve: Serve, client: Client) -> None:
    """With message, hint and its own parameters; the connection goes on."""
    replies = iter([error("io.questline.NotFound", id="q-9"), frame({"next": True})])
    service = serve(lambda _request: iter([next(replies)]))
    with pytest.raises(NotFound) as caught:
        client.call("a.B.C", {})
    assert (caught.value.message, caught.value.hint, caught.value.details["id"]) == ("told so", "do this", "q-9")
    assert client.call("a.B.C", {}) == {"next": True}
    assert service.connections == 1


def test_unknown_method_asks_for_the_version_and_only_then(serve: Serve, client: Client) -> None:
    """The message says that the daemon is older, by how it calls itself."""

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request["method"] == "org.varlink.service.GetInfo":
            yield frame({"version": "0.0.1"})
        else:
            yield frame({"method": "New"}, error="org.varlink.service.MethodNotFound")

    service = serve(answer)
    with pytest.raises(Internal, match=r"questlined 0\.0\.1 .*older than qlctl"):
        client.call("io.questline.Quests.New", {})
    assert [request["method"] for request in service.requests] == [
        "io.questline.Quests.New",
        "org.varlink.service.GetInfo",
    ]


@pytest.mark.parametrize("reply", [b"rubbish\0", b"[]\0", b'{"parameters": 3}\0', b"\xff\0", b'{"a": NaN}\0', b"\0"])
def test_rubbish_is_no_daemon(serve: Serve, client: Client, reply: bytes) -> None:
    """Something else listens there: said plainly, not a traceback."""
    serve(lambda _request: iter([reply]))
    with pytest.raises(DaemonUnreachable, match="no Varlink reply"):
        client.call("a.B.C", {})


def test_reply_without_end_is_cut_off(serve: Serve, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by the frame limit."""
    monkeypatch.setattr(link, "MAX_REPLY_BYTES", 1000)
    serve(lambda _request: iter([b"x" * 600, b"x" * 600]))
    with pytest.raises(DaemonUnreachable, match="more than 1000 bytes"):
        client.call("a.B.C", {})


def test_giant_request_is_bad_input_and_not_repeated_for_ever(serve: Serve, client: Client) -> None:
    """The daemon hangs up on a frame above its limit; the second time that is the reason."""

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield b""
        raise Hangup

    service = serve(answer)
    with pytest.raises(InvalidInput) as caught:
        client.change("a.B.C", {"task": "x" * (4 << 20)})
    assert caught.value.details["setting"] == "bounds.max_frame_bytes"
    assert service.connections == 2


def test_stream_gives_every_reply(serve: Serve, client: Client) -> None:
    """A `more` call ends with the reply that does not continue; the connection serves the next call."""

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request.get("more"):
            yield frame({"n": 1}, continues=True) + frame({"n": 2}, continues=True)
        yield frame({"n": 3})

    service = serve(answer)
    assert [reply["n"] for reply in client.stream(plain)] == [1, 2, 3]
    assert client.call("a.B.C", {}) == {"n": 3}
    assert service.connections == 1


def test_stream_goes_on_after_a_lost_connection_with_fresh_parameters(serve: Serve, client: Client) -> None:
    """What `fresh` gives at the second connect is what is sent there."""
    cursors = iter([0, 2])

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request["parameters"]["from"] == 0:
            yield frame({"n": 1}, continues=True)
            raise Hangup
        yield frame({"n": 2})

    service = serve(answer)
    assert [reply["n"] for reply in client.stream(lambda: ("a.B.C", {"from": next(cursors)}))] == [1, 2]
    assert service.connections == 2


def test_a_loss_is_news_once_it_lasts(serve: Serve, client: Client, clock: Clock) -> None:
    """Told once for each, when the daemon has been away for QUIET_S."""
    hangups = iter([True, False, *[True] * 8, False])
    client.on_loss, client.on_absence = lambda: told.append("loss"), lambda: told.append(f"{clock.at - begun:.2f}")
    told: list[str] = []

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        if next(hangups):
            raise Hangup
        yield frame({})

    serve(answer)
    begun = clock.at
    client.call("a.B.C", {})
    assert told == ["loss"]
    begun = clock.at
    client.call("a.B.C", {})
    assert told[1] == "loss"
    assert QUIET_S <= float(told[2]) < 2 * QUIET_S
    assert len(told) == 3


@pytest.mark.parametrize("signals", [False, True])
def test_an_absence_is_told_while_the_reply_is_waited_for(
    serve: Serve, client: Client, monkeypatch: pytest.MonkeyPatch, signals: bool
) -> None:
    """A socket that systemd keeps takes the call, and nobody is there to answer it."""
    monkeypatch.setattr(module, "QUIET_S", 0.01)
    told = threading.Event()
    client.on_absence = told.set
    if signals:
        client.woken_by, signalled = os.pipe2(os.O_NONBLOCK)
    first = iter([True])

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        if next(first, False):
            raise Hangup
        assert told.wait(PATIENCE_S)
        yield frame({"a": 1})

    serve(answer)
    assert client.call("a.B.C", {}) == {"a": 1}
    client.close()
    if signals:
        os.close(client.woken_by)
        os.close(signalled)


def test_stream_left_early_does_not_answer_the_next_call(serve: Serve, client: Client) -> None:
    """Its connection is closed, as replies to it may still come."""

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request.get("more"):
            yield frame({"n": 1}, continues=True) + frame({"n": 2}, continues=True)
        else:
            yield frame({"mine": True})

    serve(answer)
    stream = client.stream(plain)
    assert next(iter(stream)) == {"n": 1}
    stream.close()  # type: ignore[attr-defined]
    assert client.call("a.B.C", {}) == {"mine": True}


def test_stream_with_a_deadline_gives_up_on_a_daemon_that_is_away(serve: Serve, client: Client, clock: Clock) -> None:
    """TimeoutError at the deadline, though patience would last longer."""

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        os.unlink(client.path)
        yield b""
        raise Hangup

    serve(answer)
    with pytest.raises(TimeoutError):
        list(client.stream(plain, clock.at + 3))
    assert clock.at < 1000 + 3 + 2.1


def test_socket_of_others_is_permission_denied(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 77, not `no daemon`. The refusal is made here, as root may open every socket."""

    class Closed:
        def __init__(self, *_arguments: object) -> None: ...

        def connect(self, _path: str) -> None:
            raise PermissionError(13, "Permission denied")

        def close(self) -> None: ...

    monkeypatch.setattr("_socket.socket", Closed)
    with pytest.raises(PermissionDenied, match="no access to"):
        client.call("a.B.C", {})
