"""An index that cannot be written costs its attempt nothing, and readers only time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.attempts.follower import Follower
from tests.integration.attempts.scene import Scene, scene
from tests.integration.store.scene import small_disk

CONFIG = 'executors.file.output = "file"\ndisk.min_free_bytes = "1"\n'


def test_a_full_disk_keeps_no_record_back_for_ever(tmp_path: Path) -> None:
    """There is room for what a quest prints, and none for its index: that is tried again until there is."""
    play = Scene(tmp_path, CONFIG)
    with small_disk(tmp_path / "disk", 3000) as folder:
        play.config.write_text(play.config.read_text() + f'artifacts.dir = "{folder}"\n')
        try:
            play.start()
            full = f"cat /dev/zero >{folder}/filler 2>&-; truncate -s -4096 {folder}/filler; echo one"
            quest = play.add_as("file", play.held(full, "echo two"))
            play.started.next()
            reader = Follower(play.socket, quest)
            play.until(quest, lambda _: "cannot be kept" in play.log.read_text())
            assert not list(folder.glob("*/1/records")) or (folder / quest / "1" / "records").stat().st_size == 0
            (folder / "filler").unlink()
            reader.until("one\n")
            play.hold.put()
            assert reader.to_the_end().text() == "one\ntwo\n"
            assert Follower(play.socket, quest).to_the_end().records == reader.records
            assert play.log.read_text().count("cannot be kept") == 1
            play.in_order()
        finally:
            play.stop()


@pytest.mark.parametrize("role", ["default", "file"])
def test_an_index_that_can_never_be_written_is_done_without(tmp_path: Path, role: str) -> None:
    """The quest itself is in its way: whoever reads gets everything at the end."""
    with scene(tmp_path, CONFIG) as play:
        task = f'mkdir "{play.state}/artifacts/$QUESTLINE_ID/1/records"; echo one'
        quest = play.add_as(role, play.held(task, "echo two >&2"))
        play.started.next()
        reader = Follower(play.socket, quest)
        play.until(quest, lambda _: "cannot be kept" in play.log.read_text())
        play.hold.put()
        reader.to_the_end()
        assert reader.kinds == ["state", "output", "output", "end"]
        assert (reader.text(), reader.text("stderr")) == ("one\n", "two\n")
        assert reader.quest
        assert reader.quest["state"] == "done"
        assert Follower(play.socket, quest).to_the_end().records == reader.records
        play.in_order()
