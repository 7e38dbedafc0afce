"""Where the socket is: the order in which qlctl and questlined look for it (README has the list)."""

from __future__ import annotations

import os

SYSTEM_SOCKET = "/run/questlined/questlined.sock"
SYSTEM_UNIT = "/etc/systemd/system/questlined.service"
SOCKET_NAME = "questlined.sock"
PLACES = ("QUESTLINED_CONFIG", "QUESTLINED_STATE", "QUESTLINED_SOCKET")  # variables that move a daemon
RUNTIME = "/run/user"  # where logind makes each user's XDG_RUNTIME_DIR


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
    """The socket a client speaks to: --socket, $QUESTLINED_SOCKET, the user's if it is there or a unit makes it
    (without XDG_RUNTIME_DIR: beside the state), the system's."""
    chosen = explicit or environ.get("QUESTLINED_SOCKET")
    if chosen:
        return chosen
    installed, user = user_unit_installed(environ), user_socket(environ)
    if user is None:
        beside = state_socket(environ)
        service = user_socket({"XDG_RUNTIME_DIR": f"{RUNTIME}/{os.getuid()}"}) if installed else None
        if not (service and os.path.exists(service)) and os.path.exists(beside):
            return beside
        user = service  # a shell of su or sudo lacks the variable, and the user's service is there all the same
    return user if user and (installed or os.path.exists(user)) else SYSTEM_SOCKET
