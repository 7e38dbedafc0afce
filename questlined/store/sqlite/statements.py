"""Named SQL: `sql/<family>.sql` holds statements, Python gets one typed function for each.

A statement begins with `-- name` and a suffix that says what comes back: `?` one row or none, `*` many rows, `!` the
number of rows changed; `+` inserts any number of rows. `{Quest}` or `{Quest:q}` stands for the columns of the row class
of that name, so that a row class and its SELECT cannot drift apart; `{Quest!}` gives long texts cut, so that a page
costs what it shows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import Any, TypeVar

from questlined.store import rows

T = TypeVar("T")
_HEAD = re.compile(r"^-- (\w+)([?*!+])$", re.MULTILINE)
_VALUES = re.compile(r"(VALUES )(\([^)]*\))")
_NAME = re.compile(r":\w+")
ROWS_AT_ONCE = (64, 16, 8, 5, 4, 3, 2, 1)  # a statement costs more than a row of it, each length is one of its own
STATEMENTS_KEPT = 64  # of one INSERT: by its number of rows, and by what none of them has
_COLUMNS = re.compile(r"\{(\w+)(?::(\w+))?(!)?\}")
_TEXTS = frozenset({"task", "context", "result", "error", "question"})
_SHORT = 201  # characters that `!` leaves of a text: one more than is shown, to tell that it was cut


def _columns(match: re.Match[str]) -> str:
    alias = f"{match[2]}." if match[2] else ""
    names = [column.name.rstrip("_") for column in fields(getattr(rows, match[1]))]
    if match[3]:
        return ", ".join(f"substr({alias}{name}, 1, {_SHORT})" if name in _TEXTS else alias + name for name in names)
    return ", ".join(alias + name for name in names)


def parse(text: str) -> dict[str, tuple[str, str]]:
    """name → (suffix, SQL)."""
    parts = _HEAD.split(text)[1:]
    return {
        name: (suffix, _COLUMNS.sub(_columns, sql.strip().rstrip(";")))
        for name, suffix, sql in zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
    }


class Family:
    """The statements of one file. Asking for one by the wrong suffix fails at import."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._statements = parse(resources.files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8"))

    def _take(self, name: str, suffix: str) -> str:
        found, sql = self._statements[name]
        if found != suffix:
            raise TypeError(f"{self._name}.{name} is declared {found}, used as {suffix}")
        return sql

    def one(self, name: str, row: Callable[..., T]) -> Callable[..., T | None]:
        """A function (db, **parameters) → row(*columns) or None."""
        sql = self._take(name, "?")

        def call(db: sqlite3.Connection, **parameters: Any) -> T | None:
            found = db.execute(sql, parameters).fetchone()
            return None if found is None else row(*found)

        return call

    def many(self, name: str, row: Callable[..., T]) -> Callable[..., list[T]]:
        """A function (db, **parameters) → [row(*columns), …]."""
        sql = self._take(name, "*")

        def call(db: sqlite3.Connection, **parameters: Any) -> list[T]:
            return [row(*found) for found in db.execute(sql, parameters)]

        return call

    def count(self, name: str) -> Callable[..., int]:
        """A function (db, **parameters) → rows changed."""
        sql = self._take(name, "!")

        def call(db: sqlite3.Connection, **parameters: Any) -> int:
            return db.execute(sql, parameters).rowcount

        return call

    def rows(self, name: str) -> Callable[[sqlite3.Connection, Sequence[tuple[Any, ...]]], int]:
        """A function (db, [(…), …]) → the rowid of the last row. A row has the statement's values in their order;
        rows that follow each other here do so in the table."""
        insert = _Insert(self._take(name, "+"))

        def call(db: sqlite3.Connection, given: Sequence[tuple[Any, ...]]) -> int:
            done, last = 0, 0
            for number in ROWS_AT_ONCE:
                while len(given) - done >= number:
                    last = db.execute(*insert.of(given[done : done + number])).lastrowid or 0
                    done += number
            return last

        return call


class _Insert:
    """An INSERT of any number of rows. Raises TypeError for one without a row of VALUES."""

    def __init__(self, sql: str) -> None:
        found = _VALUES.search(sql)
        if found is None:
            raise TypeError(f"no row of VALUES: {sql}")
        self._before, self._after = sql[: found.start(2)], sql[found.end(2) :]
        self._values = len(_NAME.findall(found[2]))
        self._statement = lru_cache(STATEMENTS_KEPT)(self._made)

    def of(self, rows: Sequence[tuple[Any, ...]]) -> tuple[str, tuple[Any, ...]]:
        """The statement and its parameters. What no row has is NULL in the statement: the sqlite3 module asks of a
        None, as of all that is no text and no number, how to adapt it, which costs more than to store it."""
        columns = list(zip(*rows, strict=True))
        absent = frozenset(at for at, column in enumerate(columns) if column.count(None) == len(rows))
        kept = (column for at, column in enumerate(columns) if at not in absent)
        return self._statement(len(rows), absent), tuple(chain.from_iterable(zip(*kept, strict=True)))

    def _made(self, rows: int, absent: frozenset[int]) -> str:
        row = ", ".join("NULL" if at in absent else "?" for at in range(self._values))
        return self._before + ", ".join([f"({row})"] * rows) + self._after


def value(column: Any) -> Any:
    """Row of a single column: the value itself."""
    return column


def columns(*found: Any) -> tuple[Any, ...]:
    """Row as a tuple, for statements whose columns one function unpacks at once."""
    return found
