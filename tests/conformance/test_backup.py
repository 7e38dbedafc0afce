"""A backup is whole or not there, and work goes on meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from questlined.wire.errors import Busy, InvalidInput, StoreFull, Unavailable
from tests.support.stores import Bench, on_store


def test_a_copy_is_a_new_private_file(tmp_path: Path) -> None:
    """Of the size that is told; nothing else is left in its folder."""
    folder = tmp_path / "copies"
    folder.mkdir()

    async def play(bench: Bench) -> None:
        await bench.add()
        size = await bench.store.backup(folder / "copy", 0)
        assert [path.name for path in folder.iterdir()] == ["copy"]
        assert (folder / "copy").stat().st_size == size > 0
        assert oct((folder / "copy").stat().st_mode & 0o777) == "0o600"

    on_store(tmp_path, play)


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    """Not even a link that leads nowhere."""
    taken, link = tmp_path / "taken", tmp_path / "link"
    taken.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")

    async def play(bench: Bench) -> None:
        for path in (taken, link):
            with pytest.raises(InvalidInput, match="exists already"):
                await bench.store.backup(path, 0)

    on_store(tmp_path, play)
    assert taken.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_one_at_a_time(tmp_path: Path) -> None:
    """A second one is told which is under way, and may come after it."""

    async def play(bench: Bench) -> None:
        first = asyncio.ensure_future(bench.store.backup(tmp_path / "first", 0))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="first is under way"):
            await bench.store.backup(tmp_path / "second", 0)
        await first
        await bench.store.backup(tmp_path / "second", 0)

    on_store(tmp_path, play)


def test_work_goes_on_while_a_copy_is_made(tmp_path: Path) -> None:
    """What is added is answered, and what was answered before is in the copy."""

    async def play(bench: Bench) -> None:
        await bench.add()
        copy = asyncio.ensure_future(bench.store.backup(tmp_path / "copy", 0))
        added = [await bench.add() for _ in range(20)]
        await copy
        assert [await bench.state(quest) for quest in added] == ["queued"] * 20

    on_store(tmp_path, play)


def test_without_space_or_folder_nothing_is_made(tmp_path: Path) -> None:
    """The reserve of the store's own disk counts; the error names the place, and the next one works."""

    async def play(bench: Bench) -> None:
        with pytest.raises(StoreFull, match=r"disk\.min_free_bytes"):
            await bench.store.backup(tmp_path / "copy", 1 << 60)
        with pytest.raises(Unavailable, match="missing"):
            await bench.store.backup(tmp_path / "missing/copy", 0)
        await bench.store.backup(tmp_path / "copy", 0)

    on_store(tmp_path, play)
    assert not list(tmp_path.glob(".*"))
