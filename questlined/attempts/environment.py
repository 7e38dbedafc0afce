"""What a child inherits: an allow-list, what the executor sets or passes, and how to report. Never the daemon's own."""

from __future__ import annotations

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


def _inherits(name: str) -> bool:
    listed = name in _NAMES or name.lower() in _PROXIES or name.startswith(_PREFIXES)
    return listed and not _SECRET.search(name)


def environment(
    daemon: Mapping[str, str], executor: Executor, submitter_path: str | None, report: Mapping[str, str]
) -> dict[str, str]:
    """The child's variables. `report` is what the child needs to speak of its own attempt."""
    child = {name: value for name, value in daemon.items() if _inherits(name)}
    if executor.passthrough_home and "HOME" in daemon:
        child["HOME"] = daemon["HOME"]
    child |= {name: daemon[name] for name in executor.env_pass if name in daemon}
    child = {name: value for name, value in child.items() if not _OURS.fullmatch(name)}
    child["PATH"] = executor.env_path or submitter_path or daemon.get("PATH", DEFAULT_PATH)
    return child | {"TERM": "dumb", "NO_COLOR": "1"} | dict(executor.env_set) | dict(report)
