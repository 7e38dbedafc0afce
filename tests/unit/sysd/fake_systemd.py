"""A machine in a folder, with a systemd that remembers what it was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import questlined
from questlined.sysd.machine import Account, Done, Machine

OK = Done(0, "", "")


class FakeSystemd:
    """Runs programs as a machine with systemd would answer, and keeps every call that changes something in `calls`."""

    def __init__(self, root: Path, *, uid: int = 1000) -> None:
        self.root = root
        self.calls: list[str] = []
        self.as_users: list[str] = []  # whose programs were tried
        self.enabled: dict[str, str] = {}
        self.active: set[str] = set()
        self.failed: set[str] = set()
        self.stale = False  # whether it has not read the units as they are
        self.environment = self.drop_in = ""  # what services get from the manager, and from their unit
        self.running = Done(69, "", "")  # what qlctl says of the daemon
        self.version: str | None = "252.39-1"
        self.fails: dict[str, Done] = {}  # by how a call begins
        self.home = root / "home/carol"
        self.units = self.home / ".config/systemd/user"
        for folder in ("run/systemd/system", f"run/user/{uid}/systemd", "var/lib/systemd/linger", "home/carol"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.me = Account("root" if uid == 0 else "carol", uid, uid, self.home)

    def machine(self, **environ: str) -> Machine:
        """As carol, or root, sees it."""
        return Machine(self, self.me, environ, self.root)

    def linger(self, name: str = "carol") -> None:
        """Have a user's manager run without a login."""
        (self.root / f"var/lib/systemd/linger/{name}").touch()

    def __call__(
        self, argv: Sequence[str], *, account: Account | None = None, environ: Mapping[str, str] | None = None
    ) -> Done:
        line = " ".join(argv)
        for beginning, done in self.fails.items():
            if line.startswith(beginning):
                return done
        if argv[-1] == "--version":
            self.as_users.append(account.name if account else "")
            return Done(0, f"questlined {questlined.__version__}\n", "")
        if "version" in argv:
            return self.running
        if argv[0] == "systemctl":
            words = [word for word in argv[1:] if word != "--user"]
            return self._systemctl(words)
        self.calls.append(line)
        if argv[:2] == ["loginctl", "enable-linger"]:
            self.linger(argv[2])
            (self.root / f"run/user/{self.me.uid}/systemd/private").touch()
        return OK

    def _systemctl(self, words: list[str]) -> Done:
        verb, units = words[0], [word for word in words[1:] if not word.startswith("-")]
        answer = self._asked(verb, words, units[0] if units else "")
        if answer is not None:
            return answer
        self.calls.append(" ".join(["systemctl", *words]))
        if verb in ("enable", "disable"):
            for unit in units:
                self.enabled[unit] = f"{verb}d"
                if verb == "disable":
                    self.active.discard(unit)
        if verb == "reset-failed":
            self.failed.difference_update(units)
        if verb == "start":
            self.active.update(units)
        return OK

    def _asked(self, verb: str, words: list[str], unit: str) -> Done | None:
        """What it answers to a question, None where it is told to do something."""
        state = self.enabled.get(unit, "disabled")
        answers = {
            "show": lambda: self._shown(words, unit),
            "show-environment": lambda: Done(0, self.environment, ""),
            "is-active": lambda: Done(0 if unit in self.active else 3, "", ""),
            "is-failed": lambda: Done(0 if unit in self.failed else 1, "", ""),
            "is-enabled": lambda: Done(0 if state == "enabled" else 1, state + "\n", ""),
            "list-units": lambda: OK,
        }
        return answers[verb]() if verb in answers else None

    def _shown(self, words: list[str], unit: str) -> Done:
        if "--property=NeedDaemonReload" in words:
            return self._value("yes" if self.stale else "no")
        if "--property=Environment" in words:
            return self._value(self.drop_in)
        if unit:
            return self._value(next((str(path) for path in self.root.rglob(unit) if path.is_file()), ""))
        if self.version is None:
            return Done(1, "", "Failed to connect to bus: No medium found")
        return self._value(self.version)

    @staticmethod
    def _value(text: str) -> Done:
        return Done(0, text + "\n", "")
