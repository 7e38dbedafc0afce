"""A recurrence as OnCalendar= of a systemd timer: an alarm clock that wakes at every moment of the rule.

It may wake more often, as what is due is decided by the rule. Around a change of the zone's clock systemd skips what
lies in a gap and the second time of an overlap; and it wants day of month AND day of week where a rule means OR. So a
rule of both becomes two lines, and what those lines would miss at a change of the clock becomes lines in UTC, for the
months in which the clock is changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from questlined.core import calendar
from questlined.core.calendar import Turn
from questlined.core.cron import Rule

YEARS_S = 20 * 366 * calendar.DAY_S  # how far changes of the clock are looked for
HOUR_S = 3600
EVERY_MONTH = tuple(range(1, 13))
WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def lines(rule: Rule, zone: str, now_ms: int) -> list[str]:
    """The values of OnCalendar= for the years from `now_ms` on. Raises InvalidInput for a zone that is not there."""
    now_s = now_ms // 1000
    changes = list(calendar.turns(calendar.zone(zone), now_s - calendar.DAY_S, now_s + YEARS_S))
    if any(change.step > 0 and change.reading % HOUR_S for change in changes):
        return list(_any_day(rule, changes))
    return [*_usual(rule, zone), *_at_changes(rule, changes)]


def _usual(rule: Rule, zone: str) -> Iterator[str]:
    days = "*" if rule.any_day else _listed(rule.days)
    weekdays = ",".join(WEEKDAYS[day] for day in rule.weekdays)
    months = _months(rule.months)
    time = f"{_hours(rule.hours)}:{_minutes(rule.minutes)}:00 {zone}"
    if rule.any_weekday:
        yield f"*-{months}-{days} {time}"
        return
    yield f"{weekdays} *-{months}-* {time}"
    if not rule.any_day:
        yield f"*-{months}-{days} {time}"


def _at_changes(rule: Rule, changes: list[Turn]) -> Iterator[str]:
    """Lines for each time of day that comes while the zone's clock changes, on whatever day."""
    months: dict[tuple[int, int], set[int]] = defaultdict(set)  # by hour and minute, in UTC
    for change in changes:
        for moment in (*_after_gap(rule, change), *_second_pass(rule, change)):
            at = datetime.fromtimestamp(moment, UTC)
            months[at.hour, at.minute].add(at.month)
    yield from _in_utc(months)


def _any_day(rule: Rule, changes: list[Turn]) -> Iterator[str]:
    """Lines for the rule's times of every day, as they are before and after each change of the zone's clock. systemd
    252 gives a timer up ("Resource deadlock avoided") whose time lies in a gap that begins within an hour."""
    ahead = {(change.reading - change.at + step) % calendar.DAY_S for change in changes for step in (0, change.step)}
    moments = {time - distance for distance in ahead for time in _times(rule)}
    moments.update(moment for change in changes for moment in _after_gap(rule, change))
    minutes = {moment % calendar.DAY_S // 60 for moment in moments}
    yield from _in_utc({divmod(minute, 60): set(EVERY_MONTH) for minute in minutes})


def _times(rule: Rule) -> list[int]:
    """The times of a day, in seconds of it."""
    return [HOUR_S * hour + 60 * minute for hour in rule.hours for minute in rule.minutes]


def _after_gap(rule: Rule, change: Turn) -> Iterator[int]:
    """The moment at which a clock that is set forward goes on, where it leaves out times of the rule."""
    if any((time - change.reading) % calendar.DAY_S < change.step for time in _times(rule)):
        yield change.at


def _second_pass(rule: Rule, change: Turn) -> Iterator[int]:
    """The moments of the times that a clock that is set back shows again, where they count."""
    since = ((time - change.reading - change.step) % calendar.DAY_S for time in _times(rule))
    return (change.at + passed for passed in since if passed < -change.step and not rule.fixed)


def _in_utc(months: Mapping[tuple[int, int], set[int]]) -> Iterator[str]:
    """Lines of the times whose months are given, those of one hour and the same months in one."""
    minutes: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for hour, minute in sorted(months):
        minutes[hour, tuple(sorted(months[hour, minute]))].append(minute)
    for (hour, in_months), found in minutes.items():
        yield f"*-{_months(in_months)}-* {hour:02}:{_minutes(found)}:00 UTC"


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(f"{number:02}" for number in numbers)


def _months(numbers: tuple[int, ...]) -> str:
    return "*" if len(numbers) == len(EVERY_MONTH) else _listed(numbers)


def _hours(numbers: tuple[int, ...]) -> str:
    return "*" if len(numbers) == 24 else _listed(numbers)


def _minutes(numbers: Iterable[int]) -> str:
    found = tuple(numbers)
    return "*" if len(found) == 60 else _listed(found)
