"""qlctl backup"""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk
from tests.integration.server.peer import MANAGER, Peer, frame, until
from tests.support.daemon import REPOSITORY, SHELL, Daemon


def quests(copy: str | Path) -> set[str]:
    """The ids in a copy."""
    with sqlite3.connect(f"file:{copy}?mode=ro&immutable=1", uri=True) as db:
        found = {row[0] for row in db.execute("SELECT id FROM quests")}
    db.close()
    return found


def test_copies_gather_beside_the_queue_and_the_oldest_go(lone: Desk) -> None:
    """Named by their time, private; what has another name stays."""
    quest = lone.add("true")
    folder = lone.daemon.state / "backups"
    folder.mkdir()
    (folder / "mine.sqlite").touch()
    old = [folder / f"quests-2020010{day}-000000.sqlite" for day in range(1, 9)]
    for path in old:
        path.touch()
    made = lone.json("backup")
    assert quests(made["path"]) == {quest}
    assert made["bytes"] == Path(made["path"]).stat().st_size
    assert made["removed"] == [str(path) for path in old[:2]]  # seven stay
    assert oct(Path(made["path"]).stat().st_mode & 0o777) == "0o600"
    newest = lone.json("backup", "--keep", "1")
    assert sorted(path.name for path in folder.iterdir()) == ["mine.sqlite", Path(newest["path"]).name]


def test_the_copy_just_made_stays(lone: Desk) -> None:
    """Also where the clock was ahead once, and older copies seem to be newer."""
    folder = lone.daemon.state / "backups"
    folder.mkdir()
    ahead = [folder / f"quests-2099010{day}-000000.sqlite" for day in range(1, 4)]
    for path in ahead:
        path.touch()
    made = lone.json("backup", "--keep", "2")
    assert made["removed"] == [str(path) for path in ahead[:2]]
    assert sorted(folder.iterdir()) == [Path(made["path"]), ahead[2]]


def test_a_folder_that_cannot_be_made_is_told(lone: Desk) -> None:
    """And an old copy that cannot be removed is no fault of the new one."""
    folder = lone.daemon.state / "backups"
    folder.symlink_to("/no/such/folder")
    lone.refused("backup", status=75, says=(str(folder), "to be a directory"))
    folder.unlink()
    stuck = folder / "quests-20200101-000000.sqlite"
    stuck.mkdir(parents=True)
    made = lone.json("backup", "--keep", "1")
    assert (made["removed"], Path(made["path"]).exists()) == ([], True)


def test_a_file_that_is_named(desk: Desk) -> None:
    """From where one stands; it is told with its size, and never overwritten."""
    said = desk.ok("backup", "copy.sqlite")
    assert said.startswith(f"{desk.folder}/copy.sqlite: ")
    assert said.endswith(" KiB\n")
    before = (desk.folder / "copy.sqlite").read_bytes()
    desk.refused("backup", "copy.sqlite", says=("copy.sqlite", "exists already"))
    assert (desk.folder / "copy.sqlite").read_bytes() == before


BAD = [
    (("--keep", "0"), 2, ("--keep",)),
    (("--keep", "x"), 2, ("--keep", "whole number")),
    (("--keep", "20000"), 2, ("keep", "10000")),
    (("copy", "--keep", "3"), 2, ("keep", "name")),
    (("",), 2, ("FILE", "empty")),
    (("folder/",), 2, ("file", "absolute path of a file")),
    (("a", "b"), 2, ("too many arguments",)),
    (("/no/such/folder/copy",), 75, ("/no/such/folder",)),
    (("/proc/copy",), 75, ("/proc",)),
]


@pytest.mark.parametrize(("arguments", "status", "says"), BAD, ids=lambda value: repr(value)[:40])
def test_what_cannot_be_done_is_told(
    desk: Desk, arguments: tuple[str, ...], status: int, says: tuple[str, ...]
) -> None:
    """With the value or the place, and nothing is left behind."""
    desk.refused("backup", *arguments, status=status, says=says)
    assert list(desk.folder.iterdir()) == []


def test_a_disk_without_space_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """What disk.min_free_bytes keeps free is no space for copies."""
    with Daemon(tmp_path, SHELL + 'disk.min_free_bytes = "1000TiB"\n') as daemon:
        desk = Desk(daemon, daemon.project)
        desk.refused("backup", status=75, says=("no space", "disk.min_free_bytes"))
        assert list((daemon.state / "backups").iterdir()) == []


def test_a_copy_put_back_is_the_queue_of_then(lone: Desk) -> None:
    """As the help says: stop, put it in place, remove the log, start."""
    daemon, kept = lone.daemon, lone.add("echo kept", "--external")
    copy = lone.json("backup")["path"]
    lone.add("echo later", "--external")
    daemon.stop()
    database = daemon.state / "quests.sqlite"
    database.write_bytes(Path(copy).read_bytes())
    for end in ("-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)
    daemon.start()
    assert [quest["id"] for quest in lone.json("list")] == [kept]


def test_a_disk_that_hangs_keeps_neither_work_nor_the_end_of_the_daemon(tmp_path: Path) -> None:
    """Another copy is refused meanwhile, quests run, and SIGTERM ends it with 0."""
    begun = tmp_path / "begun"
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\n"
        "from questlined.store.sqlite import backup\n"
        "def hangs(*arguments):\n"
        f"    open({str(begun)!r}, 'w').close()\n"
        "    threading.Event().wait()\n"
        "backup.Backups._go_on = hangs\n"
    )
    daemon = Daemon(tmp_path)
    daemon.start(PYTHONPATH=f"{tmp_path}:{REPOSITORY}")
    try:
        desk = Desk(daemon, daemon.project)
        with Peer(daemon.socket) as peer:
            peer.send(frame(MANAGER + "Backup"))
            until(begun.exists)
            desk.refused("backup", status=75, says=("is under way",))
            assert desk.ended(desk.add("true"))["state"] == "done"
            daemon.signal(signal.SIGTERM)
            assert daemon.wait() == 0
    finally:
        daemon.stop()
