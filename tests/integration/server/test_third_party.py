"""The `varlink` package from PyPI, which knows nothing of questline, drives the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import varlink

from questlined import __version__
from questlined.wire import interfaces
from tests.support.daemon import Daemon


@pytest.fixture
def client(server: Daemon) -> Any:
    return varlink.Client.new_with_address(f"unix:{server.socket}")


@pytest.fixture
def quests(client: Any) -> Iterator[Any]:
    with client.open("io.questline.Quests") as connection:
        yield connection


def test_the_service_says_who_it_is(client: Any) -> None:
    """GetInfo: product, version and every interface."""
    with client.open("org.varlink.service") as service:
        info = service.GetInfo()
    assert (info["vendor"], info["product"], info["version"]) == ("questline", "questlined", __version__)
    assert tuple(info["interfaces"]) == interfaces.NAMES


@pytest.mark.parametrize("name", interfaces.NAMES)
def test_every_interface_describes_itself(client: Any, name: str) -> None:
    """As the file that is shipped, and so that the client can parse it."""
    described = client.get_interface(name)
    assert described.name == name
    assert described.description == interfaces.description(name)


def test_a_quest_is_added_waited_for_and_read(quests: Any, project: Path) -> None:
    """With `more`, each state is a reply, the last one the end."""
    added = quests.Add(task="echo hi", directory=str(project), name="greet", priority=3)
    assert added["deduped"] is False
    quest = added["quest"]["id"]
    states = [reply["quest"]["state"] for reply in quests.Wait(id=quest, _more=True)]
    assert states[-1] == "done"
    assert set(states) <= {"queued", "running", "done"}
    got = quests.Get(id=quest)
    assert (got["quest"]["result"], got["quest"]["priority"]) == ("hi\n", 3)
    assert [run["exitCode"] for run in got["runs"]] == [0]
    assert {artifact["kind"] for artifact in got["artifacts"]} == {"stdout", "stderr"}
    assert [each["id"] for each in quests.List(directory=str(project))["quests"]] == [quest]


def test_one_wait_without_more_is_one_answer(quests: Any, project: Path) -> None:
    """The end itself."""
    quest = quests.Add(task="exit 4", directory=str(project))["quest"]["id"]
    waited = quests.Wait(id=quest)
    assert (waited["quest"]["state"], waited["timedOut"]) == ("failed", False)


def test_errors_come_with_typed_parameters(quests: Any) -> None:
    """By their name, with message, hint and what the error is about."""
    with pytest.raises(varlink.VarlinkError) as caught:
        quests.Get(id="q-000000000000")
    assert caught.value.error() == "io.questline.NotFound"
    assert set(caught.value.parameters()) == {"message", "hint", "id"}
    assert caught.value.parameters()["id"] == "q-000000000000"


def test_a_claim_is_worked_on_from_outside(client: Any, quests: Any, project: Path) -> None:
    """Claim, heartbeat, done."""
    quest = quests.Add(task="by hand", directory=str(project), external=True)["quest"]["id"]
    with client.open("io.questline.Leases") as leases:
        claimed = leases.Claim(directory=str(project), agent="me")
        attempt = claimed["run"]["id"]
        assert leases.Heartbeat(attempt=attempt)["cancelRequested"] is False
        assert leases.Done(attempt=attempt, result="did it")["quest"]["state"] == "done"
    assert quests.Get(id=quest)["quest"]["result"] == "did it"
