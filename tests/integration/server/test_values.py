"""What Add and AddMany refuse, by the name of the field, with nothing half done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.peer import QUESTS, Peer, Refused
from tests.support.daemon import SHELL, Daemon

BAD: list[tuple[dict[str, Any], str]] = [
    ({"task": ""}, "task"),
    ({"task": " \n"}, "task"),
    ({"task": "a\0b"}, "task"),
    ({"task": "x" * (512 * 1024 + 1)}, "task"),
    ({"task": "x" * 300_000, "context": "ä" * 120_000}, "task"),
    ({"task": "x" * 131_072}, "task"),
    ({"task": "x" * 100_000, "context": "y" * 40_000}, "task"),
    ({"context": "a\0b"}, "context"),
    ({"role": ""}, "role"),
    ({"role": "a b"}, "role"),
    ({"role": "../x"}, "role"),
    ({"lane": "a\n"}, "lane"),
    ({"lane": ""}, "lane"),
    ({"name": "x" * 201}, "name"),
    ({"name": "two\nlines"}, "name"),
    ({"priority": 2**53}, "priority"),
    ({"priority": -(2**53)}, "priority"),
    ({"priority": 2**70}, "priority"),
    ({"maxAttempts": -1}, "maxAttempts"),
    ({"maxAttempts": 2**40}, "maxAttempts"),
    ({"notBefore": -1}, "notBefore"),
    ({"notBefore": 2**53}, "notBefore"),
    ({"timeoutMs": 0}, "timeoutMs"),
    ({"timeoutMs": 2**53}, "timeoutMs"),
    ({"dependsOn": ["q-000000000000"] * 1001}, "dependsOn"),
]


def refused(peer: Peer, method: str, **parameters: Any) -> Refused:
    before = peer.total()
    with pytest.raises(Refused) as caught:
        peer.call(QUESTS + method, **parameters)
    assert peer.total() == before
    return caught.value


@pytest.mark.parametrize(("parameters", "field"), BAD)
def test_a_bad_value_is_refused_naming_its_field(peer: Peer, parameters: dict[str, Any], field: str) -> None:
    """By Add, and as an entry of AddMany, whose good entries are not added either."""
    quest = {"task": "true", **parameters}
    one = refused(peer, "Add", directory=peer.directory, **quest)
    assert (one.name, one.parameters["field"]) == ("io.questline.InvalidInput", field)
    assert field in one.parameters["message"]
    many = refused(peer, "AddMany", directory=peer.directory, quests=[{"task": "true"}, quest])
    assert many.parameters["field"] == f"quests[1].{field}"


@pytest.mark.parametrize("escape", [b"\\ud800", b"x\\udfff"])
def test_a_lone_surrogate_is_refused(peer: Peer, server: Daemon, escape: bytes) -> None:
    """JSON can write one, UTF-8 cannot: it is no JSON text that can be passed on, and so it ends the connection."""
    with Peer(server.socket) as other:
        call = b'{"method":"%sAdd","parameters":{"directory":"/","task":"%s"}}' % (QUESTS.encode(), escape)
        other.send(call + b"\0")
        assert other.reply()["error"] == "io.questline.InvalidInput"
        assert other.receive() is None
    assert peer.call(QUESTS + "List", directory="/")["quests"] == []


@pytest.mark.parametrize(
    ("where", "field"),
    [
        ({}, "project"),
        ({"directory": "relative"}, "directory"),
        ({"directory": "/no/such/directory"}, "directory"),
        ({"directory": "/etc/passwd"}, "directory"),
        ({"directory": "/a\0b"}, "directory"),
        ({"directory": "/" + "x" * 10_000}, "directory"),
        ({"project": "/no/such/directory"}, "project"),
        ({"project": "a b"}, "project"),
        ({"project": ""}, "project"),
        ({"directory": "/", "path": "a\0b"}, "path"),
        ({"directory": "/", "path": "x" * 40_000}, "path"),
    ],
)
def test_a_bad_place_is_refused_naming_its_field(peer: Peer, where: dict[str, str], field: str) -> None:
    """And no project is made of it."""
    error = refused(peer, "Add", task="true", **where)
    assert (error.name, error.parameters["field"]) == ("io.questline.InvalidInput", field)


def test_one_project_whatever_its_spelling(server: Daemon, peer: Peer, project: Path) -> None:
    """A symlink, a trailing slash, dots and spaces."""
    spaced = project / "a b"
    spaced.mkdir()
    link = project / "link"
    link.symlink_to(spaced)
    for spelling in (f"{spaced}/", f"{link}/", f"{project}/./a b", f"{link}/../a b"):
        for where in ({"directory": spelling}, {"project": spelling}):
            quest = peer.call(QUESTS + "Add", task="true", external=True, **where)["quest"]
            assert quest["project"] == str(spaced)


def test_a_named_project_without_a_path_takes_quests_and_says_that_they_wait(peer: Peer) -> None:
    """Why names the gate."""
    added = peer.call(QUESTS + "Add", task="true", project="somewhere")
    assert added["quest"]["project"] == "name:somewhere"
    assert any("no path" in warning for warning in added["warnings"])
    gates = peer.call(QUESTS + "Why", id=added["quest"]["id"])["gates"]
    assert [gate["gate"] for gate in gates] == ["path"]
    peer.call(QUESTS + "Cancel", id=added["quest"]["id"])


def test_a_project_file_is_named_in_a_warning(peer: Peer, project: Path) -> None:
    """It is never ignored in silence."""
    (project / ".questline.toml").write_text("x = 1\n")
    below = project / "below"
    below.mkdir()
    added = peer.call(QUESTS + "Add", task="true", directory=str(below), external=True)
    assert added["quest"]["project"] == str(project)
    assert any(".questline.toml" in warning and "ignoring" in warning for warning in added["warnings"])


class TestDependencies:
    """A dependency is a quest of the same project that is there."""

    def test_an_unknown_one_is_refused(self, peer: Peer) -> None:
        """not_found, for an id and for a prefix."""
        for text in ("q-000000000000", "zzz", "q-"):
            error = refused(peer, "Add", directory=peer.directory, task="true", dependsOn=[text])
            assert error.name in ("io.questline.DependencyInvalid", "io.questline.Ambiguous")
        assert (
            refused(peer, "Add", directory=peer.directory, task="true", dependsOn=["q-000000000000"]).parameters[
                "reason"
            ]
            == "not_found"
        )

    def test_one_of_another_project_is_refused(self, server: Daemon, peer: Peer, tmp_path: Path) -> None:
        """cross_project."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        with Peer(server.socket, str(elsewhere)) as other:
            quest = other.add(external=True)
        error = refused(peer, "Add", directory=peer.directory, task="true", dependsOn=[quest])
        assert (error.name, error.parameters["reason"]) == ("io.questline.DependencyInvalid", "cross_project")

    @pytest.mark.parametrize(
        ("quests", "reason", "cycle"),
        [
            ([{"task": "a", "name": "a", "dependsOn": ["a"]}], "self", ["a", "a"]),
            (
                [
                    {"task": "a", "name": "a", "dependsOn": ["c"]},
                    {"task": "b", "name": "b", "dependsOn": ["a"]},
                    {"task": "c", "name": "c", "dependsOn": ["b"]},
                ],
                "cycle",
                ["a", "c", "b", "a"],
            ),
            ([{"task": "a", "name": "a", "dependsOn": ["b"]}, {"task": "b", "name": "b"}], "not_found", None),
        ],
    )
    def test_a_circle_among_new_ones_is_refused_and_drawn(
        self, peer: Peer, quests: list[dict[str, Any]], reason: str, cycle: list[str] | None
    ) -> None:
        """Nothing of the batch is added; an entry may depend on earlier ones only."""
        error = refused(peer, "AddMany", directory=peer.directory, quests=quests)
        assert error.name == "io.questline.DependencyInvalid"
        assert (error.parameters["reason"], error.parameters["cycle"]) == (reason, cycle)

    def test_names_and_ids_of_earlier_ones_are_dependencies(self, peer: Peer) -> None:
        """The order is kept, doubles are not; a name that several earlier entries have is refused."""
        first = peer.add(external=True)
        quests: list[dict[str, Any]] = [
            {"task": "a", "name": "y"},
            {"task": "b", "name": "x", "dependsOn": [first]},
            {"task": "c", "dependsOn": ["x", first, "x"]},
        ]
        added = peer.call(QUESTS + "AddMany", directory=peer.directory, quests=quests)["added"]
        assert peer.quest(added[2]["id"])["dependsOn"] == [added[1]["id"], first]
        quests[0]["name"] = "x"
        error = refused(peer, "AddMany", directory=peer.directory, quests=quests)
        assert (error.name, error.parameters["field"]) == ("io.questline.InvalidInput", "quests[2].dependsOn")

    def test_a_dead_dependency_fails_the_new_quest_at_once(self, peer: Peer) -> None:
        """It could never run."""
        dead = peer.add(external=True)
        peer.call(QUESTS + "Cancel", id=dead)
        quest = peer.quest(peer.add(dependsOn=[dead]))
        assert (quest["state"], quest["failureKind"], quest["failedDependencyId"]) == ("failed", "dependency", dead)


