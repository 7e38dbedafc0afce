"""Times and spans for people: local, short, relative where that helps."""

from __future__ import annotations

import time

STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span(ms: int) -> str:
    """A span in its largest unit, `0s` for less than a second: `42s`, `3min`, `5h`, `12d`."""
    for size, unit in STEPS:
        if ms >= size:
            return f"{ms // size}{unit}"
    return "0s"


def exactly(ms: int) -> str:
    """A span to the millisecond, as it can be typed: `1h 30min`, `500ms`."""
    parts = []
    for size, unit in (*STEPS, (1, "ms")):
        count, ms = divmod(ms, size)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts) or "0s"


def local(at_ms: int) -> str:
    """A moment in the local zone, to the second; as it came if the calendar cannot hold it."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return f"@{at_ms / 1000:.0f}"


def relative(at_ms: int, now_ms: int) -> str:
    """`5min ago`, `in 2h`, or `now`."""
    if abs(now_ms - at_ms) < 1000:
        return "now"
    return f"{span(now_ms - at_ms)} ago" if at_ms < now_ms else f"in {span(at_ms - now_ms)}"


def both(at_ms: int, now_ms: int) -> str:
    """A moment in local time with its distance behind it."""
    return f"{local(at_ms)} ({relative(at_ms, now_ms)})"
