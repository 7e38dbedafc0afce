"""A manager of units, asked and told by systemctl."""

from __future__ import annotations

import contextlib
import shlex

from questlined.sysd.machine import Done, Machine
from questlined.wire.errors import Unavailable


class Manager:
    """One manager of units, by systemctl: our own user's, for root with `machine_of` another's, or the system's."""

    def __init__(self, machine: Machine, *, user: bool, machine_of: str = "") -> None:
        self._machine, self.user = machine, user
        self.command = "systemctl --user" if user else "systemctl"
        if machine_of:
            self.command = f"systemctl --user --machine={machine_of}@"

    def ask(self, *arguments: str) -> Done:
        """systemctl, whatever its exit status."""
        environ = {**self._machine.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
        if self.user:
            environ["XDG_RUNTIME_DIR"] = str(self._machine.runtime_directory)
        return self._machine.run([*self.command.split(), *arguments], environ=environ)

    def tell(self, *arguments: str) -> None:
        """systemctl, which must succeed. Raises Unavailable with what it complained of."""
        done = self.ask(*arguments)
        if done.status:
            log = "journalctl --user" if self.user else "journalctl"
            raise Unavailable(
                f"{self.command} {' '.join(arguments)}: {done.complaint}",
                hint=f"look: {self.command} status questlined; {log} -u questlined -n 20",
            )

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit, "" where there is none."""
        return self.ask("show", unit, f"--property={name}", "--value").out.strip()

    def environment(self) -> dict[str, str]:
        """The variables that the daemon gets from it, and from drop-ins of its unit."""
        lines = self.ask("show-environment").out.splitlines()
        found: dict[str, str] = {}
        for text in [*lines, self.shown("questlined.service", "Environment")]:
            with contextlib.suppress(ValueError):  # what is quoted in another way than a shell's
                found |= dict(word.split("=", 1) for word in shlex.split(text) if "=" in word)
        return found

    def version(self) -> str | None:
        """Its version, None where it cannot be reached."""
        done = self.ask("show", "--property=Version", "--value")
        return done.out.strip() if done.status == 0 else None
