"""A file system that turns read-only under the daemon, as one does after a fault of its disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene, scene
from tests.integration.store.scene import small_disk
from tests.support import strace

# What a file system answers that was remounted: to each write, and to each sync and change of a name.
CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "mkdir", "unlink", "rename")
READ_ONLY = [f"{call}:error=EROFS" for call in CALLS]


def test_what_ends_on_a_read_only_disk_is_written_when_it_can_be(tmp_path: Path) -> None:
    """Adds are refused with 75 and a hint; what runs goes on and its end is kept; reading works; health says so; nobody
    was told anything that is not so, and the daemon lives."""
    with scene(tmp_path) as stage:
        quest = stage.add(stage.held(after="echo result"))
        stage.started.next()
        with strace.injected(stage.pid, *READ_ONLY):
            for _ in range(3):
                refused = stage.qlctl("add", "echo no", check=False)
                assert refused.returncode == 75, refused
                assert "cannot be written" in refused.stderr
                assert "is the disk well?" in refused.stderr
            assert [each["id"] for each in stage.json("list")] == [quest]
            health = stage.qlctl("health", check=False)
            assert (health.returncode, "cannot be written" in health.stdout + health.stderr) == (1, True)
            stage.hold.put()
            stage.until(quest, lambda seen: "its end cannot be written yet" in stage.log.read_text())
            assert stage.call("Quests.Get", id=quest)["quest"]["state"] == "running"
        ended = stage.ended(quest)["quest"]
        assert (ended["state"], ended["attempts"], ended["result"]) == ("done", 1, "result\n")
        assert stage.run("echo after")["quest"]["result"] == "after\n"
        assert [each["state"] for each in stage.json("list")] == ["done", "done"]
        assert stage.json("health")["ok"]
        stage.in_order()
        log = stage.log.read_text()
        assert (log.count("ERROR"), log.count("WARNING the database is written again")) == (1, 1)


def test_a_start_on_a_read_only_disk_says_so_in_one_line(tmp_path: Path) -> None:
    """And ends with 75; the same queue is served when the disk is well."""
    stage = Scene(tmp_path)
    with small_disk(stage.state, 6000) as folder:
        try:
            stage.start()
            quest = stage.add("echo kept", "--external")
            stage.kill()
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            before = stage.log.stat().st_size
            stage.start(ready=False)
            assert stage.wait() == 75
            said = stage.log.read_text()[before:].splitlines()
            assert "Read-only file system" in said[0]
            assert len(said) == 2
            subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
            stage.start()
            assert [each["id"] for each in stage.json("list")] == [quest]
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()


@contextmanager
def ext4(folder: Path) -> Iterator[Path]:
    """A file system with a journal, which a fault turns read-only. Gives the file that makes it have one."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("mkfs.ext4") is None:
        pytest.skip("mounting a file as a disk takes root, loop devices and mkfs.ext4")
    image = folder.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    folder.mkdir()
    for command in (["mkfs.ext4", "-q", "-F"], ["mount", "-o", "loop,errors=remount-ro"]):
        arguments = [*command, str(image), *([str(folder)] if command[0] == "mount" else [])]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file can be mounted as a disk here: {done.stderr.strip()}")
    try:
        device = os.stat(folder).st_dev
        name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
        yield Path("/sys/fs/ext4", name, "trigger_fs_error")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_journal_that_aborts_does_not_end_the_daemon(tmp_path: Path) -> None:
    """A real file system's way down: every add is refused, everything acknowledged is read, and its end is an orderly
    one."""
    stage = Scene(tmp_path)
    with ext4(stage.state) as trigger:
        try:
            stage.start()
            kept = [stage.add("echo kept", "--external") for _ in range(3)]
            trigger.write_text("a test")
            for _ in range(3):
                assert stage.qlctl("add", "echo no", check=False).returncode == 75
            assert {each["id"] for each in stage.json("list")} == set(kept)
            assert stage.qlctl("health", check=False).returncode == 1
            assert stage.stop() == 0
            assert stage.log.read_text().count("nothing is written for now") == 1
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()
