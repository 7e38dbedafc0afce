"""Spans, sizes, times and numbers as people type them, mutated: a value in range, or how to write one."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from qlctl.values import LARGEST, integer, moment_ms, names, span_ms
from questlined.config.sizes import parse_size
from questlined.config.spans import SPAN_MAX_MS, parse_span
from questlined.wire.errors import InvalidInput
from tests.fuzz.mutate import damaged, text

SEED = int(os.environ.get("FUZZ_SEED", "20264"))
TEXTS = 8_000
NOW = 1_800_000_000_000
RIGHT = (
    "0", "1", "90", "1.5", ".5", "90s", "15min", "1h 30min", "500ms", "2d", "1w 2d 3h", "1 month", "1y", "3us",
    "7\u00b5s", "5M",
    "512KiB", "4M", "1GiB", "2T", "10B", "1.5K", "-1", "+5", "9007199254740991", "9007199254740992",
    "-9007199254740991", "99999999999999999999",
    "2027-01-31", "20270131", "2027-01-31T08:00", "2027-01-31T08:00:00Z", "2027-01-31 08:00:00.123+05:30",
    "2027-W05-1", "@1800000000", "@-5",
    "+90s", "+1h 30min", "0001-01-01", "9999-12-31T23:59:59", "9999-12-31T23:59:59-23:59", "a,b", "a, b ,c", "a,,b",
    "24:00",
    "9" * 5000, "9" * 31 + "s", "0." + "0" * 40 + "1s", "1s" * 500, "\u0661\u0662", "1\u00a0s", "\u0031\ufe0f",
    "1e3", "0x10", "1_000", "nan", "inf",
    "9" * 1_100_000, "9" * 1_100_000 + "w", "1." + "0" * 1_100_000 + "s", "@" + "9" * 5000, "+" + "9" * 5000 + "y",
)  # fmt: skip


def texts() -> list[str]:
    """The right ones, and mutations of them."""
    made = [*RIGHT]
    short = [each for each in RIGHT if len(each) < 2000]
    for number in range(TEXTS):
        random = Random(SEED * 1_000_003 + number)
        way = random.random()
        if way < 0.2:
            made.append(random.choice(short) + random.choice(("", " ", ",")) + random.choice(short))
        elif way < 0.4:
            made.append(text(random))
        else:
            data = damaged(random, random.choice(short).encode(), random.choice(short).encode())
            made.append(data.decode("utf-8", random.choice(("replace", "surrogateescape", "ignore"))))
    return made


def outcome(parse: Callable[[str], Any], written: str) -> Any:
    """The value, or the refusal; anything else is raised."""
    try:
        return parse(written)
    except (InvalidInput, ValueError) as error:
        return error


def test_spans_and_sizes_of_the_configuration() -> None:
    """Milliseconds from 0 to 2^53 - 1, bytes from 0; ValueError with the form."""
    accepted = 0
    for written in texts():
        for parse, high in ((parse_span, SPAN_MAX_MS), (parse_size, 2**200)):
            found = outcome(parse, written)
            if isinstance(found, ValueError):
                assert "write" in str(found) or "use" in str(found), (written[:200], str(found)[:300])
                assert len(str(found)) < 400, str(found)[:500]
            else:
                accepted += 1
                assert type(found) is int
                assert 0 <= found <= high, written[:200]
    assert accepted > 100


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), 2**63, 1e308, float("inf"), float("-inf"), float("nan"), True, None, [], b"1"],
    ids=lambda value: type(value).__name__,
)
def test_values_of_the_configuration_that_are_no_text(value: object) -> None:
    """In range, or refused in words."""
    with pytest.raises(ValueError, match="write"):
        parse_span(value)


PARSERS: tuple[tuple[Callable[[str], int], int], ...] = (
    (lambda written: integer("--x", written), -LARGEST),
    (lambda written: integer("--x", written, least=0), 0),
    (lambda written: span_ms("--x", written), 0),
    (lambda written: moment_ms("--x", written, NOW), -LARGEST),
)


@pytest.mark.parametrize("which", range(len(PARSERS)), ids=["integer", "natural", "span", "moment"])
def test_what_qlctl_reads(which: int) -> None:
    """A number within what JSON holds exactly, or InvalidInput naming the option, with a hint, in few words."""
    parse, low = PARSERS[which]
    accepted = 0
    for written in texts():
        found = outcome(parse, written)
        if isinstance(found, InvalidInput):
            assert found.message.startswith("--x: ")
            assert found.hint
            assert found.details["field"] == "--x"
            assert len(found.message) < 400
        else:
            accepted += 1
            assert type(found) is int, (written[:200], found)
            assert low <= found <= LARGEST, written[:200]
    assert accepted > 20


def test_lists_of_names() -> None:
    """Parts that are something, or InvalidInput."""
    for written in texts():
        found = outcome(lambda given: names("--x", [given]), written)
        if isinstance(found, InvalidInput):
            assert found.message.startswith("--x: ")
        else:
            assert found
            assert all(part and part == part.strip() for part in found)
