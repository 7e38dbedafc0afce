"""Where files and the socket are, for the daemon. The only import of platformdirs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from questlined.wire.address import SOCKET_NAME, user_socket
from questlined.wire.errors import InvalidInput

Environ = Mapping[str, str]

APPLICATION = "questlined"
SYSTEM_CONFIG = Path("/etc/questlined")
FILE_NAME = "questlined.toml"
ADDRESS_MAX = 107  # sun_path holds 108 bytes with its NUL


def service_directory(environ: Environ, name: str) -> Path | None:
    """The first of a system service's directories ($STATE_DIRECTORY, $RUNTIME_DIRECTORY: colon lists), or None.

    None under a user's manager, which alone sets MANAGERPID: on systemd 252 its StateDirectory= is elsewhere than
    on later ones and than where a daemon in the foreground looks, so one user would have two queues.
    """
    first = environ.get(name, "").split(":")[0]
    return Path(first) if first and "MANAGERPID" not in environ else None


def state_directory(environ: Environ) -> Path:
    """$QUESTLINED_STATE, a system service's $STATE_DIRECTORY, else the user's state directory. Absolute.

    platformdirs reads HOME and XDG_STATE_HOME of the process itself.
    """
    chosen = environ.get("QUESTLINED_STATE")
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    return service_directory(environ, "STATE_DIRECTORY") or Path(platformdirs.user_state_dir(APPLICATION))


def listen_path(environ: Environ, state_dir: Path | str, explicit: str | None = None) -> str:
    """The path of the socket to make: --socket, $QUESTLINED_SOCKET, a system service's runtime directory, the
    user's, else the state directory. Raises InvalidInput for one that no socket address can hold.
    """
    chosen = explicit or environ.get("QUESTLINED_SOCKET")
    if chosen:
        return _checked(os.path.abspath(chosen))
    service = service_directory(environ, "RUNTIME_DIRECTORY")
    if service:
        return _checked(str(service / SOCKET_NAME))
    return _checked(user_socket(dict(environ)) or str(Path(state_dir) / SOCKET_NAME))


def config_files(environ: Environ, explicit: str | None = None, uid: int | None = None) -> list[Path]:
    """The files to read, in order: the chosen one alone, whether it exists or not, else those of the usual ones
    that exist, `questlined.toml` and then `questlined.toml.d/*.toml` by name.
    """
    chosen = explicit or environ.get("QUESTLINED_CONFIG")
    if chosen:
        return [Path(os.path.abspath(os.path.expanduser(chosen)))]
    return _files_in(_config_directory(environ, uid))


def unread_files(environ: Environ, explicit: str | None = None, uid: int | None = None) -> list[str]:
    """A warning for each configuration that somebody may expect to count, and that does not."""
    home = environ.get("HOME") or os.path.expanduser("~")
    warnings = []
    foreign = Path(home) / ".questline" / "config.json"
    if os.path.exists(foreign):
        ours = _config_directory(environ, uid) / FILE_NAME
        warnings.append(f"{foreign} is a configuration of questline; questlined reads {ours}, ignoring")
    chosen = explicit or environ.get("QUESTLINED_CONFIG")
    if not chosen and _config_directory(environ, uid) == SYSTEM_CONFIG:
        own = _files_in(_user_config())
        warnings += [f"{file}: this daemon reads {SYSTEM_CONFIG / FILE_NAME}, ignoring" for file in own]
    return warnings


def _config_directory(environ: Environ, uid: int | None) -> Path:
    root = (os.geteuid() if uid is None else uid) == 0
    service = any(service_directory(environ, name) for name in ("STATE_DIRECTORY", "RUNTIME_DIRECTORY"))
    return SYSTEM_CONFIG if root or service else _user_config()


def _user_config() -> Path:
    return Path(platformdirs.user_config_dir(APPLICATION))


def _files_in(directory: Path) -> list[Path]:
    # Only what is certainly absent is left out: a file that may not be read has to be complained of by its reader.
    main, extra = directory / FILE_NAME, directory / f"{FILE_NAME}.d"
    try:
        os.stat(main)
        files = [main]
    except (FileNotFoundError, NotADirectoryError):
        files = []
    except OSError:
        files = [main]
    try:
        return files + [extra / name for name in sorted(os.listdir(extra)) if name.endswith(".toml")]
    except (FileNotFoundError, NotADirectoryError):
        return files
    except OSError:
        return [*files, extra]


def _checked(path: str) -> str:
    size = len(os.fsencode(path))
    if size > ADDRESS_MAX or "\0" in path:
        raise InvalidInput(
            f"socket: {path} has {size} bytes, the address of a socket holds {ADDRESS_MAX}",
            hint="name a shorter path with --socket or $QUESTLINED_SOCKET",
            field="socket",
        )
    return path
