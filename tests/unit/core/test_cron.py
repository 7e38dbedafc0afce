"""Rules as people write them: what is taken, what it means, and what the refusal of all else says."""

from __future__ import annotations

import pytest

from questlined.core.cron import normal, parse
from questlined.wire.errors import InvalidInput

EVERY_DAY = tuple(range(1, 32))
EVERY_WEEKDAY = tuple(range(7))


@pytest.mark.parametrize(
    ("text", "field", "numbers"),
    [
        ("5 * * * *", "minutes", (5,)),
        ("05 * * * *", "minutes", (5,)),
        ("1,3,2,3 * * * *", "minutes", (1, 2, 3)),
        ("*/20 * * * *", "minutes", (0, 20, 40)),
        ("0-59/20 * * * *", "minutes", (0, 20, 40)),
        ("10-30/7 * * * *", "minutes", (10, 17, 24)),
        ("5-5/1 * * * *", "minutes", (5,)),
        ("50-59/9,1 * * * *", "minutes", (1, 50, 59)),
        ("0 9-17/4 * * *", "hours", (9, 13, 17)),
        ("0 22-23,0-1 * * *", "hours", (0, 1, 22, 23)),
        ("0 0 */10 * *", "days", (1, 11, 21, 31)),
        ("0 0 * * *", "days", EVERY_DAY),
        ("0 0 1 jan,MAR,Dec *", "months", (1, 3, 12)),
        ("0 0 1 */6 *", "months", (1, 7)),
        ("0 0 1 apr-jun *", "months", (4, 5, 6)),
        ("0 0 * * 0", "weekdays", (0,)),
        ("0 0 * * 7", "weekdays", (0,)),
        ("0 0 * * 5-7", "weekdays", (0, 5, 6)),
        ("0 0 * * fri-sun", "weekdays", (0, 5, 6)),
        ("0 0 * * sun-tue", "weekdays", (0, 1, 2)),
        ("0 0 * * Mon-FRI", "weekdays", (1, 2, 3, 4, 5)),
        ("0 0 * * */2", "weekdays", (0, 2, 4, 6)),
        ("0 0 * * 0-7", "weekdays", EVERY_WEEKDAY),
        ("0 0 * * *", "weekdays", EVERY_WEEKDAY),
    ],
)
def test_a_field_allows_numbers(text: str, field: str, numbers: tuple[int, ...]) -> None:
    assert getattr(parse(text), field) == numbers


@pytest.mark.parametrize(
    ("text", "any_day", "any_weekday"),
    [
        ("0 0 * * *", True, True),
        ("0 0 1 * *", False, True),
        ("0 0 * * mon", True, False),
        ("0 0 1 * mon", False, False),
        ("0 0 */2 * mon", False, False),
        ("0 0 */1 * 0-6", False, False),
        ("0 0 31 2,4 mon", True, False),
    ],
)
def test_only_a_bare_star_leaves_a_day_open(text: str, any_day: bool, any_weekday: bool) -> None:
    """A step counts as restricted, whatever it leaves out. A day that never comes is as good as none: older croniters
    look for it for 50 years and give up."""
    assert (parse(text).any_day, parse(text).any_weekday) == (any_day, any_weekday)


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("30 1 * * *", True),
        ("0,30 1,13 * * *", True),
        ("30 * * * *", False),
        ("*/30 1 * * *", False),
        ("0-30/30 1 * * *", False),
        ("0 1-2 * * *", False),
    ],
)
def test_times_of_day_are_numbers_and_lists(text: str, fixed: bool) -> None:
    assert parse(text).fixed is fixed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ("0 fields", "0 2 * * mon-fri")),
        ("* * * *", ("4 fields",)),
        ("0 * * * * *", ("6 fields", "no seconds")),
        ("0 0 1 1 * 2027", ("6 fields", "no years")),
        ("@daily", ("'@daily'", '"0 0 * * *"')),
        ("@reboot", ("'@reboot'",)),
        ("60 * * * *", ("minute", "'60'", "0 and 59")),
        ("* 24 * * *", ("hour", "'24'")),
        ("* * 0 * *", ("day of month", "'0'")),
        ("* * * 13 *", ("month", "'13'")),
        ("* * * * 8", ("day of week", "'8'", "0 and 7")),
        ("-1 * * * *", ("minute", "'-1'")),
        ("1.5 * * * *", ("minute", "'1.5'")),
        ("٣ * * * *", ("minute", "lists 1,2")),
        ("99999999999999999999 * * * *", ("minute",)),
        ("1,,2 * * * *", ("minute",)),
        ("1- * * * *", ("minute", "'1-'")),
        ("jan * * * *", ("minute", "'jan'")),
        ("* * * mon *", ("month", "jan to dec")),
        ("* * L * *", ("day of month", "'L'")),
        ("* * 15W * *", ("day of month", "'15W'")),
        ("* * ? * mon", ("day of month", "'?'")),
        ("* * * * 5#2", ("day of week", "'5#2'")),
        ("* * * * L5", ("day of week", "'L5'")),
        ("R * * * *", ("minute", "'R'")),
        ("H H * * *", ("minute", "'H'")),
        ("5/15 * * * *", ("minute", "a step without a range", "write 5-59/15")),
        ("* * * * mon/2", ("day of week", "write mon-7/2")),
        ("*/0 * * * *", ("minute", "'*/0'", "from 1 to 59")),
        ("*/90 * * * *", ("minute", "'*/90'", "from 1 to 59")),
        ("1-5/10 * * * *", ("minute", "from 1 to 4")),
        ("*/ * * * *", ("minute", "'*/'")),
        ("*/2/3 * * * *", ("minute",)),
        ("0 22-2 * * *", ("hour", "ends before it begins", "22-23,0-2")),
        ("0 0 * * sat-mon", ("day of week", "ends before it begins")),
        ("0 0 31 2 *", ("day 31", "month 2")),
        ("0 0 30-31 feb *", ("day 30",)),
        ("0 0 31 4,6,9,11 *", ("day 31",)),
        ("0 0 1 1 *" + " " * 1000, ("1000 characters",)),
    ],
)
def test_anything_else_is_refused_with_a_remedy(text: str, says: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse(text)
    error = refusal.value
    assert error.details["field"] == "cron"
    assert error.hint
    assert [words for words in says if words not in f"{error.message} | {error.hint}"] == []


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 31 2,3 *", "0 0 31 2 mon", "0 0 31 * *"])
def test_a_day_that_comes_sometimes_is_taken(text: str) -> None:
    """By its weekday, too."""
    assert parse(text).days


def test_white_space_is_of_no_meaning() -> None:
    assert normal(" 0\t 2  * * mon ") == "0 2 * * mon"
    assert parse(" 0\t 2  * * mon ") == parse("0 2 * * mon")
