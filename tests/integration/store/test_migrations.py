"""Databases of earlier versions, as they were written then, are brought up to date and go on."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from questlined.store.recurrences import Fire
from questlined.store.sqlite import migrate
from tests.integration.store.scene import on_bench
from tests.support.invariants import broken
from tests.support.stores import Bench, reclaim

DATA = Path(__file__).parents[2] / "data"
OLD = sorted(DATA.glob("schema-*.sqlite"))


def objects(database: Path) -> set[tuple[str, str]]:
    """Every table, index and trigger."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return set(db.execute("SELECT type, name FROM sqlite_master"))
    finally:
        db.close()


def test_there_is_one_of_every_earlier_schema() -> None:
    """Made by the version that had it; none is edited."""
    numbers = [int(path.stem.removeprefix("schema-")) for path in OLD]
    assert numbers == list(range(1, len(migrate.migrations())))


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_earlier_schema_becomes_the_present_one(tmp_path: Path, old: Path) -> None:
    """With all of its quests, which go on as if nothing had happened."""
    shutil.copy(old, tmp_path / "quests.sqlite")

    async def scenario(bench: Bench) -> None:
        bench.clock.advance(10 * 3600 * 1000)
        store = bench.store
        states = {
            row.name: row.state for row in [await store.quest(f"q-{number:012x}") for number in range(1, 8)] if row
        }
        assert states == {
            "done": "done",
            "failed": "failed",
            "waiting": "queued",
            "dependent": "queued",
            "outside": "running",
            "running": "running",
            "cancelled": "cancelled",
        }
        assert [file.kind for file in await store.artifacts("q-000000000001")] == ["stderr", "stdout"]
        assert await store.old_records(2**60) == []
        assert await store.recover(reclaim(bench), {("q-000000000006", 1): ()}) == ["q-000000000006"]
        assert await store.expire(reclaim(bench)) == 1
        assert [claimed.quest.name for claimed in await bench.claim_own(most=9)] == ["running"]
        new = await bench.add(id="q-0000000000ff")
        assert await bench.state(new) == "queued"
        assert await store.fault() is None

    on_bench(tmp_path, scenario)
    assert broken(tmp_path / "quests.sqlite") == []
    fresh = tmp_path / "fresh"
    fresh.mkdir()

    async def nothing(bench: Bench) -> None:
        await bench.store.touch()

    on_bench(fresh, nothing)
    assert objects(tmp_path / "quests.sqlite") == objects(fresh / "quests.sqlite")


def test_recurrences_of_an_earlier_schema_are_due_as_before(tmp_path: Path) -> None:
    """What is new in their rows means what it always was: the daemon runs their quests, in no lane."""
    shutil.copy(DATA / "schema-2.sqlite", tmp_path / "quests.sqlite")

    async def scenario(bench: Bench) -> None:
        (rule,) = await bench.store.recurrences(None, None, 9)
        assert (rule.id, rule.name, rule.cron, rule.timezone) == (
            "r-89452850",
            "nightly",
            "0 2 * * *",
            "America/New_York",
        )
        assert (rule.lane, rule.timeout_ms, rule.external, rule.submitter_uid) == (None, None, 0, None)
        assert await bench.store.next_occurrence(bench.clock.wall_ms()) == rule.next_run_at
        fired = await bench.store.fire(Fire(rule.id, 1_800_082_800_000, b"0" * 16, 1000))
        assert len(fired.quests) == 1

    on_bench(tmp_path, scenario)
