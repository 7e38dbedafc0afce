"""Numbers, spans and times as people type them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from qlctl.values import integer, moment_ms, names, span_ms
from questlined.wire.errors import InvalidInput

NOW = 1_790_000_000_000


@pytest.fixture
def _new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-5", -5), ("+7", 7), ("0009", 9), ("9007199254740991", 2**53 - 1)]
)
def test_whole_numbers(text: str, value: int) -> None:
    assert integer("--priority", text) == value


@pytest.mark.parametrize(
    "text", ["", "-", "x", "1.0", "1_000", " 1", "٣", "²", "0x10", "9007199254740992", "-9007199254740992", "9" * 5000]
)
def test_what_is_no_whole_number_names_the_option(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        integer("--priority", text)
    assert caught.value.message.startswith("--priority: ")
    assert caught.value.details["field"] == "--priority"
    assert caught.value.hint
    assert len(caught.value.message) < 100


def test_least_is_a_bound() -> None:
    assert integer("--limit", "1", 1) == 1
    with pytest.raises(InvalidInput, match="out of range"):
        integer("--limit", "0", 1)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90", 90_000),
        ("0", 0),
        ("1.5", 1_500),
        (".5s", 500),
        ("15min", 900_000),
        ("1h 30min", 5_400_000),
        ("1h30min", 5_400_000),
        (" 2 d ", 172_800_000),
        ("1w", 604_800_000),
        ("1M", 2_629_800_000),
        ("5m", 300_000),
        ("250ms", 250),
        ("1us", 1),
        ("1h 30", 3_630_000),
        ("0.1h", 360_000),
    ],
)
def test_spans(text: str, ms: int) -> None:
    assert span_ms("--timeout", text) == ms


@pytest.mark.parametrize("text", ["", " ", "x", "5 parsecs", "-5", "1..2s", ".", "min", "1h,", "1e3", "٣s", "9" * 31])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        span_ms("--timeout", text)
    assert caught.value.message.startswith("--timeout: ")
    assert "15min" in caught.value.hint


def test_span_beyond_exact_integers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        span_ms("--timeout", "300000y")


@pytest.mark.usefixtures("_new_york")
@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("+90", NOW + 90_000),
        ("+1h 30min", NOW + 5_400_000),
        ("@1790000000", 1_790_000_000_000),
        ("2027-01-31T08:00:00Z", 1_801_382_400_000),
        ("2027-01-31T08:00", 1_801_400_400_000),
        ("2027-01-31 08:00+01:00", 1_801_378_800_000),
        ("2027-01-31", 1_801_371_600_000),
        ("20270131", 1_801_371_600_000),
    ],
)
def test_moments(text: str, ms: int) -> None:
    assert moment_ms("--not-before", text, NOW) == ms


@pytest.mark.parametrize("text", ["", "tomorrow", "2027-13-01", "1790000000", "+", "+x", "@x", "0001-01-01", "25:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        moment_ms("--not-before", text, NOW)
    assert caught.value.message.startswith("--not-before: ")


def test_lists_of_names_may_be_repeated_but_not_empty() -> None:
    assert names("--depends", ["a,b", " c "]) == ["a", "b", "c"]
    for bad in ("", "a,", "a,,b"):
        with pytest.raises(InvalidInput, match="--depends: an empty name"):
            names("--depends", [bad])
