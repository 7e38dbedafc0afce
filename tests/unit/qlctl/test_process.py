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

from tests.unit.qlctl.scripted import DONE, QUEST, Answer, Scripted, begun, followed, frame, out, over, waited

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


@pytest.mark.parametrize(("version", "age"), [("0.0.1", "older than"), ("99.0", "newer than")])
def test_daemon_of_another_version_is_said_on_stderr_and_json_stays_clean(serve: Serve, version: str, age: str) -> None:
    """A method that it does not know: 70, and what to do about it."""

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request["method"] == "org.varlink.service.GetInfo":
            yield frame({"version": version})
        else:
            yield frame({"method": request["method"]}, error="org.varlink.service.MethodNotFound")

    done = _run(serve(answer), "list", "--json")
    assert (done.returncode, done.stdout) == (70, "")
    assert f"questlined {version} does not know io.questline.Quests.List" in done.stderr
    assert age in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["follow", "logs", "run"])
def test_what_streams_loads_nothing_heavy(serve: Serve, verb: str) -> None:
    """It is typed in loops, too."""
    before = "import sys; bare = set(sys.modules); from qlctl.main import main; status = main(); "
    start = before + "print(*(set(sys.modules) - bare), sep='\\n', file=sys.stderr)"
    done = _run(serve(_follow), verb, "q-1", start=start)
    assert done.stdout == "one\ntwo \ufffd ä\n"
    loaded = set(done.stderr.split())
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("qlctl.commands.")} == {f"qlctl.commands.{verb}"}


def _follow(request: dict[str, Any]) -> Iterator[bytes]:
    if request["method"].endswith("Wait"):
        yield waited({**DONE, "attempts": 1})
        return
    texts = [out(2, "one\n"), out(3, "two \ufffd ä\n")]
    if request["method"].endswith("Run"):
        run = {"id": "q-1/1", "quest": "q-1", "attempt": 1, "number": 1}
        yield frame({"run": run, "records": [], "state": "running"}, continues=True)
    yield followed(begun(), *texts, over(4), quest={**DONE, "attempts": 1})


@pytest.mark.parametrize("verb", ["follow", "logs", "run"])
def test_streams_are_utf8_whatever_the_locale_says(serve: Serve, verb: str) -> None:
    """What the quest wrote is not for this locale to judge."""
    environment = {**_environment(serve(_follow).path), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", START, verb, "q-1"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "one\ntwo \ufffd ä\n".encode())


@pytest.mark.parametrize("verb", [["follow", "q-1"], ["logs", "q-1"], ["logs", "--json", "q-1"], ["run"]])
@pytest.mark.parametrize("place", ["gone", "full", "closed", "other closed"])
def test_a_stdout_that_takes_nothing_is_no_traceback(serve: Serve, verb: list[str], place: str) -> None:
    """A reader that has gone ends it quietly, a full disk is said once, a closed descriptor is never written to."""
    service = serve(_follow)
    shell = {
        "gone": 'exec "$@"',
        "full": 'exec "$@" >/dev/full',
        "closed": 'exec "$@" >&-',
        "other closed": 'exec "$@" 2>&-',
    }[place]
    command = ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", START, *verb]
    reader, writer = os.pipe()
    if place == "gone":
        os.close(reader)
    done = subprocess.run(command, env=_environment(service.path), stdout=writer, stderr=-1, text=True, check=False)
    os.close(writer)
    if place != "gone":
        os.close(reader)
    status = {"gone": 141, "full": 1, "closed": 0, "other closed": 0}[place]
    assert done.returncode == status, done.stderr
    said = [line for line in done.stderr.splitlines() if "runs (attempt 1" not in line]
    assert said == (["qlctl: cannot go on: No space left on device"] if place == "full" else [])
    # and the daemon got no output on a descriptor that took the number of the closed one
    assert all("method" in request for request in service.requests)


def test_a_non_blocking_stdout_is_waited_for(serve: Serve) -> None:
    """Somebody who shares the pipe or terminal has made it so: nothing is lost, and it is no error."""
    text = "x" * 1_000_000

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield followed(begun(), out(2, text), over(3), quest={**DONE, "attempts": 1})

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-c", START, "follow", "q-1"]
    with subprocess.Popen(command, env=_environment(serve(answer).path), stdout=writer, stderr=-1) as process:
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            assert file.read() == text.encode()
        assert process.stderr is not None
        assert (process.wait(60), process.stderr.read()) == (0, b"")


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
