"""Named SQL: `sql/<family>.sql` holds statements, Python gets one typed function for each.

A statement begins with `-- name` and a suffix that says what comes back: `?` one row or none, `*` many rows, `!` the
number of rows changed. `{Quest}` or `{Quest:q}` stands for the columns of the row class of that name, so that a row
class and its SELECT cannot drift apart; `{Quest!}` gives long texts cut, so that a page costs what it shows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from importlib import resources
from typing import Any, TypeVar

from questlined.store import rows

T = TypeVar("T")
_HEAD = re.compile(r"^-- (\w+)([?*!])$", re.MULTILINE)
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


def value(column: Any) -> Any:
    """Row of a single column: the value itself."""
    return column


def columns(*found: Any) -> tuple[Any, ...]:
    """Row as a tuple, for statements whose columns one function unpacks at once."""
    return found
