"""A rule as OnCalendar=: systemd itself says when such a timer wakes."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from questlined.core import calendar, oncalendar
from questlined.core.cron import parse
from tests.support.times import TIMES, Times, ms

MUST = os.environ.get("QUESTLINE_TEST_SYSTEMD") == "1"
HOUR, DAY, YEAR = 3_600_000, 86_400_000, 366 * 86_400_000
MANY = 800  # times a year, which systemd-analyze is asked for; of more those around the days in question
NOW = ms("2026-06-01T12:00Z")
DAYS = (*TIMES, *(Times(rule, zone, ("2027-01-01T00:00Z",)) for rule, zone in (
    ("30 0 * 3,4 fri-sun", "Asia/Beirut"), ("30 2 * * 0", "Africa/Casablanca"), ("20 0 * * *", "Atlantic/Azores"),
    ("45 2 * * *", "Pacific/Chatham"), ("0 5 * * mon-fri", "America/St_Johns"), ("0 2,14 1,15 * *", "Europe/London"),
)))  # fmt: skip


def in_a_year(line: str) -> int:
    """How often a line of any day comes at most."""
    date, time = line.split()[:2]
    months, minutes = date.split("-")[1].split(","), time.split(":")[1].split(",")
    return 31 * (12 if months == ["*"] else len(months)) * (60 if minutes == ["*"] else len(minutes))


def wakes(line: str, base_ms: int, number: int) -> set[int]:
    """The first times of a line after `base_ms`, as systemd has them."""
    command = ["systemd-analyze", "calendar", f"--iterations={number}", f"--base-time=@{base_ms // 1000}", line]
    environ = {"TZ": "UTC", "LC_ALL": "C", "PATH": os.environ["PATH"]}
    out = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True).stdout
    found = [line.partition(": ") for line in out.splitlines()]
    times = [text for key, _, text in found if key.strip() == "Next elapse" or key.strip().startswith("Iter.")]
    return {ms(" ".join(text.split()[1:3]) + "+00:00") for text in times if text != "never"}  # Mon 2027-01-04 … UTC


def missed(times: Times) -> list[str]:
    """Times of the rule, over a year, at which its timer would sleep."""
    rule, where, first = parse(times.rule), calendar.zone(times.zone), times.moments[0]
    base, end = first - DAY, first - DAY + YEAR
    wanted = list(calendar.between(rule, where, base, end))
    if len(wanted) > MANY:
        base, end = first - HOUR, times.moments[-1] + DAY
        wanted = list(calendar.between(rule, where, base, end))
    awake = set()
    for line in oncalendar.lines(rule, times.zone, base):
        usual = times.zone in line  # no more often than the rule, but for a day or two
        awake |= wakes(line, base, len(wanted) + 9 if usual else in_a_year(line) + 9)
    return [calendar.shown(where, moment) for moment in wanted if moment not in awake]


@pytest.mark.skipif(not shutil.which("systemd-analyze") and not MUST, reason="systemd-analyze is not installed")
def test_a_timer_wakes_at_every_time_of_its_rule() -> None:
    """To the second, in a year with its changes of clocks; in both hemispheres, at midnight, by half an hour, by a
    day, and where systemd cannot work the zone's own times out."""
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(map(str, DAYS), pool.map(missed, DAYS), strict=True))
    assert {name: times for name, times in found.items() if times} == {}


@pytest.mark.parametrize(
    ("rule", "zone", "lines"),
    [
        ("30 2 * * *", "UTC", ["*-*-* 02:30:00 UTC"]),
        ("*/15 * * * *", "UTC", ["*-*-* *:00,15,30,45:00 UTC"]),
        ("* 0-23 */1 1-12 *", "UTC", [f"*-*-{','.join(f'{day:02}' for day in range(1, 32))} *:*:00 UTC"]),
        ("0 5 * * mon-fri", "UTC", ["Mon,Tue,Wed,Thu,Fri *-*-* 05:00:00 UTC"]),
        ("0 5 1 1,7 *", "UTC", ["*-01,07-01 05:00:00 UTC"]),
        ("0 5 1 * sun", "UTC", ["Sun *-*-* 05:00:00 UTC", "*-*-01 05:00:00 UTC"]),
        ("30 4 * * *", "America/New_York", ["*-*-* 04:30:00 America/New_York"]),
        ("30 1 * * *", "America/New_York", ["*-*-* 01:30:00 America/New_York"]),
        ("30 2 * * *", "America/New_York", ["*-*-* 02:30:00 America/New_York", "*-03-* 07:00:00 UTC"]),
        ("*/30 1 * * *", "America/New_York", ["*-*-* 01:00,30:00 America/New_York", "*-11-* 06:00,30:00 UTC"]),
        ("0 3 * * *", "America/New_York", ["*-*-* 03:00:00 America/New_York"]),
        ("0 3 * * *", "Pacific/Chatham", ["*-*-* 13:15:00 UTC", "*-*-* 14:00,15:00 UTC"]),
        ("30 12 * * *", "Pacific/Chatham", ["*-*-* 22:45:00 UTC", "*-*-* 23:45:00 UTC"]),
    ],
)
def test_lines_are_few(rule: str, zone: str, lines: list[str]) -> None:
    """The rule's own, a second one where days are named in two ways, and what changes of the clock bring with them."""
    found = oncalendar.lines(parse(rule), zone, NOW)
    assert found == lines


@pytest.mark.parametrize("zone", ["Pacific/Chatham", "America/New_York"])
def test_lines_are_made_without_going_through_the_rules_times(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a rule of every minute in Chatham took the daemon's loop seven seconds."""
    monkeypatch.setattr(calendar, "following", pytest.fail)
    monkeypatch.setattr(calendar, "between", pytest.fail)
    assert len(oncalendar.lines(parse("* * * * *"), zone, NOW)) <= 24
