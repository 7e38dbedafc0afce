"""reexec: what it says of the program that was replaced, and of one that was not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qlctl.main import main
from tests.unit.qlctl.scripted import Answer, Hangup, Scripted, error, frame

pytestmark = pytest.mark.usefixtures("here")
Serve = Callable[[Answer], Scripted]
OLD: dict[str, Any] = {"version": "1.0", "pid": 7, "startedAt": 1000}
NEW = {"version": "1.1", "pid": 7, "startedAt": 2000}


def service(serve: Serve, running: int, after: dict[str, Any], answered_by: int = OLD["startedAt"]) -> Scripted:
    """A daemon that is what `after` says once it was replaced; `answered_by` is the start of the one that agrees."""
    statuses = iter([OLD, after])

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request["method"].endswith("Reexec"):
            yield frame({"version": "1.1", "running": running, "startedAt": answered_by})
            raise Hangup
        yield frame(next(statuses))

    return serve(answer)


@pytest.mark.parametrize(
    ("running", "work"), [(0, "nothing was running"), (1, "one quest runs on"), (20, "20 quests run on")]
)
def test_who_goes_who_comes_and_what_runs_on(
    serve: Serve, capsys: pytest.CaptureFixture[str], running: int, work: str
) -> None:
    service(serve, running, NEW)
    assert main(["reexec"]) == 0
    assert capsys.readouterr() == (f"questlined 1.0 was replaced by 1.1 (pid 7); {work}\n", "")


def test_as_json(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    asked = service(serve, 3, NEW)
    assert main(["reexec", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"from": "1.0", "to": "1.1", "pid": 7, "running": 3}
    assert [request["method"].rsplit(".", 1)[1] for request in asked.requests] == ["Status", "Reexec", "Status"]
    assert "requestId" in asked.requests[1]["parameters"]


def test_one_that_could_not_be_executed_is_a_failure(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The same start of the daemon answers as before."""
    service(serve, 3, OLD)
    assert main(["reexec"]) == 75
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == (
        "",
        "qlctl: questlined 1.1 could not be executed; 1.0 goes on, with all that runs",
    )


def test_one_that_ended_and_was_restarted_is_a_failure(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Another process answers: what ran has not gone on in it."""
    service(serve, 3, {**NEW, "pid": 8})
    assert main(["reexec", "--json"]) == 75
    out, err = capsys.readouterr()
    assert out == ""
    assert "qlctl: questlined 1.1 ended as it began, and was started anew (pid 8): what ran" in err


def test_one_that_was_restarted_before_it_was_answered_is_asked_again(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what that one says counts."""
    service(serve, 0, {**NEW, "pid": 8}, answered_by=1500)
    assert main(["reexec"]) == 0
    assert capsys.readouterr() == ("questlined 1.0 was replaced by 1.1 (pid 8); nothing was running\n", "")


def test_a_refusal_is_told_with_its_status(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        yield frame(OLD) if request["method"].endswith("Status") else error("io.questline.ConfigInvalid")

    serve(answer)
    assert main(["reexec"]) == 78
    assert capsys.readouterr() == ("", "qlctl: told so\n  do this\n")