def test_a_batch_above_its_bound_is_refused_naming_it(peer: Peer) -> None:
    """And an empty one is nothing."""
    error = refused(peer, "AddMany", directory=peer.directory, quests=[{"task": "x"}] * 5001)
    assert (error.parameters["field"], error.parameters["setting"]) == ("quests", "bounds.add_many")
    assert peer.call(QUESTS + "AddMany", directory=peer.directory, quests=[])["added"] == []


def test_a_prefix_finds_its_quest_and_an_ambiguous_one_names_the_candidates(peer: Peer) -> None:
    """With or without its q-."""
    ids = [peer.add(external=True) for _ in range(17)]  # two of seventeen begin with the same digit
    assert peer.quest(ids[0][:-1])["id"] == ids[0]
    assert peer.quest(ids[0][2:-1])["id"] == ids[0]
    double = next(each[:3] for each in ids if sum(other[:3] == each[:3] for other in ids) > 1)
    with pytest.raises(Refused) as caught:
        peer.quest(double)
    assert caught.value.name == "io.questline.Ambiguous"
    assert caught.value.parameters["id"] == double
    assert len(caught.value.parameters["candidates"]) >= 2
    assert all(each.startswith(double) for each in caught.value.parameters["candidates"])


def test_bounds_of_waiting_quests_are_limits(tmp_path: Path) -> None:
    """LimitReached naming the setting; one that ends makes room."""
    with (
        Daemon(tmp_path, SHELL + "bounds.max_waiting = 2\n") as daemon,
        Peer(daemon.socket, str(daemon.project)) as peer,
    ):
        ids = [peer.add(external=True) for _ in range(2)]
        error = refused(peer, "Add", directory=peer.directory, task="true")
        assert (error.name, error.parameters["setting"]) == ("io.questline.LimitReached", "bounds.max_waiting")
        peer.call(QUESTS + "Cancel", id=ids[0])
        peer.add(external=True)
