"""The daemon ends though something beside its attempts never does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from questlined import app
from questlined.attempts import index, recovery
from questlined.config.load import Loaded, from_text
from questlined.core.ids import marker
from questlined.services import rescuer
from questlined.store.protocol import Sealed
from tests.integration.server.peer import QUESTS, Peer, frame, until
from tests.support.clock import ManualClock
from tests.support.daemon import SHELL, Daemon
from tests.support.parts import parts

STOP_S = 20.0  # a guard against a test that would hang, nothing is measured by it


async def stopped(folder: Path, when: Callable[[], object]) -> int:
    """Serve on what is in `folder`, and end with SIGTERM as soon as something holds; the exit status."""
    where = app.Places(folder, str(folder / "s.sock"), folder / "quests.sqlite", folder / "artifacts")
    async with asyncio.timeout(STOP_S):
        serving = asyncio.ensure_future(app.serve(Loaded(from_text(SHELL), {}, ()), where, dict(os.environ)))
        while not when():  # noqa: ASYNC110  no event of this loop tells
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        return await serving


def test_a_process_of_an_earlier_daemon_that_does_not_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start meets it again."""
    monkeypatch.setattr(recovery, "kill_leftovers", lambda *arguments: [])
    outlasting = list[int]()
    real = recovery.outlast

    async def outlast(processes: list[recovery.Stat]) -> None:
        outlasting.append(len(processes))
        await real(processes)

    monkeypatch.setattr(recovery, "outlast", outlast)

    async def play() -> None:
        async with parts(tmp_path) as here:
            quest = await here.add()
            claimed = await here.claim("an earlier daemon")
            mark = marker(here.runtime.store_uuid, quest, claimed.run.lease_gen)
        environ = {"PATH": os.environ["PATH"], "QUESTLINE_ATTEMPT": mark}
        with subprocess.Popen(["sleep", "1000"], env=environ) as living:  # noqa: ASYNC220  it starts at once
            try:
                assert await stopped(tmp_path, lambda: outlasting) == 0
                assert living.poll() is None
            finally:
                living.kill()

    asyncio.run(play())


def test_a_disk_that_hangs_while_old_records_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it."""
    monkeypatch.setattr(rescuer, "NET_S", 0.0)
    reached, go = threading.Event(), threading.Event()

    def remove(paths: object) -> None:
        reached.set()
        go.wait()

    monkeypatch.setattr(index, "remove", remove)

    async def play() -> None:
        async with parts(tmp_path, clock=ManualClock(wall_ms=1_000_000_000_000)) as here:
            await here.add()
            claimed = await here.claim()
            await here.bench.finish(claimed, artifacts=(Sealed("records", str(tmp_path / "old"), 32),))
        try:
            assert await stopped(tmp_path, reached.is_set) == 0
        finally:
            go.set()

    asyncio.run(play())


def test_a_directory_of_a_client_that_hangs(tmp_path: Path) -> None:
    """On a dead mount; nor is its thread waited for when the program ends."""
    asked = tmp_path / "asked"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, threading\n"
        "real = os.path.realpath\n"
        "def realpath(path, **more):\n"
        "    if path == '/dead':\n"
        f"        open({str(asked)!r}, 'w').close()\n"
        "        threading.Event().wait()\n"
        "    return real(path, **more)\n"
        "os.path.realpath = realpath\n"
    )
    daemon = Daemon(tmp_path)
    daemon.start(PYTHONPATH=str(tmp_path))
    try:
        with Peer(daemon.socket) as peer:
            peer.send(frame(QUESTS + "Add", {"task": "true", "directory": "/dead"}))
            until(asked.exists)
            daemon.signal(signal.SIGTERM)
            assert daemon.wait(STOP_S) == 0
    finally:
        daemon.stop()
