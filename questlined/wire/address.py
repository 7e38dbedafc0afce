"""Where the socket is: the order in which qlctl and questlined look for it (README has the list)."""

from __future__ import annotations

import os

SYSTEM_SOCKET = "/run/questlined/questlined.sock"
SOCKET_NAME = "questlined.sock"


def user_socket(environ: dict[str, str] | os._Environ[str]) -> str | None:
    """The socket of this user's daemon, None without XDG_RUNTIME_DIR. Never platformdirs: it falls back to /tmp."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    return f"{runtime}/questlined/{SOCKET_NAME}" if runtime else None


def user_unit_installed(environ: dict[str, str] | os._Environ[str]) -> bool:
    """Whether a user unit is installed: then the user's socket is the only one, so that no quest lands elsewhere."""
    config = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.exists(f"{config}/systemd/user/questlined.service")


def state_socket(environ: dict[str, str] | os._Environ[str]) -> str:
    """The socket of a daemon in the foreground where there is no XDG_RUNTIME_DIR: beside its state."""
    state = environ.get("QUESTLINED_STATE")
    if not state:
        base = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        state = f"{base}/questlined"
    return f"{state}/{SOCKET_NAME}"


def client_socket(explicit: str | None, environ: dict[str, str] | os._Environ[str]) -> str:
    """The socket a client speaks to: --socket, $QUESTLINED_SOCKET, the user's if it is there (without
    XDG_RUNTIME_DIR: beside the state), the system's."""
    chosen = explicit or environ.get("QUESTLINED_SOCKET")
    if chosen:
        return chosen
    user = user_socket(environ)
    if user and (os.path.exists(user) or user_unit_installed(environ)):
        return user
    beside = state_socket(environ)
    return beside if not user and os.path.exists(beside) else SYSTEM_SOCKET
