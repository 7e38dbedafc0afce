"""A real daemon and strangers on its socket: whatever they send, or do not read, others are answered meanwhile."""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.fuzz.calls import Memory
from tests.fuzz.house import INFO, Reply, checked, read_call, waits
from tests.fuzz.inputs import Inputs
from tests.fuzz.mutate import JSON
from tests.integration.server.peer import LEASES, MANAGER, QUESTS, Peer, until
from tests.support.daemon import Daemon
from tests.support.evidence import alive
from tests.support.invariants import broken

SEED = int(os.environ.get("FUZZ_SEED", "20261"))
INPUTS, BATCH = 20_000, 50
CONFIG = """
executor.command = ["true"]
backoff_base = "1ms"
bounds.max_frame_bytes = "64KiB"
bounds.max_connections = 64
scheduler.max_concurrent = 2
"""
PATIENCE_S = 30.0
SLOWEST_S = 3.0  # a call of the well-behaved client, its commits included, on a machine that does much else
RESIDENT_MAX_KIB = 160 * 1024
ENDLESS_BYTES = 100 * 1024 * 1024
STALLED_MAX = 24


class Guest(threading.Thread):
    """A client that behaves: it adds, looks, claims, ends, and notes how long its longest call took."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__()
        self.peer = Peer(daemon.socket, str(daemon.folder / "guest"))
        (daemon.folder / "guest").mkdir()
        self.stopping, self.slowest_s, self.calls = threading.Event(), 0.0, 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Until it is told to stop, or something is not as it should be."""
        try:
            while not self.stopping.is_set():
                self._round()
        except BaseException as error:  # the main thread raises it
            self.failure = error

    def _round(self) -> None:
        quest = self._timed(lambda: self.peer.add("guest", external=True))
        assert self._timed(lambda: self.peer.quest(quest))["state"] == "queued"
        if not self._timed(lambda: self.peer.call(MANAGER + "Status"))["paused"]:
            claimed = self._claim()
            if claimed is not None:
                assert claimed["quest"]["id"] == quest
                done = self._timed(lambda: self.peer.call(LEASES + "Done", attempt=claimed["run"]["id"]))
                assert done["quest"]["state"] == "done"
                return
        assert self._timed(lambda: self.peer.call(QUESTS + "Cancel", id=quest))["quest"]["state"] == "cancelled"

    def _claim(self) -> JSON | None:
        """None where a stranger has paused everything since."""
        reply = self._timed(lambda: self.peer.raw(LEASES + "Claim", {"directory": self.peer.directory}))
        assert reply.get("error") in (None, "io.questline.NothingToClaim"), reply
        return None if "error" in reply else reply["parameters"]

    def _timed(self, call: Callable[[], Any]) -> Any:
        start = time.monotonic()
        answer = call()
        self.slowest_s = max(self.slowest_s, time.monotonic() - start)
        self.calls += 1
        return answer

    def finish(self) -> None:
        """Stop. Raises what went wrong."""
        self.stopping.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), "a call of the well-behaved client is not answered"
        if self.failure is not None:
            raise self.failure


class Stranger:
    """Sends batches of inputs in every manner; each returns when the daemon has done with it, or is left behind."""

    def __init__(self, daemon: Daemon, random: Random) -> None:
        self.daemon, self.random = daemon, random
        self.memory = Memory(str(daemon.project))
        self.stalled: list[socket.socket] = []
        self.manners = (self.polite, self.polite, self.half_closed, self.abandoned, self.stalling, self.flooding)

    def connect(self) -> socket.socket:
        """A connection, blocking with patience."""
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE_S)
        made.connect(self.daemon.socket)
        return made

    def polite(self, frames: list[bytes]) -> None:
        """Reads every answer. All calls are answered, up to what is no call, in order."""
        self._answered(frames, shut=False)

    def half_closed(self, frames: list[bytes]) -> None:
        """Says that nothing more will come. All is answered, and the connection ends."""
        self._answered(frames, shut=True)

    def _answered(self, frames: list[bytes], *, shut: bool) -> None:
        kept = [frame for frame in frames if not waits(read_call(frame))]
        calls = [read_call(frame) for frame in kept]
        number = calls.index(None) + 1 if None in calls else len(calls)
        expected = sum(call is None or not call.oneway for call in calls[:number]) + (None not in calls)
        data = b"".join(frame + b"\0" for frame in (*kept, INFO))
        with self.connect() as line:
            replies = _exchange(line, data, expected, to_end=shut or None in calls, shut=shut)
        assert len(replies) == expected, f"{len(replies)} answers instead of {expected}"
        for reply in replies:
            if reply.error is None:
                self.memory.learn(reply.parameters)

    def abandoned(self, frames: list[bytes]) -> None:
        """Goes away in the middle of an answer, or of a call."""
        data = b"".join(frame + b"\0" for frame in frames)
        with self.connect() as line:
            _push(line, data[: self.random.randrange(1, len(data) + 1)])
            if self.random.random() < 0.5:
                select.select([line], [], [], 0)
                line.setblocking(False)
                try:
                    line.recv(10)
                except OSError:
                    pass

    def stalling(self, frames: list[bytes]) -> None:
        """Never reads, and stays."""
        line = self.connect()
        _push(line, b"".join(frame + b"\0" for frame in frames))
        self.stalled.append(line)
        if len(self.stalled) > STALLED_MAX:
            self.stalled.pop(0).close()

    def flooding(self, frames: list[bytes]) -> None:
        """Writes without reading for as long as the daemon takes it."""
        with self.connect() as line:
            flood = [frame for frame in frames if read_call(frame) is not None] or [INFO]
            _push(line, b"".join(frame + b"\0" for frame in flood) + (INFO + b"\0") * 20_000)

    def endless(self) -> None:
        """One frame of 100 MB, never ended: it is refused at its bound, and the connection ends."""
        with self.connect() as line:
            sent = 0
            try:
                while sent < ENDLESS_BYTES:
                    sent += line.send(b"x" * (1 << 20))
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert sent < ENDLESS_BYTES, "100 MB were taken"

    def leave(self) -> None:
        """Hang up what stalled."""
        for line in self.stalled:
            line.close()


