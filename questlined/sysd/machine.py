"""The machine that units are installed on, as far as installing asks: accounts, places, and programs that are run."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    home: Path

    @staticmethod
    def of(entry: pwd.struct_passwd) -> Account:
        """From the user database."""
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The first thing that it complained of, for a message."""
        return next((line.strip() for line in self.err.splitlines() if line.strip()), f"exit status {self.status}")


class Run(Protocol):
    """Runs a program to its end; status 127 where there is none of that name. `account`: as that user."""

    def __call__(
        self, argv: Sequence[str], *, account: Account | None = None, environ: Mapping[str, str] | None = None
    ) -> Done:
        """See above. `environ` is all that it gets, our own where it is None."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    """Where things are, who asks, and how programs are run. `root` is / but in tests."""

    run: Run
    me: Account
    environ: Mapping[str, str]
    root: Path = Path("/")

    def at(self, path: str) -> Path:
        """An absolute path on this machine."""
        return self.root / path.lstrip("/")

    @property
    def runtime_directory(self) -> Path:
        """The user's, whether a login has told it or not: `su` alone does not."""
        return Path(self.environ.get("XDG_RUNTIME_DIR") or self.at(f"/run/user/{self.me.uid}"))

    @property
    def user_units(self) -> Path:
        """Where the user's manager looks for units first."""
        config = self.environ.get("XDG_CONFIG_HOME")
        return Path(config if config else self.me.home / ".config") / "systemd/user"

    def there(self) -> bool:
        """Whether systemd runs this machine: sd_booted(3)."""
        return os.path.isdir(self.at("/run/systemd/system"))
