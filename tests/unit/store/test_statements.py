"""Named SQL: what a name promises is what Python asks for, and every statement fits the schema."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest

from questlined.store import rows
from questlined.store.sqlite import migrate
from questlined.store.sqlite.connection import open_writer
from questlined.store.sqlite.statements import Family, columns, parse, value

FOLDER = resources.files("questlined.store.sqlite").joinpath("sql")
FAMILIES = sorted(file.name.removesuffix(".sql") for file in FOLDER.iterdir())


def statements(family: str) -> dict[str, tuple[str, str]]:
    return parse(FOLDER.joinpath(f"{family}.sql").read_text("utf-8"))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    db = open_writer(tmp_path_factory.mktemp("db") / "quests.sqlite", store_uuid="u", now=1)
    yield db
    db.close()


@pytest.mark.parametrize(
    ("suffix", "wrong"), [("?", ("many", "count")), ("*", ("one", "count")), ("!", ("one", "many"))]
)
def test_a_statement_is_refused_by_another_suffix(suffix: str, wrong: tuple[str, ...]) -> None:
    """At import, so that it cannot come up later."""
    name = next(name for name, (found, _) in statements("steering").items() if found == suffix)
    family = Family("steering")
    for method in wrong:
        with pytest.raises(TypeError, match=f"steering.{name} is declared"):
            family.count(name) if method == "count" else getattr(family, method)(name, value)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError):
        Family("steering").count("no_such_statement")


def test_a_row_classs_columns_stand_for_its_name() -> None:
    """With an alias where one is given; a field that is a Python word loses its underscore."""
    found = parse("-- a?\nSELECT {Artifact} FROM x;\n\n-- b*\n-- A comment.\nSELECT {Quest:q} FROM quests q;\n")
    names = [column.name for column in fields(rows.Artifact)]
    assert found["a"] == ("?", f"SELECT {', '.join(names)} FROM x")
    assert "q.class, q.lane" in found["b"][1]
    assert "class_" not in found["b"][1]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_statement_can_be_prepared(db: sqlite3.Connection, family: str) -> None:
    """Against the schema that the migrations make."""
    for name, (_, sql) in statements(family).items():
        text = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
        if text.lstrip().startswith("CREATE"):  # there already
            continue
        parameters = dict.fromkeys(re.findall(r":([a-z_]+)", text))
        assert db.execute(f"EXPLAIN {sql}", parameters).fetchone(), name


@pytest.mark.parametrize("family", FAMILIES)
def test_no_statement_is_compiled_at_each_use(db: sqlite3.Connection, family: str) -> None:
    """SQLite does that by itself where a variable may decide about a partial index; it costs more than the work."""
    compiled: list[int] = []
    db.set_authorizer(lambda *_: compiled.append(1) or sqlite3.SQLITE_OK)
    try:
        for name, (_, sql) in statements(family).items():
            if re.search("pragma|CREATE", sql):  # compiled inside, or once in a lifetime
                continue
            names = sorted(set(re.findall(r":([a-z_]+)", sql)))
            for use in range(3):
                compiled.clear()
                with suppress(sqlite3.Error):  # such values break many a constraint
                    db.execute(sql, {each: f"{use}{number}" for number, each in enumerate(names)}).fetchall()
            assert not compiled, name
    finally:
        db.set_authorizer(None)


def test_a_suffix_says_what_comes_back(db: sqlite3.Connection) -> None:
    """One row or None, many rows, or how many were changed."""
    gates = Family("gates")
    assert gates.count("meta_set")(db, key="a", value="1") == 1
    assert gates.count("meta_clear")(db, key="nothing") == 0
    one = gates.one("meta_get", value)
    assert (one(db, key="a"), one(db, key="b")) == ("1", None)
    assert Family("reads").many("missing_paths", columns)(db) == []


def test_a_script_is_cut_between_statements() -> None:
    """Not inside of a trigger, a text or a comment."""
    script = (
        "CREATE TABLE a (b);\n-- a comment; with one\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\n"
        "  DELETE FROM a;\n  SELECT 'x;';\nEND;\nINSERT INTO a VALUES (';');\n"
    )
    assert [part.split()[0] for part in migrate.statements(script)] == ["CREATE", "--", "INSERT"]


def test_migrations_are_numbered_without_a_gap() -> None:
    """And every one ends complete."""
    found = migrate.migrations()
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    for _, sql in found:
        assert "".join(migrate.statements(sql)).strip() == sql.strip()


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one transaction: the next start begins it anew."""
    path = tmp_path / "quests.sqlite"
    whole = migrate.migrations()
    monkeypatch.setattr(
        migrate, "migrations", lambda: [*whole, (len(whole) + 1, "CREATE TABLE extra (a);\nNONSENSE;\n")]
    )
    with pytest.raises(Exception, match="NONSENSE"):
        open_writer(path, store_uuid="u", now=1)
    monkeypatch.undo()
    db = open_writer(path, store_uuid="another", now=2)
    kept = dict(db.execute("SELECT key, value FROM meta"))
    assert (kept["store_uuid"], kept["schema"]) == ("u", str(len(whole)))
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    db.close()


@pytest.mark.parametrize("number", [1, 2, 7, 64, 65, 300])
def test_any_number_of_rows_is_inserted_in_order(db: sqlite3.Connection, number: int) -> None:
    """Whatever single rows, or all of them, have no value for; the answer is the last row's id."""
    insert = Family("adds").rows("event_insert")
    db.execute("CREATE TEMP TABLE quest_events (seq INTEGER PRIMARY KEY, quest_id, event, at, data)")
    try:
        for given in (
            [(None, "e", each, None) for each in range(number)],
            [("q" if each % 3 else None, None, each, "d" * (each % 2) or None) for each in range(number)],
        ):
            db.execute("DELETE FROM temp.quest_events")
            last = insert(db, given)
            assert db.execute("SELECT quest_id, event, at, data FROM quest_events ORDER BY seq").fetchall() == given
            assert db.execute("SELECT max(seq) FROM quest_events").fetchone() == (last,)
    finally:
        db.execute("DROP TABLE temp.quest_events")