def _push(line: socket.socket, data: bytes) -> None:
    """Write what is taken at once."""
    line.setblocking(False)
    try:
        view = memoryview(data)
        while view:
            view = view[line.send(view) :]
    except (BlockingIOError, BrokenPipeError, ConnectionResetError):
        pass


def _exchange(line: socket.socket, data: bytes, expected: int, *, to_end: bool, shut: bool) -> list[Reply]:
    """Write and read at once; all final answers, up to `expected` of them or to the end of the connection."""
    line.setblocking(False)
    read, view = b"", memoryview(data)
    finals: list[Reply] = []
    end = time.monotonic() + PATIENCE_S
    while to_end or len(finals) < expected:
        ready, writable, _ = select.select([line], [line] if view else [], [], max(0.0, end - time.monotonic()))
        assert ready or writable, f"{len(finals)} answers of {expected} within {PATIENCE_S} s"
        try:
            if writable:
                view = view[line.send(view) :]
                if not view and shut:
                    line.shutdown(socket.SHUT_WR)
            block = line.recv(1 << 18) if ready else b""
        except (BrokenPipeError, ConnectionResetError):  # it hung up on rubbish; what it said may still be read
            view, block = memoryview(b""), _rest(line)
            to_end, ready = False, []
            expected = 0
        *whole, read = (read + block).split(b"\0")
        replies = [checked(frame) for frame in whole]
        finals += [reply for reply in replies if not reply.continues]
        if ready and not block:
            break
    assert not read, f"an answer was cut: {read[:200]!r}"
    return finals


def _rest(line: socket.socket) -> bytes:
    rest = b""
    try:
        while block := line.recv(1 << 18):
            rest += block
    except OSError:
        pass
    return rest


def status(daemon: Daemon, field: str) -> int:
    """A figure of the daemon's /proc/PID/status."""
    found = re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{daemon.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_strangers_do_not_hurt_a_daemon_or_its_other_clients(tmp_path: Path) -> None:
    """Twenty thousand inputs in every manner; a guest is served all the time; the daemon stays small and ends well."""
    with Daemon(tmp_path, CONFIG) as daemon:
        guest = Guest(daemon)
        descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        guest.start()
        random = Random(SEED)
        stranger = Stranger(daemon, random)
        inputs = Inputs(stranger.memory, without={MANAGER + "Reexec"})  # its job is to end every connection
        try:
            for number in range(0, INPUTS, BATCH):
                frames = inputs.batch(SEED, number, BATCH)
                manner = random.choice(stranger.manners)
                try:
                    manner(frames)
                except (AssertionError, msgspec.MsgspecError) as error:
                    raise AssertionError(
                        f"FUZZ_SEED={SEED}, input {number} and on, {manner.__name__}: {error}"
                    ) from error
                if number % (INPUTS // 4) == 0:
                    stranger.endless()
        finally:
            stranger.leave()
            guest.finish()
        until(lambda: guest.peer.call(MANAGER + "Health", allProjects=True)["connections"] == 1)
        print(f"{guest.calls} calls, slowest {guest.slowest_s:.3f} s, {status(daemon, 'VmHWM')} KiB, {inputs.kinds}")
        assert guest.slowest_s < SLOWEST_S
        assert status(daemon, "VmHWM") < RESIDENT_MAX_KIB
        until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= descriptors + 2)
        guest.peer.close()
        assert daemon.stop() == 0
    log = daemon.log.read_text()
    assert not [bad for bad in ("Traceback", "has a fault", "failed, ignoring") if bad in log], log[-4000:]
    database = daemon.state / "quests.sqlite"
    assert alive(database) == []
    assert broken(database) == []
