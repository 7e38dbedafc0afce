"""Migrations: numbered, forward-only, each in one transaction. The schema's number is in `meta`, never in user_version,
which foreign programs set to numbers of their own."""

from __future__ import annotations

import functools
import sqlite3
from importlib import resources
from pathlib import Path

from questlined.store.sqlite.refusals import NewerSchema, RefusedDatabase
from questlined.store.sqlite.statements import Family, value

_sql = Family("schema")
_tables = _sql.one("tables", value)
_any_table = _sql.one("any_table", value)
_number = _sql.one("number", value)
_meta_make = _sql.count("meta_make")
_meta_put = _sql.count("meta_put")
make_touched = _sql.count("touched_make")


@functools.cache
def migrations() -> list[tuple[int, str]]:
    """(number, SQL), in order. Read once: an upgrade of the installation puts a later program's beside them."""
    folder = resources.files(__package__).joinpath("migrations")
    found = sorted(
        (int(file.name.split("-")[0]), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    )
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise AssertionError("migrations are not numbered 1, 2, 3, …")
    return found


def _schema(db: sqlite3.Connection) -> int:
    return int(_number(db) or 0) if _tables(db, name="meta") else 0


def refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    """Raises NewerSchema, or RefusedDatabase for a journal of another program. Reads only."""
    have, known = _schema(db), len(migrations())
    if have > known:
        raise NewerSchema(
            f"{path} has schema {have}; this questlined knows schemas up to {known}",
            hint="install the newer questlined again; nothing was changed",
        )
    if have == 0 and _any_table(db):
        raise RefusedDatabase(
            f"{path} holds the tables of another program; this version takes no journal over yet",
            hint="nothing was changed; point store.path at another file",
        )


def upgrade(db: sqlite3.Connection, *, store_uuid: str, now: int) -> None:
    """Bring a schema that is not newer than ours up to date; a new file gets all of it."""
    known, have = migrations(), _schema(db)
    for number, sql in known[have:]:
        db.execute("BEGIN IMMEDIATE")
        try:
            if number == 1:
                _meta_make(db)
                _meta_put(db, key="store_uuid", value=store_uuid)
                _meta_put(db, key="created_at", value=now)
            for statement in statements(sql):
                db.execute(statement)
            _meta_put(db, key="schema", value=number)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def try_write(db: sqlite3.Connection, now: int) -> None:
    """Write something that matters to nobody; SQLite would leave out what changes nothing."""
    _meta_put(db, key="write_tried_at", value=now)


def statements(sql: str) -> list[str]:
    """A script cut into statements: `executescript` would commit first."""
    found, current = [], ""
    for line in sql.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found
