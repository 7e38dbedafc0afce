"""Where clients look for the socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from questlined.wire import address
from questlined.wire.address import SYSTEM_SOCKET, client_socket


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_what_was_said_comes_first(tmp_path: Path) -> None:
    """--socket, then the variable, then the user's."""
    own = make(tmp_path / "questlined/questlined.sock")
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert client_socket("/a", runtime | {"QUESTLINED_SOCKET": "/b"}) == "/a"
    assert client_socket(None, runtime | {"QUESTLINED_SOCKET": "/b"}) == "/b"
    assert client_socket(None, runtime) == str(own)


def test_without_a_daemon_of_the_user_it_is_the_systems(tmp_path: Path) -> None:
    """The user's socket counts only where it is there."""
    places = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert client_socket(None, places) == SYSTEM_SOCKET
    assert client_socket(None, {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}) == SYSTEM_SOCKET


def test_an_installed_user_unit_keeps_quests_from_the_system(tmp_path: Path) -> None:
    """A user's daemon that is down must not send its quests elsewhere."""
    make(tmp_path / "systemd/user/questlined.service")
    places = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert client_socket(None, places) == str(tmp_path / "questlined/questlined.sock")


def test_without_a_runtime_directory_it_is_beside_the_state(tmp_path: Path) -> None:
    """Where a daemon in the foreground listens then, so that both find each other."""
    beside = make(tmp_path / "questlined/questlined.sock")
    assert client_socket(None, {"XDG_STATE_HOME": str(tmp_path)}) == str(beside)
    assert client_socket(None, {"QUESTLINED_STATE": str(tmp_path / "questlined")}) == str(beside)
    runtime = tmp_path / "run"
    assert client_socket(None, {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}) == SYSTEM_SOCKET


def test_a_shell_of_su_finds_the_users_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no XDG_RUNTIME_DIR. With a user unit the system's daemon is never meant; a socket that a daemon in the
    foreground has, or left, comes second."""
    monkeypatch.setattr(address, "RUNTIME", str(tmp_path / "run"))
    make(tmp_path / "systemd/user/questlined.service")
    bare = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    service = tmp_path / f"run/{os.getuid()}/questlined/questlined.sock"
    assert client_socket(None, bare) == str(service)
    beside = make(tmp_path / "state/questlined/questlined.sock")
    assert client_socket(None, bare) == str(beside)
    make(service)
    assert client_socket(None, bare) == str(service)
