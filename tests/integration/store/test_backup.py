"""The copies that SQLite makes: sound, in one file, of one moment."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from questlined.store.sqlite import backup
from questlined.store.sqlite.backup import UNFINISHED
from questlined.wire.errors import StoreFull, Unavailable
from tests.support.invariants import broken
from tests.support.stores import Bench, on_store


def opened(path: Path) -> sqlite3.Connection:
    """A copy, as one would look at it."""
    return sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)


def test_a_copy_holds_one_moment_however_much_is_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was answered before it, nothing of what came after its first page, and it needs no file beside it."""
    monkeypatch.setattr(backup, "PAGES_A_STEP", 1)
    copy = tmp_path / "copy.sqlite"

    async def play(bench: Bench) -> None:
        before = {await bench.add(task="x" * 2000) for _ in range(20)}
        begun, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        real = backup.Backups._go_on

        def stepped(self: backup.Backups, status: int, remaining: int, total: int) -> None:
            if not begun.is_set():
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
            real(self, status, remaining, total)

        monkeypatch.setattr(backup.Backups, "_go_on", stepped)
        copying = asyncio.ensure_future(bench.store.backup(copy, 0))
        await begun.wait()
        after = {await bench.add(task="y" * 2000) for _ in range(20)}
        go_on.set()
        await copying
        with opened(copy) as db:
            found = {row[0] for row in db.execute("SELECT id FROM quests")}
            assert (found & before, found & after) == (before, set())
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()

    on_store(tmp_path, play)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((UNFINISHED, "copy.sqlite-"))]


def test_a_copy_in_place_of_the_database_is_a_queue(tmp_path: Path) -> None:
    """Put back, it is opened, is sound, and takes quests."""
    lost, put_back = tmp_path / "lost", tmp_path / "back"
    for folder in (lost, put_back):
        folder.mkdir()
    kept: list[str] = []

    async def lose(bench: Bench) -> None:
        kept.append(await bench.add())
        await bench.store.backup(put_back / "quests.sqlite", 0)

    async def go_on(bench: Bench) -> None:
        assert await bench.state(kept[0]) == "queued"
        await bench.add(id="q-ffffffffffff")

    on_store(lost, lose)
    on_store(put_back, go_on)
    assert broken(put_back / "quests.sqlite") == []


def test_a_daemon_that_ends_gives_the_copy_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is left, and the end does not wait for it."""
    monkeypatch.setattr(backup, "PAGES_A_STEP", 1)
    folder = tmp_path / "copies"
    folder.mkdir()

    async def play(bench: Bench) -> None:
        for _ in range(10):
            await bench.add(task="x" * 2000)
        copying = asyncio.ensure_future(bench.store.backup(folder / "copy", 0))
        await asyncio.sleep(0)
        bench.store._backups.close()
        with pytest.raises(Unavailable, match="the daemon ends"):
            await copying

    on_store(tmp_path, play)
    assert list(folder.iterdir()) == []


FAULTS = [
    (OSError(28, "No space left on device"), StoreFull, "No space left"),
    (OSError(30, "Read-only file system"), Unavailable, "Read-only"),
    (sqlite3.OperationalError("unable to open database file"), Unavailable, "unable to open"),
]


@pytest.mark.parametrize(("fault", "error", "says"), FAULTS)
def test_a_copy_that_cannot_be_written_is_told_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, error: type[Exception], says: str
) -> None:
    """With what the system said; the store goes on."""
    folder = tmp_path / "copies"
    folder.mkdir()

    def fails(self: backup.Backups, source: sqlite3.Connection, name: str) -> None:
        raise fault

    monkeypatch.setattr(backup.Backups, "_fill", fails)

    async def play(bench: Bench) -> None:
        with pytest.raises(error, match=says):
            await bench.store.backup(folder / "copy", 0)
        await bench.add()

    on_store(tmp_path, play)
    assert list(folder.iterdir()) == []


def test_what_a_killed_daemon_left_goes_with_the_next_copy(tmp_path: Path) -> None:
    """And nothing of another store, which may be at it."""
    folder = tmp_path / "copies"
    folder.mkdir()

    async def play(bench: Bench) -> None:
        left, theirs = (folder / f"{UNFINISHED}{name}-x" for name in (bench.store.uuid, "another"))
        left.touch()
        theirs.touch()
        await bench.store.backup(folder / "copy", 0)
        assert sorted(folder.iterdir()) == sorted([folder / "copy", theirs])

    on_store(tmp_path, play)
