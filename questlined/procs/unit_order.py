"""From a command to the properties of the transient unit that runs it, with exactly its argv and environment."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from questlined.core.ids import attempt_name
from questlined.procs import unit_record
from questlined.procs.spawn import Command
from questlined.procs.systemd import Property

SLICE: Final = "questline.slice"
# How long systemd waits beyond the grace before it kills by itself: the daemon is quicker, and may be away.
RESERVE_S: Final = 10
# So large may argv be: systemd reads what it wrote down of a unit again at a daemon-reload, and a line ends there.
ARGV_MAX: Final = 900_000
_OOM_SCORE: Final = 200
_PREFIX: Final = "questline-attempt-"
_DESCRIPTION: Final = "questline attempt "
_VARIABLES: Final = "variables"

# What systemd itself gives a unit, besides what its manager was told to.
_GIVEN: Final = frozenset(
    """CREDENTIALS_DIRECTORY DEBUG_INVOCATION HOME INVOCATION_ID JOURNAL_STREAM LISTEN_FDNAMES LISTEN_FDS LISTEN_PID
    LOGNAME MANAGERPID MANAGERPIDFDID MEMORY_PRESSURE_WATCH MEMORY_PRESSURE_WRITE NOTIFY_SOCKET PIDFILE SHELL
    SYSTEMD_EXEC_PID TERM USER WATCHDOG_PID WATCHDOG_USEC XDG_RUNTIME_DIR""".split()  # noqa: SIM905
)
_OF_ACCOUNT: Final = frozenset({"HOME", "LOGNAME", "SHELL", "USER"})
# A user's manager ignores each of these in silence, unless the unit has a user namespace of its own.
_NEED_USERNS: Final = frozenset(
    """BindPaths BindReadOnlyPaths ExecPaths InaccessiblePaths NoExecPaths PrivateDevices PrivateIPC PrivateNetwork
    PrivateTmp ProcSubset ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs
    ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem ReadOnlyPaths ReadWritePaths""".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Order:
    """A unit to be started. `properties` come from the configuration; `directory` is the attempt's, its marker too."""

    name: str
    marker: str
    command: Command
    directory: Path
    grace_s: float
    properties: Sequence[Property] = ()


def name_of(quest: str, generation: int) -> str:
    """The unit of an attempt: its name is the fence, no second one can have it."""
    return f"{_PREFIX}{attempt_name(quest, generation)}.service"


PATTERN: Final = f"{_PREFIX}*.service"


def marker_in(description: str) -> str | None:
    """The marker of the attempt whose unit is described so; None if it is none of ours."""
    return description.removeprefix(_DESCRIPTION) if description.startswith(_DESCRIPTION) else None


def stage(order: Order) -> None:
    """Write the files that the unit is started with. Blocks. Raises OSError."""
    unit_record.prepare(order.directory)
    unstage(order.directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(order.directory / _VARIABLES, flags, 0o600), "w", encoding="utf-8", newline="\n") as file:
        file.write(environment_text(order.command.env))


def unstage(directory: Path) -> None:
    """Remove what holds secrets: the unit has it by now, or will never need it. Blocks."""
    (directory / _VARIABLES).unlink(missing_ok=True)


