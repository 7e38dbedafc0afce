"""Fixtures: a scripted service on a socket of its own, and a client of it that pauses without waiting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qlctl.client import Client
from tests.unit.qlctl.scripted import Answer, Clock, Scripted


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Answer], Scripted]]:
    running: list[Scripted] = []

    def start(answer: Answer) -> Scripted:
        running.append(Scripted(tmp_path / "questlined.sock", answer))
        return running[-1]

    yield start
    for service in running:
        service.stop()


@pytest.fixture
def client(tmp_path: Path, clock: Clock) -> Iterator[Client]:
    made = Client(str(tmp_path / "questlined.sock"), pause=clock.pause, now=clock.now)
    yield made
    made.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are typed in a directory of their own, and find the scripted socket."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUESTLINED_SOCKET", str(tmp_path / "questlined.sock"))
    monkeypatch.setenv("PATH", "/bin")


@pytest.fixture
def feed() -> Iterator[Callable[[bytes], None]]:
    """Put data on standard input for the test's time."""
    saved = os.dup(0)

    def put(data: bytes) -> None:
        reader, writer = os.pipe()
        os.write(writer, data)
        os.close(writer)
        os.dup2(reader, 0)
        os.close(reader)

    yield put
    os.dup2(saved, 0)
    os.close(saved)
