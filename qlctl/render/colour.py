"""Colour, where it is wanted: on a terminal that is not dumb, and without NO_COLOR."""

from __future__ import annotations

import os

from qlctl.output import on_terminal

CODES = {"done": "32", "failed": "31", "blocked": "33", "interrupted": "33", "running": "36", "cancelled": "2"}


def wanted() -> bool:
    """Whether stdout should be coloured."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, state: str, *, coloured: bool) -> str:
    """The text in the colour of a quest's state. Padding must be done before: the codes have no width."""
    code = CODES.get(state)
    return f"\033[{code}m{text}\033[0m" if coloured and code else text
