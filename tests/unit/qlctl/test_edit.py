"""edit and block: what is sent, and what is told of the quest as it became."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qlctl.commands.edit import told
from qlctl.main import main
from qlctl.render.moments import exactly
from tests.unit.qlctl.scripted import BLOCKED, QUEST, Answer, Scripted, always, error, frame, waited

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")
NOW = QUEST["createdAt"]


def edited(after: dict[str, Any], before: dict[str, Any] = QUEST) -> Answer:
    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        yield frame({"quest": after}) if request["method"].endswith("Edit") else waited(before)

    return answer


def test_edit_sends_what_was_typed_and_nothing_else(serve: Serve) -> None:
    """By the whole id, with a requestId."""
    service = serve(edited(QUEST))
    argv = ["--task", "t", "--context", "", "--name", "n", "--priority=-3", "--not-before", "@1790000000"]
    assert main(["edit", "q-1a", *argv, "--timeout", "15min", "--max-attempts", "0", "--lane", "core"]) == 0
    assert service.parameters() == [
        {"id": "q-1a", "timeoutMs": 0},
        {
            "id": QUEST["id"],
            "task": "t",
            "context": "",
            "name": "n",
            "priority": -3,
            "notBefore": 1_790_000_000_000,
            "timeoutMs": 900_000,
            "maxAttempts": 0,
            "lane": "core",
        },
    ]
    assert "requestId" in service.requests[1]["parameters"]


def test_none_takes_away(serve: Serve) -> None:
    """As the wire has it: an empty lane, no time, no span."""
    service = serve(edited(QUEST))
    assert main(["edit", "q-1", "--not-before", "none", "--timeout", "none", "--lane", "none"]) == 0
    assert service.parameters()[1] == {"id": QUEST["id"], "notBefore": 0, "timeoutMs": 0, "lane": ""}


@pytest.mark.parametrize("argv", [["--task", "-"], ["--body=-"], ["--file", "-"], ["--file", "task.txt"]])
def test_a_task_comes_unchanged_from_where_it_was_said(
    serve: Serve, feed: Callable[[bytes], None], argv: list[str]
) -> None:
    """Newlines, dollars and all."""
    Path("task.txt").write_text("$(a) {}%\n")
    feed(b"$(a) {}%\n")
    service = serve(edited(QUEST))
    assert main(["edit", "q-1", *argv]) == 0
    assert service.parameters()[1]["task"] == "$(a) {}%\n"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "edit: nothing to change was given\n  qlctl edit --help"),
        (["--task", "t", "--file", "f"], "--task and --file both give the task"),
        (["--priority", "high"], "--priority: 'high' is no whole number"),
        (["--max-attempts", "-1"], "--max-attempts: '-1' is out of range"),
        (["--not-before", "never"], "--not-before: 'never' is no time"),
        (["--timeout", "never"], "--timeout: 'never' is no span"),
        (["--file", "nowhere"], "--file: cannot read 'nowhere'"),
        (["--state", "done"], "unknown option --state"),
    ],
)
def test_bad_input_is_refused_before_a_call(
    serve: Serve, capsys: pytest.CaptureFixture[str], argv: list[str], named: str
) -> None:
    """Naming the option."""
    service = serve(always(waited(QUEST)))
    assert main(["edit", "q-1", *argv]) == 2
    assert capsys.readouterr().err.startswith(f"qlctl: {named}")
    assert service.requests == []


def test_what_changed_is_told_with_what_it_was(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Safe to show, attempts as people count them, spans as they can be typed."""
    before = {**QUEST, "refunds": 2, "maxAttempts": 3, "lane": "old\x1b", "timeoutMs": 5_400_000}
    after = {**QUEST, "refunds": 2, "maxAttempts": 0, "priority": 5, "task": "one\ntwo", "scheduledAt": 9**15}
    serve(edited(after, before))
    assert main(["edit", "q-1", "--priority", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "q-1a2b3c4d5e6f changed:"
    assert [line.split() for line in lines[1:3]] == [
        ["task", "write", "the", "tests", "->", "one", "two"],
        ["priority", "0", "->", "5"],
    ]
    assert lines[3].startswith("  not before    none -> ")
    assert lines[4:] == [
        "  timeout       1h 30min -> none",
        "  max attempts  1 -> no limit",
        "  lane          old\\x1b -> none",
    ]


def test_nothing_that_changed_is_said_so(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line; --json is the quest."""
    serve(edited(QUEST))
    assert main(["edit", "q-1", "--priority", "0"]) == 0
    assert capsys.readouterr().out == "q-1a2b3c4d5e6f: all of it was so already\n"
    assert main(["edit", "q-1", "--priority", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == QUEST


def test_a_line_fits_the_terminal() -> None:
    """Long texts give way, a short one leaves its room to the other."""
    after = {**QUEST, "task": "x" * 300, "context": "c" * 300}
    lines = told({**QUEST, "task": "y" * 300}, after, NOW, 80)
    assert [len(line) for line in lines[1:]] == [80, 80]
    assert lines[2].startswith("  context       none -> ccc")


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0s"), (500, "500ms"), (90_000, "1min 30s"), (90_061_001, "1d 1h 1min 1s 1ms")]
)
def test_a_span_is_told_to_the_millisecond(ms: int, text: str) -> None:
    assert exactly(ms) == text


class TestBlock:
    """block, as cancel does for several."""

    def test_every_id_is_tried(self, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
        """With reason, question and choices; the status is the first error's."""
        blocked = {**BLOCKED, "choices": ["red", "blue"]}
        running = {**QUEST, "id": "q-3", "state": "running"}
        service = serve(always(frame({"quest": blocked}), error("io.questline.WrongState"), frame({"quest": running})))
        argv = ["--ask", "red or blue?", "--choices", "red, blue", "--summary", "r"]
        assert main(["block", "q-1", "q-2", "q-3", *argv]) == 1
        captured = capsys.readouterr()
        assert captured.out.splitlines() == [
            "q-1a2b3c4d5e6f is blocked: red or blue? [red / blue]",
            "q-3 runs, and is blocked when its process ends",
        ]
        assert captured.err == "qlctl: told so\n  do this\n"
        said = {"reason": "r", "question": "red or blue?", "choices": ["red", "blue"]}
        assert service.parameters() == [{"id": name, **said} for name in ("q-1", "q-2", "q-3")]

    def test_choices_belong_to_a_question(self, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
        """Said before a call."""
        service = serve(always(frame({"quest": BLOCKED})))
        assert main(["block", "q-1", "--choices", "a,b"]) == 2
        assert main(["block", "q-1", "--ask", "q", "--choices", "a,"]) == 2
        err = capsys.readouterr().err
        assert "--choices without --ask\n  --ask QUESTION --choices A,B\n" in err
        assert "--choices: an empty name" in err
        assert service.requests == []
