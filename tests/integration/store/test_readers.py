"""Other programs read the database for as long as they like: a dashboard, a backup."""

from __future__ import annotations

from pathlib import Path

from tests.integration.store.scene import another, on_bench
from tests.support.invariants import broken
from tests.support.stores import Bench

MIB = 1024 * 1024
ROUNDS, LOG_MOST = 30, 20 * MIB  # it is emptied from some 16 MiB on
COUNT = "SELECT count(*) FROM quests"


async def work(bench: Bench, rounds: int = ROUNDS) -> None:
    """Three transactions a quest, of a MiB of pages or more: above LOG_MOST in all."""
    for _ in range(rounds):
        await bench.add(task="x" * 100_000)
        claimed = await bench.claim()
        assert claimed
        await bench.finish(claimed, result="y" * 100_000)


def log_bytes(folder: Path) -> int:
    """The size of the write-ahead log."""
    return (folder / "quests.sqlite-wal").stat().st_size


def test_a_reader_that_stays_open_does_not_let_the_log_grow(tmp_path: Path) -> None:
    """It asks, and asks again; in between it holds nothing back."""

    async def scenario(bench: Bench) -> None:
        with another(tmp_path / "quests.sqlite") as reader:
            for _ in range(4):
                await work(bench)
                assert reader.execute(COUNT).fetchone()[0] > 0
            assert log_bytes(tmp_path) < LOG_MOST

    on_bench(tmp_path, scenario)


def test_the_log_is_used_again_from_the_start_when_a_long_read_ends(tmp_path: Path) -> None:
    """While a backup is in the middle of its transaction the log must keep all; afterwards it grows no more."""

    async def scenario(bench: Bench) -> None:
        await work(bench, 1)
        with another(tmp_path / "quests.sqlite") as reader:
            reader.execute("BEGIN")
            seen = reader.execute(COUNT).fetchone()
            await work(bench)
            held = log_bytes(tmp_path)
            assert held > LOG_MOST
            assert reader.execute(COUNT).fetchone() == seen
            reader.execute("COMMIT")
            await work(bench)
            assert log_bytes(tmp_path) < held + MIB

    on_bench(tmp_path, scenario)
    assert broken(tmp_path / "quests.sqlite") == []


def test_an_event_of_another_program_is_told_whatever_it_holds(tmp_path: Path) -> None:
    """Its data is no JSON, or no object: then nothing is known of an attempt."""

    async def scenario(bench: Bench) -> None:
        quest = await bench.add()
        with another(tmp_path / "quests.sqlite") as other:
            for data in ("", "no json", "[1]", '{"attempt": "one", "class": {"a": 1}}'):
                row = (quest, "claimed", 0, data)
                other.execute("INSERT INTO quest_events(quest_id, event, at, data) VALUES (?, ?, ?, ?)", row)
        page = await bench.store.story(0, ("claimed",), 100)
        assert [(told.attempt, told.run_number, told.class_) for told in page.told] == [
            *[(None, None, None)] * 3,
            (None, None, '{"a":1}'),
        ]

    on_bench(tmp_path, scenario)
