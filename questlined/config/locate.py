"""The line of a TOML file on which a key stands. tomllib does not say, so the file's beginnings are parsed again."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping, Sequence

# Texts, which may hold whatever the others are made of; comments; brackets and ends of lines. For what is TOML already.
_TOKEN = re.compile(
    r'"{3}(?:\\.|[^\\])*?"{3,5}'
    r"|'{3}.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[{]|[\]}]|\n",
    re.DOTALL,
)


def find_line(text: str, key: Sequence[str]) -> int | None:
    """The number, from 1, of the line where `key` begins; None if the text has no such key.

    Works for tables, dotted and quoted keys and multi-line values alike, since tomllib itself reads them: the
    shortest beginning of the file that has the key ends with it. For a key in an inline table, the table's line.
    """
    if not _has(_parse(text), key):
        return None
    ends = _ends(text)
    found = bisect_left(ends, True, key=lambda end: _has(_parse(text[:end]), key))
    return text.count("\n", 0, ends[found - 1]) + 1


def _ends(text: str) -> list[int]:
    """Where a beginning of the text may end and be TOML: its start, each line's end that is in no value, its end."""
    ends, depth = [0], 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            ends.append(token.end())
    return [*ends, len(text)]


def find_fault(text: str) -> int:
    """The number, from 1, of the first line with a value that tomllib fails at in another way than it says."""
    lines = text.split("\n")
    return bisect_left(range(1, len(lines)), True, key=lambda count: _fails("\n".join(lines[:count]))) + 1


def _fails(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    except (ValueError, RecursionError):
        return True
    return False


def _parse(text: str) -> Mapping[str, object] | None:
    """The text as TOML, None where it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _has(data: object, key: Sequence[str]) -> bool:
    for part in key:
        if not isinstance(data, Mapping) or part not in data:
            return False
        data = data[part]
    return True
