"""A disk that is full: refused whole, nothing lost, and well again without a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from questlined.store.protocol import Token
from questlined.wire.errors import StoreFull
from tests.integration.attempts.scene import Scene
from tests.integration.store.scene import fill, on_bench, small_disk
from tests.support.invariants import broken
from tests.support.stores import Bench

ENOUGH = 2000


def test_a_store_on_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """Everything acknowledged is there, nothing else is, and the same call succeeds when there is space again."""

    async def scenario(bench: Bench) -> None:
        filler = fill(tmp_path / "disk")
        kept, refused = [], None
        for number in range(ENOUGH):
            request = bench.request(bench.quest(task="x" * 3000), token=Token(0, f"request {number}", "body"))
            try:
                kept += await bench.store.add(request)
            except StoreFull as error:
                refused = error
                break
        assert refused is not None
        assert (refused.exit_status, refused.parameters()["setting"]) == (75, "disk.min_free_bytes")
        assert sum((await bench.store.counts(None)).values()) == len(kept)
        for _ in range(3):
            with pytest.raises(StoreFull):
                await bench.store.add(request)
        filler.unlink()
        assert await bench.store.add(request) == await bench.store.add(request) == [request.quests[0].id]
        assert sum((await bench.store.counts(None)).values()) == len(kept) + 1
        assert [await bench.state(quest) for quest in kept] == ["queued"] * len(kept)
        assert await bench.store.fault() is None

    with small_disk(tmp_path / "disk", 1500) as folder:
        on_bench(folder, scenario)
        assert broken(folder / "quests.sqlite") == []


def fill_by_adding(stage: Scene, folder: Path) -> list[str]:
    """Fill the disk, then what room the database has; the quests that were accepted until one was refused."""
    fill(folder)
    accepted: list[str] = []
    for _ in range(ENOUGH):
        added = stage.qlctl("add", "--json", "--external", "x" * 100_000, check=False)
        if added.returncode:
            break
        accepted.append(json.loads(added.stdout)["id"])
    assert added.returncode == 75
    assert "disk is full" in added.stderr
    return accepted


def test_a_daemon_on_a_full_disk_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """An add is refused with 75; what runs meanwhile ends well, and its end is written when it can be."""
    stage = Scene(tmp_path, 'disk.min_free_bytes = "1"\n')
    with small_disk(stage.state, 3000) as folder:
        try:
            stage.start()
            quest = stage.add(stage.held())
            stage.started.next()
            accepted = fill_by_adding(stage, folder)
            stage.hold.put()
            stage.until(
                quest,
                lambda seen: (
                    "its end cannot be written yet" in stage.log.read_text() or seen["quest"]["state"] == "done"
                ),
            )
            (folder / "filler").unlink()
            ended = stage.ended(quest)["quest"]
            assert (ended["state"], ended["attempts"]) == ("done", 1)
            again = stage.add("x" * 100_000, "--external")
            stage.qlctl("cancel", again, *accepted)
            assert stage.qlctl("health", check=False).returncode == 0
            assert {each["id"] for each in stage.json("list")} == {quest, again, *accepted}
            stage.in_order()
        finally:
            stage.stop()


def test_output_that_could_not_be_kept_is_written_by_another_attempt(tmp_path: Path) -> None:
    """It is the machine's fault, and not charged; nothing is tried again before there is space."""
    stage = Scene(tmp_path, 'disk.min_free_bytes = "1"\n')
    with small_disk(stage.state, 3000) as folder:
        try:
            stage.start()
            quest = stage.add(stage.held(after="head -c 200000 /dev/zero"))
            stage.started.next()
            fill_by_adding(stage, folder)
            stage.hold.put()
            stage.until(
                quest,
                lambda seen: (
                    "its end cannot be written yet" in stage.log.read_text() or seen["quest"]["state"] != "running"
                ),
            )
            (folder / "filler").unlink()
            stage.started.next()
            stage.hold.put()
            shown = stage.ended(quest)
            assert [run["class"] for run in shown["runs"]] == ["interrupted", "ok"]
            assert "could not be kept" in shown["runs"][0]["error"]
            assert len(shown["files"]["stdout"]) == 200_000
            assert shown["quest"]["refunds"] == 1
            stage.in_order()
        finally:
            stage.stop()


def test_claims_pause_while_the_disk_is_nearly_full(tmp_path: Path) -> None:
    """Health and `why` name the setting; adding goes on."""
    stage = Scene(tmp_path, 'disk.min_free_bytes = "2MiB"\n')
    with small_disk(stage.state, 6000) as folder:
        (folder / "filler").write_bytes(b"x" * 4_500_000)
        try:
            stage.start()
            quest = stage.add("echo ran")
            assert [gate["gate"] for gate in stage.call("Quests.Why", id=quest)["gates"]] == ["disk"]
            health = stage.qlctl("health", check=False)
            assert health.returncode == 1
            assert "disk.min_free_bytes" in health.stdout + health.stderr
            assert stage.call("Quests.Get", id=quest)["quest"]["state"] == "queued"
        finally:
            stage.stop()
