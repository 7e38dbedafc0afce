"""SIGSTOP: a daemon that stood still reclaims nothing healthy, and a child that stands still gets its end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.attempts.scene import scene
from tests.integration.server.peer import LEASES, MANAGER, Peer, Refused, frame

SHORT = 'lease_ttl = "2s"\nheartbeat = "500ms"\n'
LEASE_MS = 2000
STOPPED_S = 4.0


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """The process stands still for longer than any lease."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
        threading.Event().wait(STOPPED_S)  # real time: leases run out by it
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_daemon_that_stood_still_goes_on_with_its_own(tmp_path: Path) -> None:
    """Their leases have run out meanwhile, and nothing is made of it."""
    with scene(tmp_path, SHORT) as stage:
        quest = stage.add(stage.held(after="echo result"))
        stage.started.next()
        with standing_still(stage.pid):
            pass
        stage.call("Manager.Health", allProjects=True)
        stage.hold.put()
        ended = stage.ended(quest)["quest"]
        assert (ended["state"], ended["attempts"], ended["result"]) == ("done", 1, "result\n")
        stage.in_order()


def holding(holder: Peer) -> str:
    """A quest held from outside; its attempt."""
    holder.add(external=True)
    attempt: str = holder.claim(leaseMs=LEASE_MS)["run"]["id"]
    return attempt


def test_a_holder_that_knocked_while_the_daemon_stood_still_keeps_its_lease(tmp_path: Path) -> None:
    """Its heartbeat was in time, and nobody was there to take it."""
    with scene(tmp_path, SHORT) as stage, Peer(stage.socket, str(stage.project)) as holder:
        attempt = holding(holder)
        with standing_still(stage.pid):
            holder.send(frame(LEASES + "Heartbeat", {"attempt": attempt, "leaseMs": 60_000}))
        assert "error" not in (reply := holder.reply()), reply
        assert holder.call(LEASES + "Done", attempt=attempt)["quest"]["state"] == "done"


def test_a_holder_that_was_silent_while_the_daemon_stood_still_loses_its_lease(tmp_path: Path) -> None:
    """A little later than it would have."""
    with scene(tmp_path, SHORT) as stage, Peer(stage.socket, str(stage.project)) as holder:
        attempt = holding(holder)
        with standing_still(stage.pid):
            pass
        stage.until(attempt.partition("/")[0], lambda seen: seen["quest"]["state"] == "interrupted")
        with pytest.raises(Refused, match="StaleLease"):
            holder.call(LEASES + "Heartbeat", attempt=attempt)
        assert holder.call(MANAGER + "Health", allProjects=True)["ok"]


STANDS = 'echo $$ >"{started}"; kill -STOP $$; echo never'
FAMILY = 'setsid sh -c \'echo $$ >"{started}"; kill -STOP $$\' & echo $$ >"{started}"; kill -STOP $$; echo never'


@pytest.mark.parametrize("task", [STANDS, FAMILY], ids=["alone", "with a child that left its session"])
@pytest.mark.parametrize("way", ["timeout", "cancel"])
def test_a_child_that_stands_still_gets_its_end(tmp_path: Path, task: str, way: str) -> None:
    """It takes no SIGTERM; what follows the grace works on it."""
    with scene(tmp_path) as stage:
        timeout = ["--timeout", "1s"] if way == "timeout" else []
        quest = stage.add(stage.evidence.task(task.replace("{started}", str(stage.started.path))), *timeout)
        pids = [int(stage.started.next()) for _ in range(1 + ("setsid" in task))]
        if way == "cancel":
            stage.qlctl("cancel", quest)
        ended = stage.ended(quest)
        assert ended["run"]["class"] == {"timeout": "timeout", "cancel": "cancelled"}[way]
        assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
        stage.in_order()
