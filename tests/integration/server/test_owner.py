"""Who may do what: the daemon's owner everything, others add, and see and steer their own quests."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from questlined.server import listener
from tests.integration.server.peer import LEASES, MANAGER, QUESTS, Peer, Refused
from tests.support.daemon import SHELL, Daemon

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on another uid")

NOBODY, STRANGER, LONER = 65534, 65533, 65532
PROJECTS = "io.questline.Projects."


@pytest.fixture(scope="module")
def door() -> Iterator[Daemon]:
    """A daemon whose socket is open to everybody, in a directory that everybody may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with Daemon(Path(folder), SHELL + 'socket_mode = "0666"\nscheduler.max_concurrent = 32\n') as daemon:
            yield daemon


def connected_as(uid: int, daemon: Daemon) -> Peer:
    """A connection of this uid: the kernel notes who connects, not who writes."""
    os.seteuid(uid)
    try:
        return Peer(daemon.socket, str(daemon.project))
    finally:
        os.seteuid(0)


@pytest.fixture
def nobody(door: Daemon) -> Iterator[Peer]:
    with connected_as(NOBODY, door) as peer:
        yield peer


@pytest.fixture
def owner(door: Daemon) -> Iterator[Peer]:
    with Peer(door.socket, str(door.project)) as peer:
        yield peer


def refused(peer: Peer, method: str, **parameters: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        peer.call(method, **parameters)
    return caught.value


def test_others_add_and_follow_their_own_to_the_end(nobody: Peer) -> None:
    """It runs as the daemon's user; whose it is stays known."""
    quest = nobody.add("echo mine")
    assert nobody.ended(quest)["result"] == "mine\n"
    assert len(nobody.call(QUESTS + "Runs", id=quest)["runs"]) == 1
    assert [event["event"] for event in nobody.call(QUESTS + "Events", id=quest)["events"]][-1] == "enqueued"
    assert nobody.call(QUESTS + "Why", id=quest)["gates"] == []


def test_others_steer_their_own(nobody: Peer) -> None:
    """Cancel and retry, edit and block."""
    quest = nobody.add(external=True)
    assert nobody.call(QUESTS + "Cancel", id=quest)["quest"]["state"] == "cancelled"
    assert nobody.call(QUESTS + "Retry", id=quest)["quest"]["state"] == "queued"
    assert nobody.call(QUESTS + "Edit", id=quest, task="other")["quest"]["task"] == "other"
    assert nobody.call(QUESTS + "Block", id=quest)["quest"]["state"] == "blocked"


def test_others_are_told_of_what_happens_to_their_own_only(nobody: Peer, owner: Peer) -> None:
    """In a project and in all; the number to go on from is the same for everybody."""
    last = owner.call(QUESTS + "Watch", allProjects=True)["last"]
    theirs, mine = owner.add(external=True), nobody.add(external=True)
    again = owner.add(external=True)
    for where in ({"directory": nobody.directory}, {"allProjects": True}):
        seen, all_of_them = (peer.call(QUESTS + "Watch", after=last, **where) for peer in (nobody, owner))
        assert [event["questId"] for event in seen["events"]] == [mine]
        assert [event["questId"] for event in all_of_them["events"]] == [theirs, mine, again]
        assert seen["last"] == all_of_them["last"]


@pytest.mark.parametrize("method", ["Get", "Why", "Runs", "Events", "Wait", "Cancel", "Retry", "Edit", "Block"])
def test_quests_of_anybody_else_are_not_there_for_them(nobody: Peer, owner: Peer, method: str) -> None:
    """The answer is that of a quest that never was, so that nothing is told."""
    quest = owner.add(external=True)
    more = {"priority": 1} if method == "Edit" else {}
    error = refused(nobody, QUESTS + method, id=quest, **more)
    never = refused(nobody, QUESTS + method, id="q-ffffffffffff", **more)
    assert error.name == never.name == "io.questline.NotFound"
    assert error.parameters["message"].replace(quest, "") == never.parameters["message"].replace("q-ffffffffffff", "")
    assert owner.quest(quest)["state"] == "queued"


def test_a_list_shows_them_their_own_only(door: Daemon, nobody: Peer, owner: Peer) -> None:
    """In a project and in all; the owner sees every one."""
    mine, theirs = nobody.add(external=True), owner.add(external=True)
    with connected_as(STRANGER, door) as stranger:
        third = stranger.add(external=True)
        assert [quest["id"] for quest in stranger.call(QUESTS + "List", allProjects=True)["quests"]] == [third]
    for where in ({"directory": nobody.directory}, {"allProjects": True}):
        seen = {quest["id"] for quest in nobody.call(QUESTS + "List", **where)["quests"]}
        assert mine in seen
        assert not seen & {theirs, third}
        assert {mine, theirs, third} <= {quest["id"] for quest in owner.call(QUESTS + "List", **where)["quests"]}


def test_ids_of_others_do_not_make_a_prefix_ambiguous(door: Daemon, owner: Peer) -> None:
    """Nor are they named as candidates."""
    with connected_as(LONER, door) as loner:
        mine = loner.add(external=True)
        begun = mine[:3]
        while sum(quest["id"].startswith(begun) for quest in everything(owner)) < 2:
            owner.add(external=True)
        assert refused(owner, QUESTS + "Get", id=begun).name == "io.questline.Ambiguous"
        assert loner.quest(begun)["id"] == mine
        other = next(f"q-{digit}" for digit in "0123456789abcdef" if f"q-{digit}" != begun)
        assert refused(loner, QUESTS + "Get", id=other).name == "io.questline.NotFound"


def everything(owner: Peer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = owner.call(QUESTS + "List", allProjects=True, limit=1000)["quests"]
    return found


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (LEASES + "Claim", {}),
        (PROJECTS + "Pause", {}),
        (MANAGER + "Backup", {"keep": 1}),
        (PROJECTS + "Pause", {"all": True}),
        (PROJECTS + "Resume", {}),
        (QUESTS + "Run", {}),
        (QUESTS + "Events", {}),
        (QUESTS + "Events", {"allProjects": True}),
    ],
)
def test_what_touches_everybody_is_the_owners(
    door: Daemon, nobody: Peer, owner: Peer, method: str, parameters: dict[str, Any]
) -> None:
    """PermissionDenied, saying what; nothing has changed."""
    quest = owner.add(external=True)
    error = refused(nobody, method, **({} if parameters else {"directory": str(door.project)}), **parameters)
    assert error.name == "io.questline.PermissionDenied"
    assert error.parameters["what"] in error.parameters["message"]
    assert owner.quest(quest)["state"] == "queued"
    assert [gate["gate"] for gate in owner.call(QUESTS + "Why", id=quest)["gates"]] == ["external"]


