"""The line of a TOML file on which a key stands. tomllib does not say, so the file's beginnings are parsed again."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence


def find_line(text: str, key: Sequence[str]) -> int | None:
    """The number, from 1, of the line where `key` begins; None if the text has no such key.

    Works for tables, dotted and quoted keys and multi-line values alike, since tomllib itself reads them: the
    shortest beginning of the file that has the key ends with it. For a key in an inline table, the table's line.
    """
    lines = text.split("\n")
    if not _has(_parse(lines, len(lines)), key):
        return None
    low, high = 0, len(lines)  # the first `low` lines lack the key, the first `high` lines have it
    while high - low > 1:
        middle = (low + high) // 2
        taken = next(count for count in range(middle, low - 1, -1) if _parse(lines, count) is not None)
        if taken == low:
            # All lines after `low`, up to `middle` at least, are one value: look behind it.
            taken = next(count for count in range(middle + 1, high + 1) if _parse(lines, count) is not None)
            if _has(_parse(lines, taken), key):
                return low + 1
        if _has(_parse(lines, taken), key):
            high = taken
        else:
            low = taken
    return low + 1


def _parse(lines: list[str], count: int) -> Mapping[str, object] | None:
    """The first `count` lines as TOML, None where they end within a value."""
    try:
        return tomllib.loads("\n".join(lines[:count]) + "\n")
    except tomllib.TOMLDecodeError:
        return None


def _has(data: object, key: Sequence[str]) -> bool:
    for part in key:
        if not isinstance(data, Mapping) or part not in data:
            return False
        data = data[part]
    return True
