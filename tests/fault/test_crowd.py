"""Clients that hold all the places there are, and do nothing with them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene, scene
from tests.integration.server.peer import MANAGER, QUESTS, Peer, frame, until

PLACES = 20
CONFIG = f"bounds.max_connections = {PLACES}\n"


def idle(peer: Peer) -> None:
    """Says nothing at all."""


def halfway(peer: Peer) -> None:
    """Begins a call and never ends it."""
    peer.send(b'{"method":"org.varlink.service.GetInfo"')


def waiting(peer: Peer) -> None:
    """Waits for a quest that nobody will run."""
    quest = peer.add(external=True)
    peer.send(frame(QUESTS + "Wait", {"id": quest}, more=True))


def deaf(peer: Peer) -> None:
    """Asks for far more than it reads."""
    quest = peer.add("x" * 300_000, external=True)
    peer.send(frame(QUESTS + "Get", {"id": quest}) * 20)


def refused(stage: Scene) -> str | None:
    """The error that a client gets who comes now, None where it is served."""
    with Peer(stage.socket) as late:
        error = late.raw("org.varlink.service.GetInfo").get("error")
        assert error is None or isinstance(error, str)
        return error


@pytest.mark.parametrize("manner", [idle, halfway, waiting, deaf])
def test_peers_that_hold_every_place_are_refused_no_more_when_they_leave(tmp_path: Path, manner: object) -> None:
    """Until then who comes is told why at once, what was added runs, and who is connected is served."""
    assert callable(manner)
    with scene(tmp_path, CONFIG) as stage, Peer(stage.socket, str(stage.project)) as line, ExitStack() as crowd:
        quest = line.add(stage.held(after="echo result"))
        stage.started.next()
        for _ in range(PLACES - 1):
            manner(crowd.enter_context(Peer(stage.socket, str(stage.project))))
        until(lambda: line.call(MANAGER + "Health", allProjects=True)["connections"] == PLACES)
        assert [refused(stage) for _ in range(50)] == ["io.questline.LimitReached"] * 50
        assert stage.qlctl("list", check=False).returncode == 75
        stage.hold.put()
        assert line.ended(quest)["result"] == "result\n"
        crowd.close()
        until(lambda: line.call(MANAGER + "Health", allProjects=True)["connections"] == 1)
        assert refused(stage) is None
        assert stage.run("echo after")["quest"]["result"] == "after\n"
        stage.in_order()