@pytest.mark.parametrize("method", ["Reexec", "Reload"])
def test_the_daemon_itself_is_the_owners(nobody: Peer, method: str) -> None:
    """It goes on as it is."""
    before = nobody.call(MANAGER + "Status")
    assert refused(nobody, MANAGER + method).name == "io.questline.PermissionDenied"
    assert nobody.call(MANAGER + "Status") == before


@pytest.mark.parametrize("method", ["Done", "Fail", "Release", "Block", "Heartbeat"])
def test_leases_are_the_owners(nobody: Peer, owner: Peer, method: str) -> None:
    """Guessing an attempt's id ends nothing, and tells nothing: not even whether it is there."""
    quest = owner.add(external=True, lane=f"lane-{method}")
    attempt = owner.claim(lane=f"lane-{method}")["run"]["id"]
    for guessed in (attempt, "q-000000000000/1"):
        assert refused(nobody, LEASES + method, attempt=guessed).name == "io.questline.PermissionDenied"
    assert owner.quest(quest)["state"] == "running"
    owner.call(LEASES + "Done", attempt=attempt)


def test_the_same_request_id_of_two_users_is_two_calls(nobody: Peer, owner: Peer) -> None:
    """Nobody can take another's answer."""
    wanted = {"task": "x", "directory": owner.directory, "external": True, "requestId": "the same for both"}
    mine = nobody.call(QUESTS + "Add", **wanted)["quest"]["id"]
    assert owner.call(QUESTS + "Add", **wanted)["quest"]["id"] != mine


def test_everybody_may_ask_how_the_daemon_is(nobody: Peer) -> None:
    """Health and GetInfo."""
    assert nobody.call(MANAGER + "Health", directory=nobody.directory)["ok"] is True
    assert nobody.call("org.varlink.service.GetInfo")["product"] == "questlined"


def test_a_socket_of_the_usual_mode_lets_nobody_in() -> None:
    """0600: the kernel refuses."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with Daemon(Path(folder)) as daemon:
            assert stat.S_IMODE(os.stat(daemon.socket).st_mode) == 0o600
            with pytest.raises(PermissionError):
                connected_as(NOBODY, daemon)


def test_the_socket_is_private_from_its_first_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its mode is set, and whatever the umask is; a mode that lets others in comes last."""
    path, seen, real = str(tmp_path / "s"), [], os.chmod

    def chmod(name: str, mode: int) -> None:
        seen.append(stat.S_IMODE(os.stat(name).st_mode))
        real(name, mode)

    monkeypatch.setattr(os, "chmod", chmod)
    before = os.umask(0)
    try:
        with listener.bind(path, 0o666):
            assert (seen, stat.S_IMODE(os.stat(path).st_mode)) == ([0o600], 0o666)
    finally:
        assert os.umask(before) == 0


@pytest.mark.parametrize("method", ["Add", "Get", "List", "Pause", "Resume", "Remove", "Fire", "Timer"])
def test_recurring_quests_are_the_owners(nobody: Peer, owner: Peer, method: str) -> None:
    """They are added when nobody looks, for as long as they stand."""
    recurrences = "io.questline.Recurrences."
    asked = {"directory": owner.directory, "name": method.lower(), "cron": "0 0 29 2 *", "task": "true"}
    rule = owner.call(recurrences + "Add", **asked)["recurrence"]["id"]
    parameters = {"Add": asked, "List": {"allProjects": True}}.get(method, {"id": rule})
    error = refused(nobody, recurrences + method, **parameters)
    assert error.name == "io.questline.PermissionDenied"
    assert owner.call(recurrences + "Get", id=rule)["recurrence"]["enabled"] is True
