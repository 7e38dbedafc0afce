"""events --follow: a line an event as it happens, on from the last one after a loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qlctl import client
from qlctl.commands.watch import line
from qlctl.main import main
from tests.unit.qlctl.scripted import DONE, QUEST, Answer, Hangup, Scripted, error, frame, waited

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")


def event(seq: int, name: str, quest: str = "q-1", **data: object) -> dict[str, Any]:
    return {"seq": seq, "questId": quest, "event": name, "at": QUEST["createdAt"], "data": data}


def watched(*events: dict[str, Any], last: int) -> bytes:
    return frame({"events": list(events), "last": last}, continues=True)


def until_refused(*calls: list[bytes]) -> Answer:
    """Each call has replies and is then cut off; the one after them is refused, which ends the command."""
    left = list(calls)

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request["method"].endswith("Wait"):
            yield waited({**DONE, "id": "q-1"})
            return
        if not left:
            yield error("io.questline.InvalidInput")
            return
        yield from left.pop(0)
        raise Hangup

    return answer


def test_events_come_as_lines_of_the_table_and_go_on_after_a_loss(
    serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the last one that was looked at, though it was another's."""
    monkeypatch.setattr(client, "QUIET_S", 0.0)
    first = [watched(last=4), watched(event(5, "enqueued"), event(6, "claimed", attempt=1), last=8)]
    service = serve(until_refused(first, [watched(event(9, "done\x1b"), last=9)]))
    assert main(["events", "--follow"]) == 2
    captured = capsys.readouterr()
    lines = [text.split() for text in captured.out.splitlines()]
    assert lines[0] == ["SEQ", "TIME", "QUEST", "EVENT", "DATA"]
    assert [(cells[0], *cells[3:]) for cells in lines[1:]] == [
        ("5", "q-1", "enqueued"),
        ("6", "q-1", "claimed", '{"attempt":1}'),
        ("9", "q-1", "done\\x1b"),
    ]
    assert captured.err.count("the connection to the daemon is lost; going on when it is back") == 2
    where = {"directory": str(tmp_path)}
    assert service.parameters() == [where, {**where, "after": 8}, {**where, "after": 9}]
    assert all(request["more"] for request in service.requests)


def test_json_is_a_line_an_event(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """From the one that was named on."""
    events = [event(5, "enqueued"), event(6, "claimed", attempt=1)]
    service = serve(until_refused([watched(*events, last=6)]))
    assert main(["events", "--follow", "--after", "0", "--all-projects", "--json"]) == 2
    assert [json.loads(text) for text in capsys.readouterr().out.splitlines()] == events
    assert service.parameters()[0] == {"allProjects": True, "after": 0}


def test_of_one_quest_the_others_are_left_out(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """By its whole id, whatever project it is in."""
    events = [event(5, "enqueued"), event(6, "enqueued", quest="q-10"), event(7, "done")]
    service = serve(until_refused([watched(*events, last=7)]))
    assert main(["events", "q-", "--follow", "--json"]) == 2
    assert [json.loads(text)["seq"] for text in capsys.readouterr().out.splitlines()] == [5, 7]
    assert service.parameters()[:2] == [{"id": "q-", "timeoutMs": 0}, {"allProjects": True}]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--follow", "--limit", "3"], "--limit does not go with --follow"),
        (["--follow", "--cursor", "3"], "--cursor does not go with --follow"),
        (["--after", "3"], "--after goes with --follow"),
        (["--follow", "--after", "x"], "--after: 'x' is no whole number"),
        (["--follow", "--after", "-1"], "--after: '-1' is out of range"),
    ],
)
def test_bad_input_is_refused_before_a_call(
    serve: Serve, capsys: pytest.CaptureFixture[str], argv: list[str], named: str
) -> None:
    """Naming the option."""
    service = serve(until_refused())
    assert main(["events", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"qlctl: {named}")
    assert (captured.out, service.requests) == ("", [])


def test_a_line_fits_the_terminal() -> None:
    """The last column gives way; piped, nothing is cut."""
    cells = ["5", "2027-01-31 08:00:00", "q-1a2b3c4d5e6f", "retry_scheduled", "x" * 100]
    assert len(line(cells, 80)) == 81
    assert line(cells, None).endswith("x" * 100 + "\n")
