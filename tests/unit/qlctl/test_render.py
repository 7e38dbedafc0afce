"""Text on a terminal: safe, in columns, relative times, and nothing that was not known."""

from __future__ import annotations

from typing import Any

import pytest

from qlctl.commands import health, listing, why
from qlctl.render import colour, moments, quest, table, text
from qlctl.render.detail import detail
from tests.unit.qlctl.scripted import QUEST

NOW = QUEST["createdAt"] + 300_000


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain ä€😀", "plain ä€😀"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\x9b31mb\x7f", r"a\x9b31mb\x7f"),
        ("abc\u202edef\u2066", r"abc\u202edef\u2066"),
        ("half \ud800", r"half \ud800"),
        ("two\n lines\tand\r\n", "two  lines and "),
        ("👩\u200d💻\u00a0x", "👩\u200d💻\u00a0x"),
    ],
)
def test_control_characters_are_escaped(given: str, shown: str) -> None:
    assert text.clean(given) == shown


def test_lines_may_be_kept() -> None:
    assert text.clean("a\n\tb\r\x1b[2J", lines=True) == "a\n\tb\\r\\x1b[2J"


def test_width_counts_columns() -> None:
    assert [text.width(part) for part in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]
    assert text.cut("日本語のテキスト", 9) == "日本語..."
    assert text.cut("short", 5) == "short"
    assert text.cut("longer", 5) == "lo..."
    assert text.cut("longer", 2) == ".."
    assert [text.cut_front(path, 9) for path in ("/a/b", "/home/me/日本")] == ["/a/b", "...e/日本"]
    assert text.pad("日", 4) == "日  "


def test_table_fits_the_terminal_by_its_last_column() -> None:
    rows = [["q-1", "x" * 100], ["q-222", "y"]]
    made = [table.GAP.join(cells) for cells in table.lines(["ID", "TASK"], rows, 40)]
    assert [len(line) for line in made] == [11, 40, 8]
    assert made[1].endswith("...")


def test_piped_table_is_not_cut() -> None:
    assert table.lines(["ID", "TASK"], [["q-1", "x" * 500]], None)[1][1] == "x" * 500


def test_narrow_terminal_gets_fewer_columns() -> None:
    heads = [listing.table([QUEST], NOW, False, columns)[0] for columns in (40, 200)]
    assert heads[0] == ["ID", "STATE", "ROLE", "AGE", "TASK"]
    assert heads[1] == ["ID", "STATE", "ROLE", "PRI", "ATTEMPTS", "AGE", "TASK"]


@pytest.mark.parametrize("projects", [False, True])
def test_a_list_with_long_names_fits_eighty_columns(projects: bool) -> None:
    """What is kept of a project is its end, which tells it from its neighbours."""
    wordy = {"state": "interrupted", "role": "r" * 64, "lane": "l" * 64, "project": f"/home/{'p' * 90}/mine"}
    heads, rows = listing.table([{**QUEST, **wordy, "task": "t" * 200}], NOW, projects, 80)
    lines = [table.GAP.join(cells) for cells in table.lines(heads, rows, 80)]
    assert max(map(text.width, lines)) == 80
    assert not projects or rows[0][heads.index("PROJECT")].endswith("ppp/mine")


def test_a_short_lane_keeps_its_column_on_eighty_columns() -> None:
    heads, _ = listing.table([{**QUEST, "lane": "core", "role": "shell"}], NOW, False, 80)
    assert heads == ["ID", "STATE", "ROLE", "PRI", "ATTEMPTS", "AGE", "LANE", "TASK"]


def test_row_of_list() -> None:
    changed = {**QUEST, "lane": "core", "name": "tests", "task": "a\nb\x1b", "priority": -3}
    heads, rows = listing.table([changed], NOW, True, None)
    assert dict(zip(heads, rows[0], strict=True)) == {
        "ID": "q-1a2b3c4d5e6f",
        "STATE": "queued",
        "ROLE": "default",
        "PRI": "-3",
        "ATTEMPTS": "0/1",
        "AGE": "5min",
        "LANE": "core",
        "PROJECT": "/home/me/proj",
        "TASK": "tests: a b\\x1b",
    }


@pytest.mark.parametrize(
    ("counts", "long", "short"),
    [((3, 1, 4), "2 of 3", "2/3"), ((5, 2, 0), "3, no limit", "3"), ((0, 0, 1), "0 of 1", "0/1")],
)
def test_attempts_are_shown_without_refunded_ones(counts: tuple[int, int, int], long: str, short: str) -> None:
    given = dict(zip(("attempts", "refunds", "maxAttempts"), counts, strict=True))
    assert quest.attempts(given) == long
    assert quest.attempts(given, short=True) == short


@pytest.mark.parametrize(
    ("ms", "shown"), [(0, "0s"), (999, "0s"), (59_999, "59s"), (60_000, "1min"), (7_200_000, "2h"), (10**9, "11d")]
)
def test_spans_have_one_unit(ms: int, shown: str) -> None:
    assert moments.span(ms) == shown


