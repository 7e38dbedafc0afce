"""Ten thousand quests, a thousand dependencies of one, a chain of five thousand: all of it answers at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.peer import LEASES, MANAGER, PATIENCE_S, QUESTS, Peer, frame
from tests.support.daemon import Daemon

MANY, WIDE, CHAIN, BATCH = 10_000, 1_000, 5_000, 2_500
STALL_S = 10.0  # others wait no longer than this while a chain falls or comes back, be the machine ever so busy


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("many")) as running:
        yield running
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def peer(daemon: Daemon, tmp_path: Path) -> Iterator[Peer]:
    with Peer(daemon.socket, str(tmp_path.resolve())) as connected:
        yield connected


def add(peer: Peer, quests: list[dict[str, Any]]) -> list[str]:
    """Add quests that nothing runs; their ids. A dependency may be the name of one of the same batch, or an id."""
    ids: dict[str, str] = {}
    for start in range(0, len(quests), BATCH):
        batch = [
            quest | {"external": True, "task": "true", "maxAttempts": 1} for quest in quests[start : start + BATCH]
        ]
        for quest in batch:
            quest["dependsOn"] = [ids.get(name, name) for name in quest.get("dependsOn", [])]
        added = peer.call(QUESTS + "AddMany", directory=peer.directory, quests=batch)["added"]
        ids |= {quest["name"]: one["id"] for quest, one in zip(batch, added, strict=True)}
    return list(ids.values())


def listed(peer: Peer) -> list[str]:
    """The ids of the project's quests, newest first, page by page."""
    found: list[str] = []
    page = peer.call(QUESTS + "List", directory=peer.directory, limit=1000)
    while True:
        found += [quest["id"] for quest in page["quests"]]
        if not page.get("next"):
            return found
        page = peer.call(QUESTS + "List", directory=peer.directory, limit=1000, cursor=page["next"])


def counts(peer: Peer) -> dict[str, int]:
    """The states that any quest of the project is in."""
    found = peer.call(MANAGER + "Health", directory=peer.directory)["counts"]
    return {state: number for state, number in found.items() if number}


class Onlooker:
    """Another client that asks for its own all the while; `longest` is what it had to wait, in seconds."""

    def __init__(self, path: str) -> None:
        self._peer, self._over, self.longest = Peer(path), threading.Event(), 0.0
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.is_set():
            begun = time.monotonic()
            self._peer.call(MANAGER + "Health", allProjects=True)
            self.longest = max(self.longest, time.monotonic() - begun)

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)
        self._peer.close()


def work(peer: Peer, number: int) -> None:
    """Claim so many quests and do them, some at a time."""
    while number:
        some = min(number, 50)
        number -= some
        peer.send(frame(LEASES + "Claim", {"directory": peer.directory}) * some)
        runs = [peer.reply()["parameters"]["run"]["id"] for _ in range(some)]
        peer.send(b"".join(frame(LEASES + "Done", {"attempt": run}) for run in runs))
        assert all("error" not in peer.reply() for _ in range(some))


def fail(peer: Peer) -> None:
    """Claim the one quest that can be claimed, and let its only attempt fail."""
    run = peer.claim()["run"]
    peer.call(LEASES + "Fail", attempt=run["id"], reason="on purpose")


def test_ten_thousand_are_listed_whole(peer: Peer) -> None:
    """Each once, newest first, and counted."""
    ids = add(peer, [{"name": f"quest {number}"} for number in range(MANY)])
    assert listed(peer) == ids[::-1]
    assert counts(peer) == {"queued": MANY}


def test_a_thousand_dependencies_of_one_are_shown_and_waited_for(daemon: Daemon, peer: Peer) -> None:
    """The last of them to fail fails it, and a retry of that one brings it back."""
    names = [f"part {number}" for number in range(WIDE)]
    *parts, whole = add(peer, [*({"name": name} for name in names), {"name": "whole", "dependsOn": names}])
    assert set(peer.quest(whole)["dependsOn"]) == set(parts)
    gates = peer.call(QUESTS + "Why", id=whole)["gates"]
    assert {gate["gate"] for gate in gates} == {"dependency", "external"}
    work(peer, WIDE - 1)
    with Onlooker(daemon.socket) as onlooker:
        fail(peer)
        assert (peer.quest(whole)["state"], peer.quest(whole)["failureKind"]) == ("failed", "dependency")
        peer.call(QUESTS + "Retry", id=parts[-1])
        assert peer.quest(whole)["state"] == "queued"
    assert onlooker.longest < STALL_S
    work(peer, 1)
    assert peer.claim()["quest"]["id"] == whole


def test_a_chain_of_five_thousand_falls_and_comes_back(daemon: Daemon, peer: Peer) -> None:
    """At once and as a whole, while others are answered; nothing recurses."""
    links = [{"name": "link 0"}]
    links += [{"name": f"link {number}", "dependsOn": [f"link {number - 1}"]} for number in range(1, CHAIN)]
    ids = add(peer, links)
    with Onlooker(daemon.socket) as onlooker:
        fail(peer)
        assert counts(peer) == {"failed": CHAIN}
        last = peer.quest(ids[-1])
        assert (last["failureKind"], last["dependsOn"]) == ("dependency", [ids[-2]])
        peer.call(QUESTS + "Retry", id=ids[0])
        assert counts(peer) == {"queued": CHAIN}
        assert listed(peer) == ids[::-1]
        peer.call(QUESTS + "Cancel", id=ids[0])
        assert counts(peer) == {"cancelled": 1, "failed": CHAIN - 1}
    assert onlooker.longest < STALL_S
