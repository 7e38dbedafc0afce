"""kill -9 in the middle of `add --from-file`: every acknowledged quest is there once, and no half of another call."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import REPOSITORY, Daemon
from tests.support.invariants import broken

LINE_BYTES = 10 * 1024
CALL = 3 * 1024 * 1024 // LINE_BYTES  # as many lines as the client sends at once
QUESTS = 2 * CALL + 50


def line(number: int) -> str:
    """A quest that nothing runs, with its newline LINE_BYTES long."""
    bare = json.dumps({"task": f"{number} ", "external": True})
    return json.dumps({"task": f"{number} {'x' * (LINE_BYTES - 1 - len(bare))}", "external": True})


class Adding(Daemon):
    """A daemon to be killed, and the client that adds meanwhile."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lines = folder / "quests.jsonl"
        self.lines.write_text("".join(f"{line(number)}\n" for number in range(QUESTS)))
        self.client: subprocess.Popen[str] | None = None

    def add(self, *_options: str) -> subprocess.Popen[str]:  # type: ignore[override]
        """The client, at work."""
        self.client = subprocess.Popen(
            [sys.executable, "-m", "qlctl", "add", "--from-file", str(self.lines), "--print-id"],
            env=self.environ(PYTHONPATH=str(REPOSITORY)),
            cwd=self.project,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self.client

    def total(self) -> int:
        """How many quests there are; the database is in order."""
        assert broken(self.state / "quests.sqlite") == []
        counts: dict[str, int] = self.json("health")["counts"]
        return sum(counts.values())


@pytest.fixture
def adding(tmp_path: Path) -> Iterator[Adding]:
    playing = Adding(tmp_path)
    try:
        yield playing
    finally:
        playing.stop()
        if playing.client:
            playing.client.kill()
            playing.client.communicate()


POINTS = ["add.before:2", "add.after:2", "add.after:3"]


@pytest.mark.parametrize("point", POINTS)
def test_the_client_repeats_what_was_cut_off(adding: Adding, point: str) -> None:
    """With its requestId: what was written is not written again."""
    adding.start(crash_at=point)
    client = adding.add()
    assert adding.wait() == -signal.SIGKILL
    adding.start()
    out, err = client.communicate(timeout=60)
    assert (client.returncode, err) == (0, "")
    assert len(set(out.split())) == len(out.split()) == adding.total() == QUESTS


@pytest.mark.parametrize("point", POINTS)
def test_where_nobody_repeats_a_call_is_there_whole_or_not_at_all(adding: Adding, point: str) -> None:
    """The client dies, too."""
    adding.start(crash_at=point)
    client = adding.add()
    assert adding.wait() == -signal.SIGKILL
    client.kill()
    adding.start()
    side, _, call = point.partition(":")
    calls = int(call) - (side == "add.before")
    assert adding.total() == min(calls * CALL, QUESTS)
