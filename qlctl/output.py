"""What goes to stdout and stderr: one JSON value, or lines for people."""

from __future__ import annotations

import sys

from qlctl.codec import encode
from qlctl.render.text import clean


def print_json(value: object) -> None:
    """Write one JSON value and a newline to stdout, in UTF-8 whatever the locale says.

    A lone surrogate, which UTF-8 cannot hold, is written as the JSON escape it came from.
    """
    if sys.stdout is None:
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(encode(value).encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def say(message: str, hint: str = "") -> None:
    """Write `qlctl: message` and its hint to stderr; what would move the terminal's cursor is escaped."""
    lines = [f"qlctl: {clean(message, lines=True)}"]
    lines += [f"  {line}" for line in clean(hint, lines=True).splitlines()]
    if sys.stderr is not None:
        print("\n".join(lines), file=sys.stderr, flush=True)


def warn(warnings: list[str]) -> None:
    """Write the warnings of a reply to stderr."""
    for warning in warnings:
        say(f"warning: {warning}")


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()
