"""The commands by which systemd can start this very installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import questlined
from questlined.sysd.machine import Account, Machine
from questlined.sysd.rendering import PROGRAMS
from questlined.wire.errors import Unavailable

# What is there is deleted at the next boot, after some days, or by the tool that ran us from there.
VANISHING = ("/tmp", "/var/tmp", "/dev/shm", "/run")
CACHES = (".cache/pipx", ".cache/uv", ".local/pipx/.cache", ".local/share/pipx/.cache")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STAY = "python3 -m venv ~/.local/share/questlined && ~/.local/share/questlined/bin/pip install questlined"


def find(machine: Machine, account: Account) -> dict[str, Sequence[str]]:
    """For each of our programs the words that start it, tried as `account`, whose daemon it will be.

    Raises Unavailable where none works for that user, or where it will not stay."""
    return {name: _first(machine, account, name) for name in PROGRAMS}


def _first(machine: Machine, account: Account, name: str) -> Sequence[str]:
    complaint = ""
    for words in candidates(name):
        _refuse_vanishing(words, account)
        done = machine.run([*words, "--version"], account=account, environ=_bare(account))
        if done.status == 0 and done.out.split()[-1:] == [questlined.__version__]:
            return words
        complaint = complaint or f"{words[0]}: {done.complaint}"
    raise Unavailable(
        f"{account.name} cannot run {name} of this installation ({complaint})",
        hint=f"install it where that user may read it, such as /opt/questlined, and run its {name} install",
    )


def _bare(account: Account) -> Mapping[str, str]:
    return {"HOME": str(account.home), "PATH": _PATH, "USER": account.name}


def candidates(name: str) -> Iterator[Sequence[str]]:
    """The script that was installed with us, one beside the interpreter, and the interpreter itself."""
    scripts = [*_installed(name), Path(sys.executable).with_name(name)]
    for script in dict.fromkeys(scripts):
        if script.is_file():
            yield [str(script)]
    # -P: nothing in the directory where it happens to be started must be taken for the program
    yield [sys.executable, "-P", "-m", name]


def _installed(name: str) -> Iterator[Path]:
    """The scripts that came with this very code: `pip install --user` puts them far from the interpreter."""
    try:
        found = metadata.distribution("questlined")
    except metadata.PackageNotFoundError:
        return
    if Path(str(found.locate_file("questlined/__init__.py"))) != Path(questlined.__file__):
        return  # another copy, or one that stands for a checkout
    for file in found.files or []:
        if file.name == name and file.parent.name == "bin":
            yield Path(os.path.normpath(str(file.locate())))


def _refuse_vanishing(words: Sequence[str], account: Account) -> None:
    program = Path(words[0])
    places = [Path(place) for place in VANISHING] + [account.home / cache for cache in CACHES]
    if any(program.is_relative_to(place) for place in places):
        raise Unavailable(
            f"questlined runs from {program}, which will vanish, and its units with it",
            hint=f"install it to stay, with pipx, or: {STAY}",
        )
