"""qlctl as a process: what `add` loads; its end by signals, a closed pipe, a full disk, bytes that are no UTF-8."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.qlctl.scripted import QUEST, Answer, Scripted, frame

Serve = Callable[[Answer], Scripted]
ROOT = str(Path(__file__).parents[3])
START = "import sys; from qlctl.main import main; sys.exit(main())"

# What a thin client has no need of. re comes with json, socket and argparse; enum with re, signal and socket.
HEAVY = {
    *("re", "enum", "json", "argparse", "socket", "signal", "selectors", "typing", "dataclasses", "collections"),
    *("functools", "asyncio", "subprocess", "datetime", "pathlib", "shutil", "importlib.metadata", "inspect"),
    *("contextlib", "logging", "difflib", "textwrap", "threading", "traceback", "unicodedata", "msgspec"),
}


def _environment(socket: str) -> dict[str, str]:
    return {"PYTHONPATH": ROOT, "QUESTLINED_SOCKET": socket, "PATH": "/bin", "HOME": "/nonexistent"}


def _run(service: Scripted, *argv: str | bytes, start: str = START) -> subprocess.CompletedProcess[str]:
    command: list[str | bytes] = [sys.executable, "-c", start, *argv]
    return subprocess.run(
        command, env=_environment(service.path), capture_output=True, text=True, check=False, timeout=60
    )


def _add(_request: dict[str, Any]) -> Iterator[bytes]:
    yield frame({"quest": QUEST, "deduped": False, "warnings": []})


def test_add_loads_nothing_heavy(serve: Serve) -> None:
    """Names of modules, not milliseconds: what is loaded is what it costs."""
    before = "import sys; bare = set(sys.modules); from qlctl.main import main; status = main(); "
    done = _run(serve(_add), "add", "t", start=before + "print(*(set(sys.modules) - bare), sep='\\n', file=sys.stderr)")
    assert done.stdout.startswith("q-1a2b3c4d5e6f queued")
    loaded = set(done.stderr.split())
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith("questlined")}
    assert ours == {"questlined", *(f"questlined.wire{part}" for part in ("", ".address", ".errors", ".frames"))}
    assert not {name for name in loaded if name.startswith("qlctl.commands.")} - {"qlctl.commands.add"}


def test_argument_that_is_no_utf8_is_named(serve: Serve) -> None:
    service = serve(_add)
    done = _run(service, b"add", b"--name", b"caf\xe9", b"task")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "qlctl: --name: b'caf\\xe9' is not UTF-8\n  give it in UTF-8\n"
    assert service.requests == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_a_wait_quietly(serve: Serve, number: signal.Signals, status: int) -> None:
    asked, over = threading.Event(), threading.Event()

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        asked.set()
        assert over.wait(60)
        yield b""

    service = serve(answer)
    command = [sys.executable, "-c", START, "wait", "q-1"]
    with subprocess.Popen(command, env=_environment(service.path), stdout=-1, stderr=-1, text=True) as process:
        assert asked.wait(60)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        over.set()
    assert (process.returncode, out, err) == (status, "", "")


def test_reader_that_has_gone_is_no_error_message(serve: Serve) -> None:
    service = serve(_add)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", START, "add", "t"]
    done = subprocess.run(command, env=_environment(service.path), stdout=writer, stderr=-1, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_full_disk_under_stdout_is_said_once(serve: Serve) -> None:
    service = serve(_add)
    command = [sys.executable, "-c", START, "add", "t"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=_environment(service.path), stdout=full, stderr=-1, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "qlctl: cannot go on: No space left on device\n")


def test_closed_stdout_is_no_traceback(serve: Serve) -> None:
    service = serve(_add)
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" add t >&-', sys.executable, START]
    done = subprocess.run(command, env=_environment(service.path), stderr=-1, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_handed_over_verb_does_not_run_a_folder_of_the_working_directory(tmp_path: Path) -> None:
    """A checkout that holds a folder `questlined` is not mistaken for the program."""
    (tmp_path / "questlined").mkdir()
    (tmp_path / "questlined/__main__.py").write_text("print('the wrong one')")
    (tmp_path / "questlined/__init__.py").touch()
    command = [sys.executable, "-P", "-c", START, "demo", "--help"]
    done = subprocess.run(command, env=_environment("/none"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "the wrong one" not in done.stdout
