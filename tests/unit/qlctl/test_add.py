"""add, from argv to the call on the wire, and from the reply to stdout, stderr and exit status."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
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
    added,
    always,
    waited,
)

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")


def test_add_sends_what_was_typed(serve: Serve, tmp_path: Path) -> None:
    service = serve(always(added()))
    argv = ["build", "the task", "--name", "n", "--context=c", "--priority", "-3", "--depends", "q-1,q-2"]
    argv += ["--max-attempts", "0", "--not-before", "@1790000000", "--timeout", "15min", "--lane", "core", "--external"]
    assert main(["add", *argv]) == 0
    assert service.requests[0]["method"] == "io.questline.Quests.Add"
    assert service.parameters() == [
        {
            "directory": str(tmp_path),
            "path": "/bin",
            "task": "the task",
            "role": "build",
            "name": "n",
            "context": "c",
            "priority": -3,
            "dependsOn": ["q-1", "q-2"],
            "maxAttempts": 0,
            "notBefore": 1_790_000_000_000,
            "timeoutMs": 900_000,
            "lane": "core",
            "external": True,
        }
    ]


@pytest.mark.parametrize(
    ("project", "sent"),
    [("name", "name"), ("/a/../b", "/a/../b"), ("a/b", "{here}/a/b"), (".", "{here}/."), ("..", "{here}/..")],
)
def test_project_is_a_directory_with_a_slash_or_a_name(serve: Serve, tmp_path: Path, project: str, sent: str) -> None:
    service = serve(always(added()))
    assert main(["--project", project, "add", "t"]) == 0
    assert service.parameters()[0]["project"] == sent.format(here=tmp_path)
    assert "directory" not in service.parameters()[0]


@pytest.mark.parametrize(
    ("argv", "role", "task"),
    [
        (["t"], None, "t"),
        (["--", "-t"], None, "-t"),
        (["build", "--body", "b"], "build", "b"),
        (["--title", "only"], None, "only"),
        (["--title", "n", "t"], None, "t"),
        (["build", "--file", "task.txt"], "build", "from a file\n"),
        (["build", "-"], "build", "$(from) stdin {}%\n"),
        (["--file", "-"], None, "$(from) stdin {}%\n"),
    ],
)
def test_task_comes_unchanged_from_where_it_was_said(
    serve: Serve, feed: Callable[[bytes], None], argv: list[str], role: str | None, task: str
) -> None:
    Path("task.txt").write_text("from a file\n")
    feed(b"$(from) stdin {}%\n")
    service = serve(always(added()))
    assert main(["add", *argv]) == 0
    assert (service.parameters()[0].get("role"), service.parameters()[0]["task"]) == (role, task)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "add: there is no task"),
        (["t", "--priority", "high"], "--priority: 'high' is no whole number"),
        (["t", "--max-attempts", "-1"], "--max-attempts: '-1' is out of range"),
        (["t", "--timeout", "soon"], "--timeout: 'soon' is no span of time"),
        (["t", "--not-before", "soon"], "--not-before: 'soon' is no time"),
        (["t", "--depends", "a,"], "--depends: an empty name"),
        (["r", "t", "--file", "f"], "--file gives the task, and there is a TASK, too"),
        (["--file", "nowhere"], "--file: cannot read 'nowhere': No such file"),
        (["--file", "."], "--file: cannot read '.': Is a directory"),
        (["-"], "TASK: byte 3 of standard input is not UTF-8"),
        (["--file", "nul"], "--file: holds a NUL character"),
        (["t", "--project", ""], "--project: is empty"),
        (["t", "--socket", ""], "--socket: is empty"),
        (["t", "caf\udce9"], "argument 2: b'caf\\xe9' is not UTF-8"),
        (["t", "--from-file", "f"], "'t' does not go with --from-file"),
        (["--name", "n", "--from-file", "f"], "'--name' does not go with --from-file"),
    ],
)
def test_bad_input_is_refused_before_a_call(
    serve: Serve,
    feed: Callable[[bytes], None],
    argv: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    feed(b"caf\xe9")
    Path("nul").write_bytes(b"a\0b")
    service = serve(always(added()))
    assert main(["add", "--json", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"qlctl: {named}")
    assert captured.out == ""
    assert service.requests == []


def test_path_that_is_no_utf8_is_named(serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    service = serve(always(added()))
    os.environ["PATH"] = "/caf\udce9"  # the fixture's monkeypatch restores it
    assert main(["add", "t"]) == 2
    assert "the variable PATH: b'/caf\\xe9' is not UTF-8" in capsys.readouterr().err
    assert service.requests == []


def test_directory_that_is_gone_is_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert main(["add", "t"]) == 2
    assert "the working directory is gone" in capsys.readouterr().err
    os.chdir(tmp_path)


def test_add_names_id_project_and_queue(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    service = serve(always(added(warnings=("mind\x1b the gap",))))
    assert main(["add", "t"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"q-1a2b3c4d5e6f queued in /home/me/proj (questlined on {service.path})\n"
    assert captured.err == "qlctl: warning: mind\\x1b the gap\n"


def test_add_prints_the_id_or_json_alone(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(always(added(deduped=True)))
    assert main(["add", "t", "--print-id"]) == 0
    assert capsys.readouterr().out == "q-1a2b3c4d5e6f\n"
    assert main(["--json", "add", "t"]) == 0
    assert json.loads(capsys.readouterr().out) == {**QUEST, "deduped": True}


def test_add_that_failed_at_once_is_added_and_said(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(always(added({**FAILED, "error": "q-0 had failed"})))
    assert main(["add", "t"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("q-1a2b3c4d5e6f failed in")
    assert captured.err == "qlctl: q-1a2b3c4d5e6f has failed at once: q-0 had failed\n"


@pytest.mark.parametrize(("quest", "status", "out"), [(DONE, 0, DONE["result"]), (FAILED, 1, ""), (BLOCKED, 1, "")])
def test_add_wait_prints_the_result(
    serve: Serve, capsys: pytest.CaptureFixture[str], quest: dict[str, Any], status: int, out: str
) -> None:
    serve(always(added(), waited(quest)))
    assert main(["add", "t", "--wait"]) == status
    captured = capsys.readouterr()
    assert captured.out == out
    assert "queued in /home/me/proj" in captured.err
    assert ("is failed: exit 1" in captured.err) is (quest is FAILED)
    assert ("red or blue?" in captured.err) is (quest is BLOCKED)


def test_add_wait_json_is_one_value(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(always(added(), waited(DONE)))
    assert main(["add", "t", "--wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**DONE, "deduped": False}
