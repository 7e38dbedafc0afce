"""Durations as people write them: a number of seconds, or a systemd time span such as "1h 30min"."""

from __future__ import annotations

import re
from decimal import Decimal

SPAN_MAX_MS = 2**53 - 1
TEXT_MAX = 1000  # characters: a longer one is no duration that anybody means
_UNITS = {
    "us": "0.001 usec us \u00b5s \u03bcs",
    "ms": "1 msec ms",
    "s": "1000 seconds second sec s",
    "min": "60000 minutes minute min m",
    "h": "3600000 hours hour hr h",
    "d": "86400000 days day d",
    "w": "604800000 weeks week w",
    # A month is 30.4375 days and a year 365.25, as systemd counts them.
    "month": "2629800000 months month M",
    "y": "31557600000 years year y",
}
_MILLISECONDS = {
    word: Decimal(factor) for factor, *words in (line.split() for line in _UNITS.values()) for word in words
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?![0-9.])\s*([A-Za-z\u00b5\u03bc]*)")
_FORM = 'write seconds as a number, or a time span such as "15min", "1h 30min", "500ms"'


def parse_span(value: object) -> int:
    """Milliseconds of a duration, rounded to the nearest; something above zero never becomes zero.

    Takes an int or float of seconds, or text with the units of systemd.time(7), seconds where one is missing.
    Raises ValueError, whose text ends in how to write one.
    """
    if isinstance(value, str):
        exact = _parse_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # A file's number may have more digits than Python writes out.
        exact = Decimal(str(value)) * 1000 if abs(value) <= SPAN_MAX_MS else Decimal("Infinity")
    else:
        raise ValueError(f"it is no duration: {_FORM}")
    if not exact.is_finite() or not 0 <= exact <= SPAN_MAX_MS:
        shown = "it" if isinstance(value, int) and exact.is_infinite() else repr(value)[:80]
        raise ValueError(f"{shown} is out of range: {_FORM}")
    return max(int(exact.to_integral_value()), 1 if exact else 0)


def _parse_text(text: str) -> Decimal:
    if len(text) > TEXT_MAX:
        raise ValueError(f"it has {len(text)} characters: {_FORM}")
    position, total = 0, Decimal(0)
    stripped = text.strip()
    while position < len(stripped):
        part = _PART.match(stripped, position)
        if part is None:
            raise ValueError(f"{text[:80]!r} is no duration: {_FORM}")
        number, unit = part.groups()
        if unit and unit not in _MILLISECONDS:
            raise ValueError(f"{unit[:40]!r} is no unit of time: use us, ms, s, min, h, d, w, month or y")
        total += Decimal(number) * _MILLISECONDS[unit or "s"]
        position = part.end()
    if not stripped:
        raise ValueError(f"it is empty: {_FORM}")
    return total