def test_moments_are_relative_both_ways() -> None:
    assert moments.relative(NOW - 5000, NOW) == "5s ago"
    assert moments.relative(NOW + 7_200_000, NOW) == "in 2h"
    assert moments.relative(NOW + 10, NOW) == "now"
    assert moments.local(2**80) == f"@{2**80 / 1000:.0f}"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"state": "done"}, "q-1a2b3c4d5e6f is done"),
        ({"state": "failed", "error": "\nexit 1\nmore"}, "q-1a2b3c4d5e6f is failed: exit 1"),
        (
            {"state": "blocked", "question": "red?", "choices": ["yes", "no"]},
            "q-1a2b3c4d5e6f is blocked: red? [yes / no]",
        ),
        ({"state": "blocked"}, "q-1a2b3c4d5e6f is blocked: it needs a person"),
        ({"state": "cancelled", "reason": "old"}, "q-1a2b3c4d5e6f is cancelled: old"),
        ({"state": "cancelled", "reason": "old", "error": "cancelled: old"}, "q-1a2b3c4d5e6f is cancelled: old"),
        ({"state": "running", "cancelRequestedAt": 1}, "q-1a2b3c4d5e6f is running and is being stopped"),
    ],
)
def test_ending_names_reason_or_question(changes: dict[str, Any], line: str) -> None:
    assert quest.ending({**QUEST, **changes}) == line


RUN = {
    "id": "q-1a2b3c4d5e6f/1",
    "number": 7,
    "quest": "q-1a2b3c4d5e6f",
    "attempt": 1,
    "generation": 1,
    "owner": "o",
    "startedAt": QUEST["createdAt"],
    "finishedAt": QUEST["createdAt"] + 12_000,
    "class": "failed",
    "exitCode": 0,
    "turns": None,
    "tokens": 0,
    "costUsd": None,
}


def test_unknown_telemetry_is_a_dash_and_never_nought() -> None:
    cells = quest.run_cells(RUN, NOW)
    assert cells[:5] == ["1", "#7", "failed", "0", "12s"]
    assert cells[6:] == ["-", "0", "-", ""]
    assert quest.run_cells({**RUN, "exitCode": None, "exitSignal": 9}, NOW)[3] == "signal 9"


def test_runs_have_columns_for_what_is_known_of_one_of_them() -> None:
    """So that those of an agent that tells no telemetry fit eighty columns."""
    known = {**RUN, "turns": None, "tokens": None, "class": "interrupted", "exitCode": None, "exitSignal": 15}
    told = {**known, "error": "e" * 99}
    heads, rows = quest.run_table([known, told], NOW)
    assert heads == ["ATTEMPT", "RUN", "CLASS", "EXIT", "TOOK", "STARTED", "NOTE"]
    assert max(len(table.GAP.join(cells)) for cells in table.lines(heads, rows, 80)) == 80
    heads, rows = quest.run_table([known, {**known, "tokens": 0}], NOW)
    assert [row[heads.index("TOKENS")] for row in rows] == ["-", "0"]
    assert "TURNS" not in heads


def test_detail_shows_a_timeout_as_it_can_be_typed() -> None:
    reply = {"quest": {**QUEST, "timeoutMs": 90_500}, "runs": [], "events": [], "artifacts": []}
    assert "timeout         1min 30s 500ms\n" in detail(reply, NOW)


def test_detail_tells_that_a_running_quest_is_being_stopped() -> None:
    stopped = {**QUEST, "state": "running", "cancelRequestedAt": NOW}
    shown = detail({"quest": stopped, "runs": [], "events": [], "artifacts": []}, NOW)
    assert f"cancel asked    {moments.local(NOW)} (now)\n" in shown


def test_detail_shows_the_parts_and_escapes_them() -> None:
    reply = {
        "quest": {**QUEST, "task": "line 1\nline 2\x1b[2J", "error": "bad\n", "dependsOn": ["q-2"], "external": True},
        "runs": [RUN],
        "events": [{"seq": n, "questId": "q", "event": f"event{n}", "at": NOW, "data": {}} for n in range(12)],
        "artifacts": [{"attempt": 1, "kind": "stdout", "path": "/a/\x1bout", "bytes": 12, "createdAt": NOW}],
    }
    shown = detail(reply, NOW)
    assert "\x1b" not in shown
    assert "task:\n    line 1\n    line 2\\x1b[2J\n" in shown
    assert "depends on      q-2" in shown
    assert "1  stdout   12 B  /a/\\x1bout" in shown
    assert "1  run #7  failed  exit 0  12s" in shown
    assert "event9" in shown
    assert "event10" not in shown
    assert "result:" not in shown


def test_why_names_gates_and_when_they_open() -> None:
    gates = [
        {"gate": "lane", "detail": "lane core is busy\x1b"},
        {"gate": "notBefore", "detail": "waits for its time", "opensAt": NOW + 60_000},
    ]
    lines = why.lines(QUEST, gates, NOW)
    assert lines[0] == "q-1a2b3c4d5e6f is queued and waits:"
    assert lines[1] == "  lane: lane core is busy\\x1b"
    assert lines[2].endswith("(in 1min)")
    assert why.lines({**QUEST, "state": "done"}, [], NOW) == ["q-1a2b3c4d5e6f is done"]
    assert "nothing holds it back" in why.lines(QUEST, [], NOW)[0]


def test_health_lists_problems_with_hints() -> None:
    reply = {
        "ok": False,
        "version": "1",
        "problems": [{"what": "disk full", "hint": "free it"}],
        "paused": ["this project is paused: lunch"],
        "counts": {"queued": 2},
    }
    told = ["questlined 1: problems: 1", "  disk full", "    free it", "  this project is paused: lunch", "queued 2"]
    assert health.lines(reply) == told


@pytest.mark.parametrize(
    ("terminal", "environ", "wanted"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    terminal: bool, environ: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(colour, "on_terminal", lambda: terminal)
    assert colour.wanted() is wanted
    assert ("\033[31m" in colour.paint("failed", "failed", coloured=colour.wanted())) is wanted
