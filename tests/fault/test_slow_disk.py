"""A disk that is slow, or hangs: writes wait for it and nobody else does, and nothing is said that is not on it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.attempts.scene import Scene, scene
from tests.integration.server.peer import MANAGER, QUESTS, Peer, frame
from tests.support import strace
from tests.support.evidence import PATIENCE_S

SLOW = ["fdatasync:delay_enter=100000", "fsync:delay_enter=100000"]
HANGING = ["fdatasync:delay_enter=60000000", "fsync:delay_enter=60000000"]
BROKEN = ["fdatasync:error=EIO", "fsync:error=EIO"]
LEASES = 'lease_ttl = "3s"\nheartbeat = "1s"\n'
INFO = "org.varlink.service.GetInfo"
AT_ONCE_S = 1.0  # tracing costs some; a loop that waits for the disk needs far longer


class Asking:
    """Asks on a connection of its own, again and again, until the block ends; how long the slowest answer took."""

    def __init__(self, stage: Scene) -> None:
        self._peer = Peer(stage.socket)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.slowest_s, self.answers = 0.0, 0

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()
        self._peer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            for method in (INFO, MANAGER + "Status"):
                began = time.monotonic()
                assert "parameters" in self._peer.raw(method)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.answers += 1


def test_on_a_slow_disk_everything_works_and_the_loop_waits_for_nobody(tmp_path: Path) -> None:
    """Each sync takes a tenth of a second: quests are added, run and end; leases are kept; reads come at once."""
    with scene(tmp_path, LEASES) as stage:
        held = stage.add(stage.held())
        stage.started.next()
        with strace.injected(stage.pid, *SLOW), Asking(stage) as asking:
            quests = [stage.add(f"echo {number}") for number in range(10)]
            assert [stage.ended(quest)["quest"]["result"] for quest in quests] == [f"{n}\n" for n in range(10)]
            first = stage.call("Quests.Get", id=held)["quest"]["leaseExpiresAt"]
            stage.until(held, lambda seen: seen["quest"]["leaseExpiresAt"] > first)
        assert asking.answers > 20
        assert asking.slowest_s < AT_ONCE_S
        stage.hold.put()
        assert stage.ended(held)["quest"]["attempts"] == 1
        stage.in_order()


@contextmanager
def manager(folder: Path) -> Iterator[socket.socket]:
    """systemd's end of a notify socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(folder / "manager.sock"))
        notified.settimeout(PATIENCE_S)
        yield notified


def drained(notified: socket.socket) -> bytes:
    """What is there to be read now."""
    notified.setblocking(False)
    said = b""
    try:
        while True:
            said += notified.recv(65536) + b"\n"
    except BlockingIOError:
        return said
    finally:
        notified.settimeout(PATIENCE_S)


def fed(notified: socket.socket) -> None:
    """Returns when the watchdog is fed."""
    while b"WATCHDOG=1" not in notified.recv(65536):
        pass


def test_a_hanging_disk_ends_the_feeding_of_the_watchdog_and_no_answer_is_given(tmp_path: Path) -> None:
    """What needs no write is answered; the writer is named in the log, health says that a write waits; when the disk is
    back the call is answered and the watchdog is fed again."""
    stage = Scene(tmp_path)
    with manager(tmp_path) as notified:
        try:
            stage.start(ready=False, NOTIFY_SOCKET=str(tmp_path / "manager.sock"), WATCHDOG_USEC="600000")
            fed(notified)
            with Peer(stage.socket, str(stage.project)) as adding:
                with strace.injected(stage.pid, *HANGING):
                    adding.send(frame(QUESTS + "Add", {"task": "echo hung", "directory": str(stage.project)}))
                    wait_for(lambda: "writer did not come round" in stage.log.read_text())
                    drained(notified)
                    for _ in range(3):
                        seen = stage.log.read_text().count("writer did not come round")
                        wait_for(lambda: stage.log.read_text().count("writer did not come round") > seen)  # noqa: B023
                        assert stage.call("Manager.Status")["counts"]["queued"] == 0
                    assert b"WATCHDOG" not in drained(notified)
                    wait_for(lambda: any("one write" in what for what in problems(stage)))
                    adding.socket.setblocking(False)
                    try:
                        raise AssertionError(adding.socket.recv(1))
                    except BlockingIOError:
                        adding.socket.settimeout(PATIENCE_S)
                quest = adding.reply()["parameters"]["quest"]["id"]
            fed(notified)
            assert stage.ended(quest)["quest"]["result"] == "hung\n"
            assert problems(stage) == []
            stage.in_order()
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()


def problems(stage: Scene) -> list[str]:
    """What health finds."""
    return [problem["what"] for problem in stage.call("Manager.Health", allProjects=True)["problems"]]


def wait_for(holds: Any) -> None:
    """Look again until it holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, "it never came to be"


def test_a_sync_that_fails_is_answered_to_nobody(tmp_path: Path) -> None:
    """The daemon ends with 70; its next start knows, and the call that comes again is answered with the truth."""
    with scene(tmp_path) as stage:
        kept = stage.add("echo kept", "--external")
        with strace.injected(stage.pid, *BROKEN), Peer(stage.socket, str(stage.project)) as adding:
            call = frame(QUESTS + "Add", {"task": "echo twice", "directory": str(stage.project), "requestId": "r"})
            adding.send(call)
            assert adding.receive() is None
            assert stage.wait() == 70
        stage.start()
        for _ in range(2):
            with Peer(stage.socket) as again:
                again.send(call)
                quest = again.reply()["parameters"]["quest"]["id"]
        assert stage.ended(quest)["quest"]["result"] == "twice\n"
        assert {each["id"] for each in stage.json("list")} == {kept, quest}
        stage.in_order()
