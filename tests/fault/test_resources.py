"""A machine, or a limit, that gives the daemon nothing more: no descriptor, no process. It waits, charges nobody, burns
no time, and goes on by itself."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene, scene
from tests.integration.server.peer import Peer
from tests.support import strace

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
QUIET = 0.5  # of a core, at most, while nothing can be had
QUIET_S = 3.0


@contextmanager
def descriptors(pid: int, spare: int = 0) -> Iterator[None]:
    """The process may open no more than `spare` beyond the highest it has."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(entry) for entry in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + spare, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def busy_s(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def said(stage: Scene) -> list[str]:
    """What the log says of who is not let in."""
    lines = stage.log.read_text().splitlines()
    assert len(lines) < 10, lines[:20]
    return [line.partition(": ")[0] for line in lines if "door" in line]


def stays_quiet(stage: Scene, line: Peer, quest: str) -> None:
    """For some seconds it uses little of the CPU."""
    used, began = busy_s(stage.pid), time.monotonic()
    waited = line.call("io.questline.Quests.Wait", id=quest, timeoutMs=int(QUIET_S * 1000))
    assert waited["timedOut"]
    assert busy_s(stage.pid) - used < QUIET * (time.monotonic() - began)


def test_without_a_descriptor_quests_wait_uncharged_and_clients_are_answered_later(tmp_path: Path) -> None:
    """What runs goes on and ends; who is connected is served; who comes waits, and is served when there are some."""
    with scene(tmp_path) as stage, Peer(stage.socket, str(stage.project)) as line, ExitStack() as left:
        running = stage.add(stage.held(after="echo held"))
        stage.started.next()
        with descriptors(stage.pid):
            waiting = line.add("echo waited")
            late = left.enter_context(Peer(stage.socket, str(stage.project)))
            late.send(b'{"method":"org.varlink.service.GetInfo"}\0')
            stays_quiet(stage, line, waiting)
            seen = line.quest(waiting)
            assert (seen["state"], seen["attempts"]) == ("queued", seen["refunds"])
            assert 1 <= seen["refunds"] <= 2
            stage.hold.put()
            ended = line.ended(running)
            assert (ended["state"], ended["result"]) == ("done", "held\n")
        assert late.reply()["parameters"]["product"] == "questlined"
        assert said(stage) == ["WARNING clients wait at the door"]
        ended = stage.ended(waiting)["quest"]
        assert (ended["state"], ended["result"], ended["attempts"] - ended["refunds"]) == ("done", "waited\n", 1)
        assert stage.run("echo after")["quest"]["attempts"] == 1
        stage.in_order()


def test_clients_that_use_up_all_descriptors_are_waited_out(tmp_path: Path) -> None:
    """More of them than the daemon may open: when they leave, the next ones are served and quests run."""
    with scene(tmp_path) as stage, Peer(stage.socket, str(stage.project)) as line:
        with descriptors(stage.pid, spare=20), ExitStack() as crowd:
            for _ in range(60):
                crowd.enter_context(Peer(stage.socket))
            waiting = line.add("echo waited")
            stays_quiet(stage, line, waiting)
            assert 1 <= line.quest(waiting)["refunds"] <= 2
        ended = stage.ended(waiting)["quest"]
        assert (ended["state"], ended["attempts"] - ended["refunds"]) == ("done", 1)
        assert line.call("io.questline.Manager.Health", allProjects=True)["ok"]
        stage.in_order()


@pytest.mark.parametrize("error", ["EAGAIN", "ENOMEM"])
def test_without_a_process_quests_wait_uncharged(tmp_path: Path, error: str) -> None:
    """Each try is given back, and the next one is not made at once."""
    with scene(tmp_path) as stage, Peer(stage.socket, str(stage.project)) as line:
        with strace.injected(stage.pid, *(f"{call}:error={error}" for call in ("fork", "vfork", "clone", "clone3"))):
            waiting = line.add("echo waited")
            stage.until(waiting, lambda seen: seen["quest"]["refunds"] == 1 and seen["quest"]["state"] == "queued")
            stays_quiet(stage, line, waiting)
            assert line.quest(waiting)["attempts"] <= 2
        ended = stage.ended(waiting)["quest"]
        assert (ended["state"], ended["result"], ended["attempts"] - ended["refunds"]) == ("done", "waited\n", 1)
        stage.in_order()


def test_a_full_table_of_files_keeps_nobody_out_for_good(tmp_path: Path) -> None:
    """ENFILE at the door: the daemon does not spin on it, and who waits is served afterwards."""
    with scene(tmp_path) as stage, Peer(stage.socket, str(stage.project)) as line:
        with strace.injected(stage.pid, "accept4:error=ENFILE"):
            late = Peer(stage.socket)
            late.send(b'{"method":"org.varlink.service.GetInfo"}\0')
            quest = line.add(stage.held())
            stage.started.next()
            stays_quiet(stage, line, quest)
        with late:
            assert late.reply()["parameters"]["product"] == "questlined"
        assert said(stage) == ["WARNING clients wait at the door"]
        stage.hold.put()
        assert stage.ended(quest)["quest"]["state"] == "done"
        stage.in_order()
