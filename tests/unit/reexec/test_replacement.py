"""The last steps before the exec."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from questlined.procs.handing import Handing
from questlined.reexec import replacement
from questlined.reexec.handover import Handover
from questlined.reexec.program import Program
from questlined.reexec.replacement import execute
from tests.support.daemon import REPOSITORY

NOTHING = Handover("1", 1, (), False, {}, Handing(), ())


# In a process of its own: every other thread has to end, and those of other tests do not.
GAP = """
import asyncio, os, signal, sys, threading
from questlined.reexec.replacement import HELD, hold_signals, release_signals

async def play():
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await asyncio.to_thread(lambda: None)  # a thread that could take it, and must have gone
    if sys.argv[1] == "before":
        os.kill(os.getpid(), signal.SIGTERM)
    await hold_signals(stopped)
    if sys.argv[1] == "after":
        os.kill(os.getpid(), signal.SIGTERM)
    assert threading.active_count() == 1

asyncio.run(play())
assert set(HELD) <= signal.pthread_sigmask(signal.SIG_BLOCK, ())
assert signal.sigpending() == ({signal.SIGTERM} if sys.argv[1] != "never" else set())
signal.signal(signal.SIGTERM, lambda number, frame: print("told"))
release_signals()
"""


@pytest.mark.parametrize(("when", "told"), [("before", "told\n"), ("after", "told\n"), ("never", "")])
def test_a_signal_is_kept_whether_it_comes_just_before_or_after_the_last_look(when: str, told: str) -> None:
    """It waits, blocked, for the handlers of the next program."""
    command = [sys.executable, "-c", GAP, when]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


def test_a_thread_that_a_disk_holds_keeps_the_exec_from_being_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel would wait for it with the whole process."""
    monkeypatch.setattr(replacement, "JOIN_S", 0.05)
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="disk-3", daemon=True)
    thread.start()
    try:
        execute(Program(("/bin/false",), str(tmp_path)), NOTHING, {})
    finally:
        release.set()
        thread.join()
    assert "the program is not replaced: a disk holds " in caplog.text
    assert "disk-3" in caplog.text


@pytest.mark.parametrize("directory", ["here", "gone"])
def test_a_program_that_cannot_be_executed_leaves_all_as_it_was(
    tmp_path: Path, directory: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory, and what is inherited."""
    (tmp_path / "here").mkdir()
    listening = os.open(tmp_path, os.O_RDONLY | os.O_CLOEXEC)
    before, opened = os.getcwd(), len(os.listdir("/proc/self/fd"))
    given = Handover("1", 1, (listening,), False, {}, Handing(), ())
    monkeypatch.setattr(replacement, "_alone", list)  # but for threads of other tests
    execute(Program((str(tmp_path / "no-such"),), str(tmp_path / directory)), given, {})
    assert "No such file or directory; the running one goes on" in caplog.text
    assert (os.getcwd(), len(os.listdir("/proc/self/fd"))) == (before, opened)
    assert not os.get_inheritable(listening)
    os.close(listening)
