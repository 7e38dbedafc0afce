"""Files that are no database of ours, or not one for us, are refused by name and left as they were."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from questlined.store.sqlite import connection
from questlined.store.sqlite.refusals import NewerSchema, RefusedDatabase
from questlined.wire.errors import Unavailable
from tests.integration.store.scene import another, on_bench
from tests.support.daemon import Daemon
from tests.support.stores import Bench


async def filled(bench: Bench) -> None:
    for number in range(300):
        await bench.add(task=f"task {number} " * 50)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the shared memory, which means nothing when nobody has it open."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A sound one with some quests in it."""
    on_bench(tmp_path, filled)
    return tmp_path / "quests.sqlite"


def refuses(database: Path, error: type[Exception]) -> str:
    """Opening fails in that way, and every byte is as before; what was said."""
    before = contents(database.parent)
    with pytest.raises(error) as raised:
        connection.open_writer(database, store_uuid="uuid", now=1)
    assert contents(database.parent) == before
    assert isinstance(raised.value, Unavailable)
    assert str(database) in raised.value.message
    return raised.value.message


def test_a_newer_schema(database: Path) -> None:
    with another(database) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    assert "schema 99" in refuses(database, NewerSchema)


def test_a_newer_schema_that_was_not_closed(database: Path, tmp_path: Path) -> None:
    """What is in its write-ahead log stays there."""
    killed = tmp_path / "killed"
    killed.mkdir()
    with another(database) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
        for name in ("quests.sqlite", "quests.sqlite-wal"):
            shutil.copy(tmp_path / name, killed / name)
    assert (killed / "quests.sqlite-wal").stat().st_size
    assert "schema 99" in refuses(killed / "quests.sqlite", NewerSchema)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_another_programs_database(tmp_path: Path, mode: str) -> None:
    """Of whatever journal mode, which is not changed either."""
    database = tmp_path / "quests.sqlite"
    with another(database) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE quests (id TEXT)")
    assert "another program" in refuses(database, RefusedDatabase)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    database = tmp_path / "quests.sqlite"
    database.write_bytes(b"Dear diary, " * 1000)
    assert "no SQLite database" in refuses(database, RefusedDatabase)


@pytest.mark.parametrize("page", [1, 4, -2])
def test_a_damaged_database(database: Path, page: int) -> None:
    """Whether its head or a later page is hurt."""
    data = bytearray(database.read_bytes())
    start = (page if page > 0 else len(data) // 4096 + page) * 4096
    data[start : start + 4096] = b"\xaa" * 4096
    database.write_bytes(data)
    assert "damaged" in refuses(database, RefusedDatabase)


def test_a_database_cut_short(database: Path) -> None:
    data = database.read_bytes()
    database.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    assert "damaged" in refuses(database, RefusedDatabase)


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    """As a backup tool or a cautious person may have made it."""
    (tmp_path / "quests.sqlite").touch()
    on_bench(tmp_path, filled)


def test_a_network_filesystem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only a symlink leads there; no file is made."""
    far = tmp_path / "far"
    far.mkdir()
    (tmp_path / "quests.sqlite").symlink_to(far / "quests.sqlite")
    mounts = f"21 1 8:1 / / rw - ext4 a rw\n22 21 0:1 / {far} rw - nfs4 server:/ rw\n"
    monkeypatch.setattr(connection, "MOUNTINFO", tmp_path / "mountinfo")
    (tmp_path / "mountinfo").write_text(mounts)
    for database in (far / "quests.sqlite", tmp_path / "quests.sqlite"):
        with pytest.raises(RefusedDatabase, match="nfs4"):
            connection.open_writer(database, store_uuid="uuid", now=1)
    assert list(far.iterdir()) == []


def test_the_daemon_says_so_and_exits(tmp_path: Path) -> None:
    """With the status of a wrong set-up, which no restart mends, and without a traceback."""
    daemon = Daemon(tmp_path)
    daemon.state.mkdir()
    (daemon.state / "quests.sqlite").write_bytes(b"rubbish" * 999)
    daemon.start(ready=False)
    assert daemon.wait() == 78
    said = daemon.log.read_text()
    assert "no SQLite database" in said
    assert "Traceback" not in said


def test_a_read_only_folder(tmp_path: Path) -> None:
    """Is unavailable, not damaged."""
    with pytest.raises(Unavailable) as raised:
        connection.open_writer(tmp_path / "not" / "there" / "quests.sqlite", store_uuid="uuid", now=1)
    assert "damaged" not in raised.value.message
