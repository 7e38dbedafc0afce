"""What a child inherits: an allow-list, what the executor sets or passes, and how to report. Never the daemon's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from questlined.config.shape import Executor

_NAMES = frozenset({"USER", "LOGNAME", "SHELL", "LANG", "TZ", "SSH_AUTH_SOCK"})
_PROXIES = frozenset({"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"})
_PREFIXES = ("LC_", "XDG_")
_SECRET = re.compile(r"_KEY$|_TOKEN$|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
# The daemon's dealings with systemd, and the marks by which an agent inside an agent refuses to start.
_OURS = re.compile(
    r"NOTIFY_SOCKET|LISTEN_\w+|WATCHDOG_\w+|INVOCATION_ID|JOURNAL_STREAM|MAINPID|MANAGERPID|CREDENTIALS_DIRECTORY"
    r"|(STATE|RUNTIME|CACHE|LOGS|CONFIGURATION)_DIRECTORY|CLAUDECODE|CLAUDE_CODE_(ENTRYPOINT|SESSION_ID|SSE_PORT|EXECPATH)"
    r"|CODEX_SANDBOX\w*|QUESTLINE\w*"
)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


CREDENTIAL_MAX = 64 * 1024  # bytes; a variable holds no more than twice that


class BadCredential(Exception):
    """A variable cannot have the credential it should have. The message names both, and no value."""


def _inherits(name: str) -> bool:
    listed = name in _NAMES or name.lower() in _PROXIES or name.startswith(_PREFIXES)
    return listed and not _SECRET.search(name)


def environment(
    daemon: Mapping[str, str], executor: Executor, submitter_path: str | None, report: Mapping[str, str]
) -> dict[str, str]:
    """The child's variables. `report` is what the child needs to speak of its own attempt. Credentials are read anew
    each time, as a file may be replaced. Raises BadCredential, OSError."""
    child = {name: value for name, value in daemon.items() if _inherits(name)}
    if executor.passthrough_home and "HOME" in daemon:
        child["HOME"] = daemon["HOME"]
    child |= {name: daemon[name] for name in executor.env_pass if name in daemon}
    child = {name: value for name, value in child.items() if not _OURS.fullmatch(name)}
    child["PATH"] = executor.env_path or submitter_path or daemon.get("PATH", DEFAULT_PATH)
    return (
        child
        | {"TERM": "dumb", "NO_COLOR": "1"}
        | dict(executor.env_set)
        | _credentials(daemon, executor)
        | dict(report)
    )


def _credentials(daemon: Mapping[str, str], executor: Executor) -> dict[str, str]:
    folder = daemon.get("CREDENTIALS_DIRECTORY")
    return {variable: _credential(folder, variable, name) for variable, name in executor.env_credentials.items()}


def _credential(folder: str | None, variable: str, name: str) -> str:
    """A credential's value, without a newline at its end."""
    what = f"env.credentials.{variable}: the credential {name}"
    if folder is None:
        raise BadCredential(f"{what} is not there: the daemon's service has none; add LoadCredential={name}:FILE to it")
    try:
        with open(os.path.join(folder, name), "rb") as file:
            value = file.read(CREDENTIAL_MAX + 1)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        give = f"add LoadCredential={name}:FILE to the daemon's service and restart it"
        raise BadCredential(f"{what} cannot be read: {error.strerror}; {give}") from None
    if len(value) > CREDENTIAL_MAX:
        raise BadCredential(f"{what} has more than {CREDENTIAL_MAX} bytes: no variable should be so long")
    if b"\0" in value:
        raise BadCredential(f"{what} holds a NUL character, which no variable can")
    return os.fsdecode(value.removesuffix(b"\n"))
