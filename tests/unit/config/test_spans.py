"""Durations and sizes as people write them."""

import pytest

from questlined.config.sizes import parse_size
from questlined.config.spans import parse_span

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (0, 0),
        (120, 120_000),
        (0.1, 100),
        (0.0001, 1),
        ("0", 0),
        ("50", 50_000),
        ("1.5", 1_500),
        (".5s", 500),
        ("15min", 900_000),
        ("15m", 900_000),
        ("1h 30min", 5_400_000),
        ("1h30", HOUR + 30_000),
        ("  2 d ", 48 * HOUR),
        ("500ms", 500),
        ("500us", 1),
        ("1500\u00b5s", 2),
        ("2h", 2 * HOUR),
        ("2hr", 2 * HOUR),
        ("3sec 7 seconds", 10_000),
        ("1w", 7 * 24 * HOUR),
        ("1M", 2_629_800_000),
        ("1month", 2_629_800_000),
        ("1y", 31_557_600_000),
        ("2min 200ms", 120_200),
    ],
)
def test_a_span_is_read_as_systemd_reads_it(written, ms):
    assert parse_span(written) == ms


@pytest.mark.parametrize(
    "written",
    [-1, "-1s", True, None, [1], "", "  ", "abc", "1 fortnight", "1H", "1..2s", "1.2.3s", "s", "infinity", "1h,",
     "\u0661s", float("inf"), float("nan"), "99999999y", 10**20, 10**5000, "9" * 5000, "9" * 1_100_000],
    ids=lambda written: type(written).__name__,
)  # fmt: skip
def test_what_is_no_span_is_refused_with_the_way_to_write_one(written):
    with pytest.raises(ValueError, match=r"write seconds as a number|use us, ms") as caught:
        parse_span(written)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("written", "size"),
    [(0, 0), (17, 17), ("17", 17), ("1K", 1024), ("1KiB", 1024), ("4 MiB", 4 * 1024**2), ("1.5G", 3 * 1024**3 // 2),
     ("2T", 2 * 1024**4), ("8B", 8)],
)  # fmt: skip
def test_a_size_is_in_powers_of_1024(written, size):
    assert parse_size(written) == size


@pytest.mark.parametrize("written", [True, 1.5, None, "", "KiB", "1KB", "1k", "-1", "1 2", "1e3", "\u0661", "9" * 5000])
def test_what_is_no_size_is_refused_with_the_way_to_write_one(written):
    with pytest.raises(ValueError, match="write bytes as a number"):
        parse_size(written)
