"""The packaged units as this installation needs them, and how a file that we wrote is told from any other."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from questlined.sysd.machine import Account, Machine

PROGRAMS = ("questlined", "qlctl")  # packaged units name them below /usr/bin
_HEADER = re.compile(r"# Written by `questlined install`, sha256 ([0-9a-f]{64})\.\n#[^\n]*\n#[^\n]*\n\n")
_PACKAGED = re.compile(rf"(?<![\w./-])/usr/bin/(?:{'|'.join(PROGRAMS)})(?![\w./-])")
_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file as it is to be."""

    path: Path
    text: str


class Origin(enum.Enum):
    """Whose a file is."""

    OURS = "written by an install of this or another version, and as it was written"
    EDITED = "written by an install, and changed since"
    FOREIGN = "not written by an install"


def packaged() -> Path:
    """The folder of the units: inside the package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "units"
    return inside if inside.is_dir() else package.parent / "units"


def render(machine: Machine, programs: dict[str, Sequence[str]], run_as: Account | None) -> list[Rendered]:
    """Every file of the user's manager, or with `run_as` of the system's; that user is whom its daemon runs as."""
    source = packaged()
    if run_as is None:
        folders, edit = {"user": machine.user_units}, "systemctl --user edit"
    else:
        folders = {
            "system": machine.at("/etc/systemd/system"),
            "sysusers.d": machine.at("/etc/sysusers.d"),
            "tmpfiles.d": machine.at("/etc/tmpfiles.d"),
        }
        edit = "systemctl edit"
    return [
        Rendered(target / file.name, signed(_filled(file.read_text("utf-8"), programs, run_as), f"{edit} {file.name}"))
        for folder, target in folders.items()
        for file in sorted((source / folder).iterdir())
        if not file.name.startswith(".")
    ]


def _filled(text: str, programs: dict[str, Sequence[str]], run_as: Account | None) -> str:
    ours = {f"/usr/bin/{name}": " ".join(exec_word(word) for word in programs[name]) for name in PROGRAMS}
    text = _PACKAGED.sub(lambda found: ours[found[0]], text)
    if run_as is not None:
        # Whose daemon it is; the group of the socket stays, and lets others in.
        text = re.sub(r"(?m)^((?:Socket)?User)=.*$", lambda found: f"{found[1]}={run_as.name}", text)
        text = re.sub(r"(?m)^#(Wants|After)=user@UID\.service$", rf"\1=user@{run_as.uid}.service", text)
    return text


def exec_word(word: str) -> str:
    """A word of a command line in a unit, as systemd reads it back."""
    escaped = word.replace("%", "%%")
    if _PLAIN.fullmatch(word):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def signed(text: str, edit: str) -> str:
    """The text below a header with its digest."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return (
        f"# Written by `questlined install`, sha256 {digest}.\n"
        "# The next install replaces this file, `questlined uninstall` removes it: but not when it was edited.\n"
        f"# Changes belong in a drop-in, which stays: {edit}\n\n"
        f"{text}"
    )


def origin(text: str) -> Origin:
    """Whose a file with this text is."""
    header = _HEADER.match(text)
    if header is None:
        return Origin.FOREIGN
    same = hashlib.sha256(text[header.end() :].encode()).hexdigest() == header[1]
    return Origin.OURS if same else Origin.EDITED
