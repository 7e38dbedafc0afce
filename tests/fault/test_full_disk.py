"""A disk that fills up under a busy daemon: nothing acknowledged is lost, one line says so, it goes on by itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene
from tests.integration.store.scene import fill, small_disk

ENOUGH = 400
LOW = 'disk.min_free_bytes = "2MiB"\nscheduler.max_concurrent = 2\n'
NEVER_LOW = 'disk.min_free_bytes = "1"\nscheduler.max_concurrent = 2\n'


@pytest.fixture(params=[LOW, NEVER_LOW], ids=["seen before it is full", "seen when it is"])
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A daemon whose state is on a disk of its own."""
    stage = Scene(tmp_path, request.param)
    with small_disk(stage.state, 6000):
        try:
            stage.start()
            yield stage
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()


def add_until_refused(stage: Scene) -> list[str]:
    """The quests that were accepted before one was refused because nothing can be written."""
    accepted: list[str] = []
    while len(accepted) < ENOUGH:
        added = stage.qlctl("add", "--print-id", "-", stdin=f": {'x' * 90_000}", check=False)
        if added.returncode:
            assert added.returncode == 75, added
            assert "disk is full" in added.stderr
            return accepted
        accepted.append(added.stdout.strip())
    raise AssertionError("a full disk refused nothing")


def test_a_disk_that_fills_up_costs_nothing_but_time(stage: Scene) -> None:
    """Adds are refused with 75 and their clients may repeat them; what runs goes on; no claim is made; health says so;
    when there is space again everything accepted runs once, without a restart."""
    running = [stage.add(stage.held()) for _ in range(2)]
    for _ in running:
        stage.started.next()
    waiting = [stage.add("echo waited") for _ in range(3)]
    pid = stage.pid
    fill(stage.state)
    accepted = [*waiting, *add_until_refused(stage)]
    for _ in range(20):
        assert stage.qlctl("add", "-", stdin="x" * 90_000, check=False).returncode == 75
    health = stage.qlctl("health", check=False)
    assert (health.returncode, "disk" in health.stdout + health.stderr) == (1, True)
    stage.hold.put(2)
    stage.until(running[0], lambda seen: "its end cannot be written yet" in stage.log.read_text())
    (stage.state / "filler").unlink()
    ended = [stage.ended(quest)["quest"] for quest in (*running, *accepted)]
    assert {(quest["state"], quest["attempts"]) for quest in ended} == {("done", 1)}
    assert {quest["id"] for quest in stage.json("list", "--limit", "1000")} == {*running, *accepted}
    assert stage.run("echo after")["quest"]["result"] == "after\n"
    assert stage.json("health")["ok"]
    assert (stage.pid, stage.process and stage.process.poll()) == (pid, None)
    stage.in_order()
    assert told(stage, "ERROR") == ["claims pause"]
    assert set(told(stage, "WARNING")) == {"Q its end cannot be written yet", "claims go on"}
    assert len(told(stage, "WARNING")) <= len(running) + 1


def told(stage: Scene, level: str) -> list[str]:
    """The beginnings of what the log says on one level, in order."""
    named = re.sub(r" q-\w+: ", " Q ", stage.log.read_text())
    return [line.removeprefix(f"{level} ").split(": ")[0] for line in named.splitlines() if line.startswith(level)]


def test_a_slot_that_becomes_free_on_a_low_disk_is_used_when_there_is_space(tmp_path: Path) -> None:
    """Nothing else happens meanwhile that would wake anybody."""
    stage = Scene(tmp_path, LOW.replace("2\n", "1\n"))
    with small_disk(stage.state, 8000) as folder:
        try:
            stage.start()
            first, second = stage.add(stage.held()), stage.add("echo second")
            stage.started.next()
            (folder / "filler").write_bytes(bytes(shutil.disk_usage(folder).free - (1 << 20)))
            # The disk is looked at once a second at most.
            assert stage.call("Quests.Wait", id=first, timeoutMs=1100)["timedOut"]
            stage.hold.put()
            assert stage.ended(first)["quest"]["state"] == "done"
            stage.until(second, lambda seen: "claims pause" in stage.log.read_text())
            (folder / "filler").unlink()
            assert stage.ended(second)["quest"]["result"] == "second\n"
            stage.in_order()
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()


def test_a_daemon_that_died_on_a_full_disk_comes_back(tmp_path: Path) -> None:
    """It starts, or says why not in one line and with 75; with space again it goes on where it was."""
    stage = Scene(tmp_path, NEVER_LOW)
    with small_disk(stage.state, 6000) as folder:
        try:
            stage.start()
            quest = stage.add(stage.held())
            stage.started.next()
            fill(folder)
            stage.kill()
            before = stage.log.stat().st_size
            stage.start(ready=False)
            assert stage.wait() == 75
            said = stage.log.read_text()[before:].splitlines()
            assert [line for line in said if line.startswith("questlined: ")], said
            assert not [line for line in said if "Traceback" in line]
            (folder / "filler").unlink()
            stage.start()
            stage.started.next()
            stage.hold.put()
            ended = stage.ended(quest)["quest"]
            assert (ended["state"], ended["attempts"], ended["refunds"]) == ("done", 2, 1)
            stage.in_order()
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()
