"""What people type as numbers, spans and times, turned into what the wire takes. All errors are InvalidInput."""

from __future__ import annotations

import time

from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 2**53 - 1  # every JSON reader holds integers up to here exactly
DIGITS = "0123456789"
SPAN_HINT = "a number of seconds, or a span such as 90s, 15min, 1h 30min, 2d"
TIME_HINT = "a time such as 2027-01-31T08:00 or 2027-01-31T08:00:00Z, @SECONDS since 1970, or +SPAN from now"

UNIT_US = {
    **dict.fromkeys(("us", "usec", "\u00b5s", "\u03bcs"), 1),
    **dict.fromkeys(("ms", "msec"), 1_000),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
    **dict.fromkeys(("M", "month", "months"), 2_629_800_000_000),
    **dict.fromkeys(("y", "year", "years"), 31_557_600_000_000),
}


def now_ms() -> int:
    """Wall time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def shorten(text: str) -> str:
    """A value as an error message quotes it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def integer(field: str, text: str, least: int = -LARGEST) -> int:
    """A whole number of decimal digits, between `least` and 2^53 - 1."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits or digits.strip(DIGITS):
        raise InvalidInput(f"{field}: {shorten(text)} is no whole number", hint=f"for example {field} 5", field=field)
    # sixteen digits hold the largest; int() itself refuses a text of thousands
    value = int(text) if len(digits.lstrip("0")) <= 16 else (-LARGEST - 1 if text[0] == "-" else LARGEST + 1)
    if not least <= value <= LARGEST:
        bounds = f"a whole number from {least} to {LARGEST}"
        raise InvalidInput(f"{field}: {shorten(text)} is out of range", hint=bounds, field=field)
    return value


def span_ms(field: str, text: str) -> int:
    """A span in milliseconds, rounded up: a number of seconds, or numbers with systemd's units."""
    total_us, rest = 0, text.strip()
    if not rest:
        raise _no_span(field, text)
    while rest:
        number, rest = _leading(rest, lambda char: char in DIGITS or char == ".")
        unit, rest = _leading(rest, str.isalpha)
        whole, _, part = number.partition(".")
        if not (whole + part) or "." in part or unit not in UNIT_US or len(number) > 30:
            raise _no_span(field, text)
        total_us += int(whole + part) * UNIT_US[unit] // 10 ** len(part)
    return _bounded(field, text, -(-total_us // 1000))


def _leading(text: str, belongs: Callable[[str], bool]) -> tuple[str, str]:
    """The characters at the start for which `belongs` is true, and the rest without white space before it."""
    end = 0
    while end < len(text) and belongs(text[end]):
        end += 1
    return text[:end], text[end:].lstrip()


def _no_span(field: str, text: str) -> InvalidInput:
    return InvalidInput(f"{field}: {shorten(text)} is no span of time", hint=SPAN_HINT, field=field)


def _bounded(field: str, text: str, value: int) -> int:
    if abs(value) > LARGEST:
        raise InvalidInput(f"{field}: {shorten(text)} is out of range", hint=TIME_HINT, field=field)
    return value


def moment_ms(field: str, text: str, now: int) -> int:
    """A moment in epoch milliseconds: ISO 8601 (local zone where it names none), `@SECONDS`, or `+SPAN` from now."""
    if text.startswith("+"):
        return _bounded(field, text, now + span_ms(field, text[1:]))
    if text.startswith("@"):
        return _bounded(field, text, integer(field, text[1:]) * 1000)
    if text.strip(DIGITS) == "" and len(text) != 8:  # eight digits are a date of ISO 8601
        raise InvalidInput(f"{field}: {shorten(text)} is no time", hint=TIME_HINT, field=field)
    return _iso_ms(field, text)


def _iso_ms(field: str, text: str) -> int:
    # datetime costs a tenth of a cold start: only where a date was typed
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"{field}: {shorten(text)} is no time", hint=TIME_HINT, field=field) from None


def names(field: str, texts: list[str]) -> list[str]:
    """The parts of comma-separated lists, in order. An empty part is refused."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    if not all(parts):
        raise InvalidInput(f"{field}: an empty name in {shorten(','.join(texts))}", hint="a,b,c", field=field)
    return parts
