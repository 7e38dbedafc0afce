"""The rule of a recurrence, as people write it: five fields of numbers, names, lists, ranges and steps.

    minute 0-59   hour 0-23   day of month 1-31   month 1-12 or jan-dec   day of week 0-7 or sun-sat (0 and 7: Sunday)

Nothing else is taken, whatever other crons make of it: no seconds or years, no @daily, no L, W, #, ?, R or H, no step
without a range (5/15), no range that ends before it begins. Each has a remedy in its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from questlined.wire.errors import InvalidInput

LONGEST = 1000  # characters; the longest list of each field takes fewer
DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
EXAMPLE = 'minute, hour, day of month, month, day of week, as in "0 2 * * mon-fri"'
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Field:
    """What a field may hold. `names` stand for numbers from `low` on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of week", 0, 7, WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers that each field allows, ascending; weekdays from Sunday, 0. `any_day` and `any_weekday`: that field
    is `*`, or holds only days that its months have not. `fixed`: minute and hour name times of day, as numbers or lists
    of them."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    any_day: bool
    any_weekday: bool
    fixed: bool


def normal(text: str) -> str:
    """The same rule with single spaces between its fields."""
    return " ".join(text.split())


@lru_cache(maxsize=1024)
def parse(text: str) -> Rule:
    """The rule. Raises InvalidInput, which names the field and a remedy, also for a day that no month has."""
    texts = text[: LONGEST + 1].split()
    if len(text) > LONGEST:
        raise InvalidInput(f"cron: it has more than {LONGEST} characters", hint=EXAMPLE, field="cron")
    if texts and texts[0].startswith("@"):
        raise _shorthand(texts[0])
    if len(texts) != len(FIELDS):
        raise InvalidInput(
            f"cron: {text[:80]!r} has {len(texts)} field{'s' * (len(texts) != 1)}, not five",
            hint=f"{EXAMPLE}, in one pair of quotes; there are no seconds and no years",
            field="cron",
        )
    minutes, hours, days, months, weekdays = map(_numbers, FIELDS, texts)
    weekdays = tuple(sorted({day % 7 for day in weekdays}))
    any_day, any_weekday = texts[2] == "*", texts[4] == "*"
    never = min(days) > max(DAYS_OF_MONTH[month - 1] for month in months)
    if never and any_weekday:
        raise InvalidInput(
            f"cron: day {min(days)} never comes in month {texts[3]}",
            hint="name a day that one of these months has; 28 is the last that all have",
            field="cron",
        )
    fixed = all(part.isdigit() for part in f"{texts[0]},{texts[1]}".split(","))
    return Rule(minutes, hours, days, months, weekdays, any_day or never, any_weekday, fixed)


def _shorthand(word: str) -> InvalidInput:
    written = SHORTHANDS.get(word.lower())
    hint = f'write it out: "{written}"' if written else f"write the five fields: {EXAMPLE}"
    return InvalidInput(f"cron: {word[:40]!r} is no rule of five fields", hint=hint, field="cron")


def _numbers(field: Field, text: str) -> tuple[int, ...]:
    """What the field allows, ascending."""
    return tuple(sorted({number for part in text.split(",") for number in _part(field, part)}))


def _part(field: Field, part: str) -> range:
    """One number, name, range or `*`, with or without a step."""
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    if span == "*":
        low, high = field.low, 6 if field.names is WEEKDAYS else field.high
    elif dash:
        low, high = _number(field, part, first), _number(field, part, last)
        if last.lower() == "sun" and low > 0:
            high = 7  # fri-sun ends with the week
        if high < low:
            raise _wrong(field, part, "ends before it begins", "write two ranges, as in 22-23,0-2 for 22-2")
    else:
        low = high = _number(field, part, first)
        if slash:
            raise _wrong(field, part, "is a step without a range", f"write {first}-{field.high}/{step}")
    if not slash:
        return range(low, high + 1)
    longest = max(1, high - low)
    if not _digits(step) or not 1 <= int(step) <= longest:
        raise _wrong(field, part, "has no step that fits", f"a step from 1 to {longest} fits there")
    return range(low, high + 1, int(step))


def _number(field: Field, part: str, text: str) -> int:
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.low
    if not _digits(text):
        names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
        known = f"numbers from {field.low} to {field.high}{names}; lists 1,2; ranges 1-5; steps */2; * for all"
        raise _wrong(field, part, "is not understood", known)
    if not field.low <= int(text) <= field.high:
        raise _wrong(field, part, f"is not between {field.low} and {field.high}", "give a number in that range")
    return int(text)


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _wrong(field: Field, part: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"cron: {field.name}: {part[:40]!r} {what}", hint=remedy, field="cron")