def properties(order: Order, inherited: Iterable[str], *, own_user: bool, now_s: float) -> list[Property]:
    """What StartTransientUnit takes. `inherited` names what its manager would add to its environment; `own_user`: the
    manager is an ordinary user's; `now_s` is the uptime."""
    command, chosen = order.command, dict(order.properties)
    if own_user and _NEED_USERNS & chosen.keys():
        chosen["PrivateUsers"] = ("b", True)
    record, environment = str(order.directory / unit_record.NAME), str(order.directory / _VARIABLES)
    deadline_s = now_s + chosen["RuntimeMaxUSec"][1] / 1_000_000 if "RuntimeMaxUSec" in chosen else 0
    # Of another account systemd knows better than we who it is and where it lives.
    theirs = _OF_ACCOUNT if "User" in chosen and not own_user else frozenset()
    ours: dict[str, tuple[str, object]] = {
        "Description": ("s", f"{_DESCRIPTION}{order.marker}"),
        "Slice": ("s", SLICE),
        "Type": ("s", "exec"),  # started means that exec has succeeded
        "ExitType": ("s", "main"),
        "CollectMode": ("s", "inactive"),  # one that failed is kept, with how it ended
        "AddRef": ("b", True),  # and one that did not, as long as we are there
        "KillMode": ("s", "control-group"),
        "OOMPolicy": ("s", "kill"),
        "TimeoutStopUSec": ("t", round((order.grace_s + RESERVE_S) * 1_000_000)),
        "UMask": ("u", command.umask),
        "WorkingDirectory": ("s", command.cwd),
        "StandardInputFileDescriptor": ("h", command.stdin),
        # Descriptors: a path would be opened by the manager, which may be root and would follow a link.
        "StandardOutputFileDescriptor": ("h", command.stdout),
        "StandardErrorFileDescriptor": ("h", command.stderr),
        "ExecStart": ("a(sasb)", [(_plain(command.argv[0]), [_literal(word) for word in command.argv], False)]),
        "ExecStop": ("a(sasb)", [("/bin/sh", ["/bin/sh", _literal(record), unit_record.STOP], False)]),
        "ExecStopPost": ("a(sasb)", [("/bin/sh", ["/bin/sh", _literal(record), f"{deadline_s:.2f}"], False)]),
        # The sandbox and the account are the attempt's: its record is written where those may not.
        "PermissionsStartOnly": ("b", True),
        # Variables may be secret, and properties can be read by everybody. The file is gone once the unit runs; it may
        # be absent, for ExecStopPost= would have to find it else.
        "EnvironmentFiles": ("a(sb)", [(_no_pattern(environment), True)]),
        "UnsetEnvironment": ("as", sorted((_GIVEN | set(inherited)) - command.env.keys() - theirs)),
        "CPUAccounting": ("b", True),
        "MemoryAccounting": ("b", True),
        "TasksAccounting": ("b", True),
        "OOMScoreAdjust": ("i", _OOM_SCORE),
    }
    return list((ours | chosen).items())


def unfit(order: Order) -> str | None:
    """Why no unit can be made of this, None if one can."""
    command = order.command
    texts = [("an argument", word) for word in command.argv]
    for what, text in (*texts, ("its directory", command.cwd), ("the artifacts' directory", str(order.directory))):
        if not _is_utf8(text):
            return f"{what} is not UTF-8, which no unit takes"
    if sum(len(word.encode()) for word in command.argv) > ARGV_MAX:
        return f'its arguments have more than {ARGV_MAX} bytes together; let it read them: stdin = "prompt"'
    for name, value in command.env.items():
        if not _is_utf8(value) or _CONTROL.search(value):
            return f"variable {name} holds a control character or is not UTF-8, which no unit takes"
    return None


def exposed(directory: Path) -> str | None:
    """Who besides root could change what systemd is to run as root there, None if nobody can. Blocks."""
    real = Path(os.path.realpath(directory))
    for folder in (real, *real.parents):
        status = os.stat(folder)
        writers = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0)
        if status.st_uid != 0 or (status.st_mode & writers and not status.st_mode & stat.S_ISVTX):
            return f"systemd would run a script as root from {directory}, and others may change {folder}"
    return None


def environment_text(variables: Mapping[str, str]) -> str:
    """A file for EnvironmentFile= that gives exactly these."""
    return "".join(f'{name}="{_QUOTED.sub(_BACKSLASH, value)}"\n' for name, value in variables.items())


_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_QUOTED: Final = re.compile(r'["\\`$]')
_BACKSLASH: Final = r"\\\g<0>"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _literal(word: str) -> str:
    """A word of a command that systemd does not expand. (The flag no-env-expand is lost at a daemon-reload in 252.)"""
    return word.replace("$", "$$")


def _plain(program: str) -> str:
    """The program's path as systemd takes it, without `..`: under its own name, by which a program may know what it is
    to do; argv keeps what was written."""
    if ".." not in program.split("/") and "//" not in program:
        return program
    folder, name = os.path.split(program)
    return os.path.join(os.path.realpath(folder), name)


def _no_pattern(path: str) -> str:
    return re.sub(r"[*?\[\\]", _BACKSLASH, path)
