"""Every verb but add, from argv to the call on the wire, and from the reply to stdout, stderr and exit status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qlctl.main import main
from tests.unit.qlctl.scripted import (
    BLOCKED,
    DONE,
    FAILED,
    QUEST,
    Answer,
    Scripted,
    always,
    error,
    frame,
    waited,
)

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")
COUNTS = {"queued": 1, "running": 0, "interrupted": 0, "blocked": 0, "done": 0, "failed": 0, "cancelled": 0}


def test_list_follows_pages_up_to_its_limit(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    page = [{**QUEST, "id": f"q-{n}"} for n in range(5)]
    service = serve(always(frame({"quests": page[:2], "next": "q-1"}), frame({"quests": page[2:], "next": "q-4"})))
    assert main(["list", "--state", "queued,failed", "--state=done", "--role", "r", "--limit", "5", "--json"]) == 0
    assert [quest["id"] for quest in json.loads(capsys.readouterr().out)] == ["q-0", "q-1", "q-2", "q-3", "q-4"]
    first, second = service.parameters()
    assert (first["states"], first["role"], first["limit"]) == (["queued", "failed", "done"], "r", 5)
    assert (second["cursor"], second["limit"]) == ("q-1", 3)


def test_a_limit_above_a_pages_is_asked_for_in_pages(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The daemon gives 1,000 at a time and refuses to be asked for more."""
    pages = [{"quests": [QUEST] * 1000, "next": "q-1"}, {"quests": [QUEST] * 1000, "next": "q-2"}]
    service = serve(always(*map(frame, pages), frame({"quests": [QUEST] * 500, "next": "q-3"})))
    assert main(["list", "--limit", "2500", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2500
    assert [asked["limit"] for asked in service.parameters()] == [1000, 1000, 500]


def test_list_prints_a_table(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    service = serve(always(frame({"quests": [QUEST], "next": "q-1a2b3c4d5e6f"})))
    assert main(["stat", "--all-projects", "--limit", "1"]) == 0
    captured = capsys.readouterr()
    assert [line.split()[:3] for line in captured.out.splitlines()] == [
        ["ID", "STATE", "ROLE"],
        ["q-1a2b3c4d5e6f", "queued", "default"],
    ]
    assert captured.err == "qlctl: there are more: --cursor q-1a2b3c4d5e6f\n"
    assert service.parameters() == [{"allProjects": True, "limit": 1}]


def test_show_json_has_four_keys(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    reply = {"quest": {**QUEST, "result": "\ud800ä"}, "runs": [], "events": [], "artifacts": []}
    serve(always(frame(reply)))
    assert main(["show", "q-1a", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == reply
    assert "ä" in out
    assert main(["show", "q-1a"]) == 0
    assert capsys.readouterr().out.startswith("q-1a2b3c4d5e6f  queued\n")


def test_events_of_a_quest_or_of_the_project(serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    event = {"seq": 3, "questId": "q-1", "event": "claimed", "at": QUEST["createdAt"], "data": {"attempt": 1}}
    service = serve(always(frame({"events": [event]})))
    assert main(["events", "q-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [event]
    assert main(["events"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith('q-1    claimed  {"attempt":1}')
    assert service.parameters() == [{"id": "q-1", "limit": 30}, {"directory": str(tmp_path), "limit": 30}]


def test_runs_are_fetched_to_the_last(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [{"id": f"q-1/{n}", "attempt": n, "number": n, "startedAt": 0, "finishedAt": 5000} for n in (1, 2)]
    service = serve(always(frame({"runs": runs[:1], "next": "q-1/1"}), frame({"runs": runs[1:]})))
    assert main(["runs", "q-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == runs
    assert service.parameters() == [{"id": "q-1"}, {"id": "q-1", "cursor": "q-1/1"}]


def test_why_json_has_the_gates(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    gates = [{"gate": "lane", "detail": "busy"}]
    serve(always(frame({"quest": QUEST, "gates": gates})))
    assert main(["why", "q-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"gates": gates}


@pytest.mark.parametrize(("quest", "status"), [(DONE, 0), (FAILED, 1), (BLOCKED, 1)])
def test_wait_ends_with_the_quest(
    serve: Serve, capsys: pytest.CaptureFixture[str], quest: dict[str, Any], status: int
) -> None:
    running = frame({"quest": {**QUEST, "state": "running"}, "timedOut": False}, continues=True)
    service = serve(always(running + waited(quest)))
    assert main(["wait", "q-1a"]) == status
    assert capsys.readouterr().out.startswith(f"q-1a2b3c4d5e6f is {quest['state']}")
    assert service.requests[0]["more"] is True
    assert service.parameters() == [{"id": "q-1a"}]


def test_wait_that_times_out_ends_with_124(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    service = serve(always(waited(QUEST, timed_out=True)))
    assert main(["wait", "q-1a", "--timeout", "0", "--json"]) == 124
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"quest": QUEST, "timedOut": True}
    assert captured.err == "qlctl: q-1a has not ended yet: it is queued\n"
    assert service.parameters() == [{"id": "q-1a", "timeoutMs": 0}]


def test_wait_without_timeout_asks_again(serve: Serve) -> None:
    """A daemon that answers timedOut on its own account is asked until the quest has ended."""
    service = serve(always(waited(QUEST, timed_out=True), waited(DONE)))
    assert main(["wait", "q-1a"]) == 0
    assert len(service.requests) == 2


def test_wait_for_many_checks_the_names_first(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        name = request["parameters"]["id"]
        yield waited({**(FAILED if name == "q-2" else DONE), "id": name})

    service = serve(answer)
    assert main(["wait", "q-1", "q-2", "--json"]) == 1
    assert [entry["quest"]["id"] for entry in json.loads(capsys.readouterr().out)] == ["q-1", "q-2"]
    assert [call.get("timeoutMs") for call in service.parameters()] == [0, 0, None, None]


def test_cancel_tries_every_id_and_ends_with_the_first_error(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    running = {**QUEST, "state": "running", "cancelRequestedAt": 1}
    cancelled = {**QUEST, "id": "q-3", "state": "cancelled"}
    service = serve(always(frame({"quest": running}), error("io.questline.NotFound"), frame({"quest": cancelled})))
    assert main(["cancel", "q-1", "q-2", "q-3", "--summary", "old"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "q-1a2b3c4d5e6f is being stopped\nq-3 cancelled\n"
    assert captured.err == "qlctl: told so\n  do this\n"
    assert service.parameters() == [{"id": name, "reason": "old"} for name in ("q-1", "q-2", "q-3")]
    assert len({request["parameters"]["requestId"] for request in service.requests}) == 3


def test_requeue_is_retry(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    service = serve(always(frame({"quest": QUEST})))
    assert main(["requeue", "q-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == QUEST
    assert service.requests[0]["method"] == "io.questline.Quests.Retry"


def test_pause_and_resume_of_project_and_daemon(
    serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    project = {"key": "/p", "archived": False, "paused": True, "runsStarted": 0, "counts": COUNTS}
    service = serve(always(frame({"project": project}), frame({"project": None}), frame({})))
    assert main(["pause", "--reason", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == project
    assert main(["pause", "--all"]) == 0
    assert capsys.readouterr().out == "the whole daemon: paused; running quests go on\n"
    assert main(["resume", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"all": True, "paused": False}
    assert service.parameters() == [{"directory": str(tmp_path), "reason": "r"}, {"all": True}, {"all": True}]
    assert main(["pause", "--all", "--project", "p"]) == 2


@pytest.mark.parametrize(("ok", "status"), [(True, 0), (False, 1)])
def test_health_ends_with_1_if_there_is_a_problem(
    serve: Serve, capsys: pytest.CaptureFixture[str], ok: bool, status: int
) -> None:
    reply = {"ok": ok, "problems": [], "counts": COUNTS, "version": "1", "running": 0, "connections": 1}
    serve(always(frame(reply)))
    assert main(["health", "--json"]) == status
    assert json.loads(capsys.readouterr().out) == reply


def test_version_names_socket_state_and_daemon(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = {"version": "9.9", "pid": 42, "startedAt": 0, "stateDirectory": "/state"}
    service = serve(always(frame(daemon)))
    assert main(["version"]) == 0
    out = capsys.readouterr().out
    assert all(part in out for part in (service.path, "questlined 9.9", "/state", "pid 42"))


def test_version_without_a_daemon_says_what_is_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["version", "--json"]) == 69
    captured = capsys.readouterr()
    assert json.loads(captured.out)["daemon"] is None
    assert "no daemon answers on" in captured.err


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("InvalidInput", 2),
        ("Ambiguous", 2),
        ("WrongState", 1),
        ("Busy", 75),
        ("PermissionDenied", 77),
        ("Internal", 70),
    ],
)
def test_exit_status_is_the_error_classes(
    serve: Serve, capsys: pytest.CaptureFixture[str], name: str, status: int
) -> None:
    serve(always(error(f"io.questline.{name}")))
    assert main(["show", "q-1", "--json"]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "qlctl: told so\n  do this\n")


@pytest.mark.parametrize("verb", ["show", "why", "cancel", "runs", "health"])
@pytest.mark.parametrize(
    "reply", [{}, {"quest": 5}, {"quest": {"id": "q-1"}, "gates": [{}]}, {"ok": True, "runs": [1]}]
)
def test_an_answer_of_another_shape_is_told_in_a_line(
    serve: Serve, capsys: pytest.CaptureFixture[str], verb: str, reply: dict[str, Any]
) -> None:
    """With what is wrong and where it showed; a traceback is for nobody who types a command."""
    serve(always(frame(reply)))
    assert main([verb, *(["q-1"] if verb != "health" else [])]) == 70
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    first, second = captured.err.splitlines()
    assert first.startswith("qlctl: cannot go on: ")
    assert "(qlctl/" in first
    assert "of one version" in second
