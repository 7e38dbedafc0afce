"""systemctl, of the user's manager or the system's. The one place in qlctl that starts another program."""

from __future__ import annotations

import os
import subprocess

from qlctl.codec import Malformed, decode
from questlined.wire.address import SYSTEM_SOCKET, user_socket
from questlined.wire.errors import QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMEOUT_S = 60.0


class SystemdRefused(QuestlineError):
    """systemd could not be asked, or would not do it."""

    exit_status = 1


class Manager:
    """A manager of units, and the directory with the units that are the administrator's or the user's own."""

    def __init__(self, *, system: bool) -> None:
        self.system = system
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        self.folder = "/etc/systemd/system" if system else f"{base}/systemd/user"
        self.option = "--system" if system else "--user"
        self.command = "systemctl" if system else "systemctl --user"
        self.socket = SYSTEM_SOCKET if system else user_socket(os.environ)  # which the packaged services speak to

    def call(self, *arguments: str) -> str:
        """What systemctl prints. Raises SystemdRefused with its words."""
        status, out, err = self._run(arguments)
        if status:
            command = f"systemctl {self.option} {' '.join(arguments)}"
            raise SystemdRefused(f"{command}: {err.strip() or f'exit status {status}'}", hint=self._remedy(err))
        return out

    def knows(self, unit: str) -> bool:
        """Whether there is such a unit file. Raises SystemdRefused where nobody tells."""
        try:
            self.call("cat", unit)
        except SystemdRefused as error:
            if "No files found" in error.message:
                return False
            raise
        return True

    def tries(self, *arguments: str) -> None:
        """Have systemctl do what may be done already, or not be needed."""
        try:
            self.call(*arguments)
        except SystemdRefused:
            pass

    def timers(self, pattern: str) -> dict[str, dict[str, Any]]:
        """`next` and `last` of each timer that fits, in microseconds since 1970, 0 where there is none."""
        text = self.call("list-timers", "--all", "--output=json", pattern)
        try:
            return {timer["unit"]: timer for timer in decode(text)}
        except (Malformed, TypeError, KeyError):
            raise SystemdRefused("systemctl list-timers: its answer is not understood", hint="") from None

    def _run(self, arguments: tuple[str, ...]) -> tuple[int, str, str]:
        environ = {**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        command = ["systemctl", self.option, "--no-ask-password", *arguments]
        try:
            done = subprocess.run(
                command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
            )
        except FileNotFoundError:
            raise SystemdRefused("systemctl is not installed", hint="timers need a machine with systemd") from None
        except subprocess.TimeoutExpired:
            raise SystemdRefused(f"{' '.join(command)} took more than {TIMEOUT_S:.0f} s", hint="") from None
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    def _remedy(self, err: str) -> str:
        if ("connect to" in err and "bus" in err) or "booted with systemd" in err:
            if self.system:
                return "is systemd this machine's PID 1?"
            return (
                "a user's manager is there in a login session, or with lingering: loginctl enable-linger; or --system"
            )
        return "as root, for --system" if self.system and os.geteuid() else ""
