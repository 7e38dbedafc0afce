"""The power fails between any two writes: what was acknowledged is there, and nothing is there by halves."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from questlined.store.sqlite import connection
from tests.support import power
from tests.support.invariants import broken
from tests.support.power import Call, Disk
from tests.support.stores import open_bench, reclaim
from tests.support.story import STEPS, states

SEED = 7
DATABASE = "quests.sqlite"
Files = dict[str, bytes]
States = dict[str, list[Any]]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """All that a store asked of its files in a life of some hundred transactions."""
    folder = tmp_path_factory.mktemp("life").resolve()
    (folder / "store").mkdir()
    command = [sys.executable, "-m", "tests.support.story", str(folder / "store"), str(folder / "marks"), str(SEED)]
    return power.recorded(folder / "store", folder / "marks", command)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """Where syncing costs nothing: what is on a disk is played here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


def cuts(life: list[Call], how: str) -> Iterator[tuple[int, Files, list[States]]]:
    """For each call but those that change nothing: its number, the files as a cut right after it leaves them, and what
    may be found in them: as last acknowledged, or with the transaction that was under way."""
    chance, disk = random.Random(f"{SEED} {how}"), Disk()
    told = [json.loads(call.data) for call in life if call.what == "mark"]
    acknowledged = 0
    for number, call in enumerate(life):
        if call.what == "mark":
            acknowledged += 1
        else:
            disk.take(call)
        if how == "whole":
            files = disk.whole()
        elif how == "torn":
            files = disk.torn(chance, call)
        else:
            files = disk.lost(chance)
        before = told[acknowledged - 1] if acknowledged else {}
        yield number, files, [before, *told[acknowledged : acknowledged + 1]]


def laid(folder: Path, files: Files) -> Path:
    """Make the files."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def differences(found: States, expected: States) -> list[str]:
    """Quests that are there and should not be, are not there, or are otherwise."""
    return sorted(quest for quest in found.keys() | expected.keys() if found.get(quest) != expected.get(quest))


def revived(folder: Path) -> tuple[States, bytes]:
    """What a start finds of the quests, and the digest of all that the database holds, log included."""
    db = connection.open_writer(folder / DATABASE, store_uuid="uuid", now=1)
    try:
        return states(db), hashlib.blake2b(db.serialize()).digest()
    finally:
        db.close()


async def settled(folder: Path) -> list[str]:
    """Go on as a daemon does that starts; what its database then contradicts."""
    bench = await open_bench(folder)
    try:
        left = await bench.store.open_runs()
        await bench.store.recover(reclaim(bench), {(run.quest_id, run.attempt): () for run in left})
        assert await bench.store.open_runs() == []
        await bench.add(id="q-after")
    finally:
        await bench.store.close()
    return broken(folder / DATABASE)


@pytest.mark.parametrize("how", ["whole", "torn", "lost"])
def test_after_a_power_cut_all_that_was_acknowledged_is_there(room: Path, life: list[Call], how: str) -> None:
    """Wherever it falls, with every write whole, the last one torn, or any of what was not yet synced lost."""
    seen: set[bytes] = set()
    for number, files, allowed in cuts(life, how):
        folder = laid(room / str(number), files)
        found, content = revived(folder)
        assert [] in [differences(found, each) for each in allowed], f"cut after call {number}: {life[number].what}"
        if content not in seen:
            seen.add(content)
            assert asyncio.run(settled(folder)) == [], number
        shutil.rmtree(folder)
    assert len(seen) > STEPS // 2


def test_a_store_whose_making_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """Its first transaction has left a journal that is to be rolled back, and nothing else."""
    making = sqlite3.connect(tmp_path / "making.sqlite", isolation_level=None)
    making.execute("PRAGMA cache_size = 1")  # so that it is in the file before it is committed
    making.execute("BEGIN")
    making.execute("CREATE TABLE large (content)")
    making.execute("INSERT INTO large VALUES (zeroblob(100000))")
    (tmp_path / "store").mkdir()
    for end in ("", "-journal"):
        shutil.copy(tmp_path / f"making.sqlite{end}", tmp_path / "store" / f"{DATABASE}{end}")
    making.close()
    assert (tmp_path / "store" / DATABASE).stat().st_size > 0
    assert revived(tmp_path / "store")[0] == {}
    assert asyncio.run(settled(tmp_path / "store")) == []
