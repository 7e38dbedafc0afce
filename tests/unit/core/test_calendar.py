"""When rules are due, on days on which clocks are changed, and what of the missed times counts."""

from __future__ import annotations

import random
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from questlined.core import calendar
from questlined.core.cron import Rule, parse
from questlined.wire.errors import InvalidInput
from tests.support.times import TIMES, Times, ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = ms("2026-06-01T12:00Z")


@pytest.mark.parametrize("times", TIMES, ids=str)
def test_a_rule_comes_at_its_times(times: Times) -> None:
    """All of them, each once, whichever way one goes, from a moment before, at and after each."""
    rule, where, moments = parse(times.rule), calendar.zone(times.zone), times.moments
    assert calendar.following(rule, where, moments[0] - 1000, len(moments)) == moments
    assert calendar.latest(rule, where, 0, moments[-1], len(moments)) == moments
    assert [calendar.shown(where, moment)[:16] for moment in moments] == [text[:16] for text in times.expected]
    for number, moment in enumerate(moments[1:], 1):
        assert calendar.upcoming(rule, where, moment - 1) == moment
        assert calendar.upcoming(rule, where, moments[number - 1]) == moment
        assert calendar.latest(rule, where, 0, moment, 1) == [moment]
        assert calendar.latest(rule, where, 0, moment - 1, 1) == [moments[number - 1]]
        assert calendar.latest(rule, where, moment, moment, 9) == [moment]


def readings(rule: Rule, where: zoneinfo.ZoneInfo, start: datetime, hours: int) -> list[int]:
    """The moments of a rule without days, found by asking the zone's clock what it shows at each minute."""
    found = []
    for minute in range(60 * hours):
        at = start + timedelta(minutes=minute)
        here = at.astimezone(where)
        if here.minute in rule.minutes and here.hour in rule.hours and not (rule.fixed and here.fold):
            found.append(int(at.timestamp()) * 1000)
    return found


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "America/Santiago", "Europe/Berlin"])
def test_where_no_time_is_left_out_rules_come_when_the_clock_shows_it(zone: str) -> None:
    """Through the autumn, where times come twice; any minute may be the one that is asked from."""
    chance, where = random.Random(zone), zoneinfo.ZoneInfo(zone)
    step = next(turn for turn in calendar.turns(where, NOON // 1000 - 365 * 86400, NOON // 1000) if turn.step < 0)
    start = datetime.fromtimestamp(step.at, UTC) - timedelta(hours=5)
    for _ in range(20):
        minutes, hours = chance.choice(("*/7", "0", "13,44", "*")), chance.choice(("*", "*/2", "0,1,2,23", "1"))
        rule = parse(f"{minutes} {hours} * * *")
        expected = readings(rule, where, start, 10)
        since = int(start.timestamp()) * 1000 - 1000
        assert list(calendar.between(rule, where, since, since + 10 * HOUR)) == expected
        middle = since + chance.randrange(600) * MINUTE
        assert list(calendar.between(rule, where, middle, since + 10 * HOUR)) == [m for m in expected if m > middle]
        back = [m for m in expected if m <= middle]
        assert calendar.latest(rule, where, since + 1, middle, 1000) == back


def test_a_rule_of_every_minute_is_quick_over_years() -> None:
    """Only what is given is looked for, of the years between nothing."""
    rule, where = parse("* * * * *"), calendar.zone("Europe/Berlin")
    assert calendar.due(rule, where, "one", 0, NOON) == [NOON]
    assert calendar.due(rule, where, "all", 0, NOON) == [NOON - MINUTE * ago for ago in range(99, -1, -1)]


def test_croniter_is_loaded_with_the_first_rule() -> None:
    """It costs 50 ms and a MiB, which a daemon without recurrences does not pay."""
    code = "import sys, questlined.app; print('croniter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_missing_day_of_every_minute_is_one_moment() -> None:
    rule, where = parse("* * * * *"), calendar.zone("Pacific/Apia")
    last = ms("2011-12-29T23:59-10:00")
    assert calendar.following(rule, where, last, 2) == [last + MINUTE, last + 2 * MINUTE]
    assert calendar.latest(rule, where, 0, last + MINUTE, 2) == [last, last + MINUTE]


@pytest.mark.parametrize(
    ("catch_up", "off", "expected"),
    [
        ("one", 6 * HOUR, [0]),
        ("all", 6 * HOUR, [5, 4, 3, 2, 1, 0]),
        ("skip", 6 * HOUR, [0]),
        ("one", 0, [0]),
        ("all", 0, [0]),
        ("skip", 0, [0]),
    ],
)
def test_what_was_missed_counts_by_catch_up(catch_up: str, off: int, expected: list[int]) -> None:
    """Of an hourly rule, at the very hour."""
    rule, where = parse("0 * * * *"), calendar.zone("UTC")
    since = NOON - off + (HOUR if off else 0)
    assert calendar.due(rule, where, catch_up, since, NOON) == [NOON - ago * HOUR for ago in expected]


@pytest.mark.parametrize(("late", "taken"), [(0, True), (60_000, True), (60_001, False), (30 * MINUTE, False)])
def test_skip_leaves_out_what_it_has_missed_by_more_than_a_minute(late: int, taken: bool) -> None:
    """A driver may be a little late; the others take it all the same."""
    rule, where = parse("0 * * * *"), calendar.zone("UTC")
    assert calendar.due(rule, where, "skip", NOON, NOON + late) == ([NOON] if taken else [])
    assert calendar.due(rule, where, "one", NOON, NOON + late) == [NOON]


def test_nothing_is_due_before_its_time() -> None:
    """By 10 ms neither."""
    rule, where = parse("0 * * * *"), calendar.zone("UTC")
    for catch_up in calendar.CATCH_UP:
        assert calendar.due(rule, where, catch_up, NOON, NOON - 10) == []


@pytest.mark.parametrize("name", ["", "Nowhere/City", "../etc/passwd", "/etc/passwd", "Europe", "berlin\0", "x" * 5000])
def test_a_zone_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        calendar.zone(name)
    assert refusal.value.details["field"] == "timezone"
    assert "Europe/Berlin" in refusal.value.hint


def test_a_zone_that_is_not_there_is_refused_without_a_walk_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules of other programs ask for theirs at each look; all zones are 600 files."""
    monkeypatch.setattr(zoneinfo, "available_timezones", pytest.fail)
    with pytest.raises(InvalidInput, match="no zone"):
        calendar.zone("Nowhere/City")


def test_a_machine_without_zones_has_utc_and_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    calendar.zone.cache_clear()
    monkeypatch.setattr(zoneinfo, "ZoneInfo", unknown)
    assert calendar.zone("UTC") is UTC
    with pytest.raises(InvalidInput, match="no time zone data") as refusal:
        calendar.zone("Europe/Berlin")
    assert "tzdata" in refusal.value.hint


def test_changes_of_a_zones_clock_are_found() -> None:
    """When, by how much, and what it showed."""
    where = calendar.zone("America/New_York")
    found = list(islice(calendar.turns(where, NOON // 1000, NOON // 1000 + 366 * 86400), 9))
    assert found == [
        calendar.Turn(ms("2026-11-01T02:00-04:00") // 1000, -3600, 2 * 3600),
        calendar.Turn(ms("2027-03-14T02:00-05:00") // 1000, 3600, 2 * 3600),
    ]
    assert list(calendar.turns(UTC, 0, NOON // 1000)) == []
