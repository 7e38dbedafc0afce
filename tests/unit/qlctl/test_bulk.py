"""add --from-file: lines checked, cut into calls, names resolved, and what is said when it stops half-way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qlctl.main import main
from tests.unit.qlctl.scripted import (
    Answer,
    Scripted,
    added,
    always,
    error,
    frame,
)

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")


def test_from_file_sends_lines_in_calls_within_the_limits(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of an earlier call is replaced by its id; one of the same call is left to the daemon."""
    monkeypatch.setattr("qlctl.commands.bulk.MOST_QUESTS", 2)
    count = iter(range(9))

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        entries = [{"id": f"q-{next(count)}", "deduped": False} for _ in request["parameters"]["quests"]]
        yield frame({"added": entries, "warnings": []})

    service = serve(answer)
    lines = [{"task": "a", "name": "A"}, {"task": "b", "name": "C", "dependsOn": ["A"]}]
    lines += [{"task": "c", "name": "C", "dependsOn": ["A", "q-77"]}, {"task": "d", "dependsOn": ["C", "A"]}]
    lines += [{"task": "e", "priority": 2, "external": True}]
    Path("quests").write_text("\n\n".join(json.dumps(line) for line in lines))
    assert main(["add", "--from-file", "quests", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"id": f"q-{n}", "deduped": False} for n in range(5)]
    sent = [call["quests"] for call in service.parameters()]
    assert [len(quests) for quests in sent] == [2, 2, 1]
    assert [quest.get("dependsOn") for quests in sent for quest in quests] == [
        None,
        ["A"],
        ["q-0", "q-77"],
        ["C", "q-0"],
        None,
    ]
    assert sent[2] == [lines[4]]
    assert service.parameters()[0]["path"] == "/bin"


def test_from_file_cuts_calls_by_bytes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qlctl.commands.bulk.MOST_BYTES", 100)

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        yield frame({"added": [{"id": "q", "deduped": False} for _ in request["parameters"]["quests"]], "warnings": []})

    service = serve(answer)
    Path("quests").write_text("".join(json.dumps({"task": "x" * size}) + "\n" for size in (40, 10, 300, 1)))
    assert main(["add", "--from-file", "quests"]) == 0
    assert [[len(quest["task"]) for quest in call["quests"]] for call in service.parameters()] == [[40, 10], [300], [1]]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "line 2: no JSON"),
        ("[]", "line 2: no JSON object"),
        ("{}", "line 2: there is no task"),
        ('{"task": ""}', "line 2: there is no task"),
        ('{"task": "t", "nane": "x"}', "line 2: unknown key 'nane'"),
        ('{"task": 3}', "line 2: task is not a text"),
        ('{"task": "t", "priority": true}', "line 2: priority is not a whole number"),
        ('{"task": "t", "priority": 1.5}', "line 2: priority is not a whole number"),
        ('{"task": "t", "external": 1}', "line 2: external is not true or false"),
        ('{"task": "t", "dependsOn": "q-1"}', "line 2: dependsOn is not a list of texts"),
        ('{"task": "a\\u0000b"}', "line 2: task: holds a NUL character"),
        ('{"task": "\\ud800"}', "line 2: task: b"),
    ],
)
def test_from_file_names_a_bad_line_before_anything_is_sent(
    serve: Serve, capsys: pytest.CaptureFixture[str], line: str, named: str
) -> None:
    service = serve(always(added()))
    Path("quests").write_text(f'{{"task": "fine"}}\n{line}\n')
    assert main(["add", "--from-file", "quests"]) == 2
    assert capsys.readouterr().err.startswith(f"qlctl: {named}")
    assert service.requests == []


def test_from_file_says_what_was_added_before_an_error(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qlctl.commands.bulk.MOST_QUESTS", 1)
    first = frame({"added": [{"id": "q-0", "deduped": False}], "warnings": []})
    serve(always(first, error("io.questline.StoreFull")))
    Path("quests").write_text('{"task": "a"}\n{"task": "b"}\n')
    assert main(["add", "--from-file", "quests", "--json"]) == 75
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [{"id": "q-0", "deduped": False}]
    assert captured.err.splitlines()[:2] == [
        "qlctl: 1 of 2 quests were added before this:",
        "qlctl: lines 2 to 2: told so",
    ]
