"""Tables that fit the terminal: the last column gives way; piped, nothing is cut."""

from __future__ import annotations

import os
import sys

from qlctl.output import on_terminal
from qlctl.render.colour import paint, wanted
from qlctl.render.text import cut, pad, width

GAP = "  "
NARROWEST = 12


def terminal_columns() -> int | None:
    """Columns of the terminal on stdout; None if stdout is none, so that pipes get whole lines."""
    if not on_terminal():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def room(heads: list[str], rows: list[list[str]], columns: int) -> int:
    """The columns that are left for the last cell of a line; below 0 if the others alone do not fit."""
    widths = _widths([heads, *rows])
    return columns - sum(widths) - len(GAP) * len(widths)


def _widths(table: list[list[str]]) -> list[int]:
    """What each column but the last takes."""
    return [max(width(row[index]) for row in table) for index in range(len(table[0]) - 1)]


def lines(heads: list[str], rows: list[list[str]], columns: int | None) -> list[list[str]]:
    """The padded cells of head and rows. The last column is cut so that a line takes at most `columns`."""
    table = [heads, *rows]
    widths = _widths(table)
    padded = [[pad(cell, size) for cell, size in zip(row, widths, strict=False)] for row in table]
    left = None if columns is None else max(room(heads, rows, columns), NARROWEST)
    lasts = [row[-1] if left is None else cut(row[-1], left) for row in table]
    return [[*cells, last] for cells, last in zip(padded, lasts, strict=True)]


def show(heads: list[str], rows: list[list[str]], *, state_column: int | None = None) -> None:
    """Print a table of cleaned cells, the state column in the state's colour."""
    coloured = wanted()
    for cells in lines(heads, rows, terminal_columns()):
        if state_column is not None:
            cells[state_column] = paint(cells[state_column], cells[state_column].strip(), coloured=coloured)
        print(GAP.join(cells).rstrip())
