"""Properties of units, `executor.properties`: which ones an attempt may have, and what each means on the bus.

Names and values are those of systemd.exec(5) and systemd.resource-control(5). One that is unknown or wrong is refused
when the file is read, and not when a quest is to start.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from questlined.config.kinds import Setting, Wrong, closest, type_name
from questlined.config.sizes import parse_size
from questlined.config.spans import parse_span

Assignment = tuple[str, tuple[str, Any]]  # a name on the bus, a D-Bus signature and its value
Assignments = tuple[Assignment, ...]

PROJECT: Final = "{project}"  # in a path: the directory of the quest's project
INFINITY: Final = 2**64 - 1
_SCALE: Final = 2**32 - 1
_PERCENT: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,2})?)%")
_ACCOUNT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,30}|[0-9]{1,10}")
_SYSTEM_CALL: Final = re.compile(r"[a-z0-9_]+(?::(?:[A-Z0-9]+|[0-9]{1,4}|kill|log))?")
_GROUPS: Final = """aio basic-io chown clock cpu-emulation debug default file-system io-event ipc keyring known memlock
module mount network-io obsolete pkey privileged process raw-io reboot resources sandbox setuid signal swap sync
system-service timer"""
_CALL_GROUPS: Final = frozenset(f"@{name}" for name in _GROUPS.split())
_FAMILIES: Final = frozenset(name for name in dir(socket) if name.startswith("AF_"))
_NAMESPACES: Final = {"mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
                      "pid": 0x20000000, "net": 0x40000000}  # fmt: skip
_WEIGHT, _NICE, _OOM_SCORE, _IO_PRIORITY = (1, 10_000), (-20, 19), (-1000, 1000), (0, 7)

Reader = Callable[[str, object], Assignments]


def properties(value: object, setting: Setting) -> dict[str, Assignments]:
    """Properties of systemd's units, by name."""
    if not isinstance(value, Mapping):
        raise Wrong(f"it is {type_name(value)}, not a table", hint="write it as [executor.properties]")
    read = {}
    for name, given in value.items():
        try:
            read[name] = _reader(name)(name, given)
        except Wrong as wrong:
            wrong.below = (name,)
            raise
    return read


def _reader(name: str) -> Reader:
    found = TABLE.get(name)
    if found is not None:
        return found
    if name in TAKEN:
        raise Wrong("questlined sets this one itself", hint=TAKEN[name])
    near = closest(name, TABLE)
    raise Wrong("unknown property", hint="" if near else "questlined.toml(5) lists those that can be set",
                suggestion=near)  # fmt: skip


def _flag(name: str, value: object) -> Assignments:
    if not isinstance(value, bool):
        raise Wrong(f"it is {type_name(value)}, not true or false")
    return ((name, ("b", value)),)


def _whole(low: int, high: int, signature: str) -> Reader:
    def read(name: str, value: object) -> Assignments:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Wrong(f"it is {type_name(value)}, not a whole number")
        if not low <= value <= high:
            raise Wrong(f"it is not between {low} and {high}")
        return ((name, (signature, value)),)

    return read


def _words(*words: str) -> Reader:
    """One of these; true and false stand for yes and no, where those are among them."""

    def read(name: str, value: object) -> Assignments:
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if not isinstance(value, str) or value not in words:
            near = closest(value, words) if isinstance(value, str) else None
            raise Wrong(f"it is not one of {', '.join(words)}", suggestion=near)
        return ((name, ("s", value)),)

    return read


def _numbered(**words: int) -> Reader:
    """One of these words, each a number on the bus."""
    check = _words(*words)

    def read(name: str, value: object) -> Assignments:
        ((_, (_, word)),) = check(name, value)
        return ((name, ("i", words[word])),)

    return read


def _amount(name: str, value: object) -> Assignments:
    """Bytes, a share of the machine's memory, or no bound."""
    if value == "infinity":
        return ((name, ("t", INFINITY)),)
    if isinstance(value, str) and (share := _PERCENT.fullmatch(value)):
        return ((f"{name}Scale", ("u", _scaled(share[1]))),)
    return ((name, ("t", _size(value))),)


def _tasks(name: str, value: object) -> Assignments:
    if isinstance(value, str):
        return _amount(name, value)
    return _whole(1, INFINITY - 1, "t")(name, value)


def _scaled(percent: str) -> int:
    if float(percent) > 100:
        raise Wrong("it is above 100%")
    return round(float(percent) * _SCALE / 100)


def _quota(name: str, value: object) -> Assignments:
    share = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if share is None or float(share[1]) <= 0:
        raise Wrong("it is no share of processors", hint='write "50%" for half of one, "200%" for two')
    return ((f"{name}PerSecUSec", ("t", max(1, round(float(share[1]) * 10_000)))),)


def _time(name: str, value: object) -> Assignments:
    milliseconds = _span(value)
    if milliseconds == 0:
        raise Wrong("it is 0", hint="leave the key out to have no bound")
    return ((name.removesuffix("Sec") + "USec", ("t", milliseconds * 1000)),)


def _limit(read: Callable[[object], int]) -> Reader:
    """A resource limit: one value, or "soft:hard"."""

    def assign(name: str, value: object) -> Assignments:
        soft, hard = value, value
        if isinstance(value, str) and ":" in value:
            soft, _, hard = value.partition(":")
        limits = [INFINITY if each == "infinity" else read(each) for each in (soft, hard)]
        if limits[0] > limits[1]:
            raise Wrong("its soft limit is above its hard one")
        return ((name, ("t", limits[1])), (f"{name}Soft", ("t", limits[0])))

    return assign


def _number(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value.strip()):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < INFINITY:
        raise Wrong("it is no number of things", hint='write a number, "infinity", or "soft:hard"')
    return value


def _size(value: object) -> int:
    try:
        size = parse_size(value)
    except ValueError as error:
        raise _wrong_from(error) from None
    if not 0 <= size < INFINITY:
        raise Wrong("it is out of range", hint='write "infinity" for no bound')
    return size


def _span(value: object) -> int:
    try:
        return parse_span(value)
    except ValueError as error:
        raise _wrong_from(error) from None


def _seconds(value: object) -> int:
    return -(-_span(value) // 1000)


def _paths(name: str, value: object) -> Assignments:
    return ((name, ("as", [_path(each) for each in _list(value, split=False)])),)


def _path(given: str) -> str:
    """An absolute path; `-` before it: it may be absent; `~/` is the home directory, {project} the project's."""
    mark, path = ("-", given[1:]) if given.startswith("-") else ("", given)
    path = os.path.expanduser(path)
    rest = path.removeprefix(PROJECT)
    if not (os.path.isabs(path) or (rest != path and rest[:1] in {"", "/"})) or "{" in rest:
        raise Wrong(f"{given[:80]!r} is no absolute path", hint=f"begin it with /, ~/ or {PROJECT}")
    if ".." in path.split("/") or "\0" in path:
        raise Wrong(f"{given[:80]!r} is no plain path", hint="write it without ..")
    return mark + path


def _binds(name: str, value: object) -> Assignments:
    binds = []
    for each in _list(value, split=False):
        source, colon, target = each.partition(":")
        there = _path(target if colon else source)
        binds.append((_path(source).removeprefix("-"), there.removeprefix("-"), source.startswith("-"), 0x4000))
    return ((name, ("a(ssbt)", binds)),)


def _call_filter(name: str, value: object) -> Assignments:
    allow, calls = _signed(value)
    for call in calls:
        if call.startswith("@") and call not in _CALL_GROUPS:
            raise Wrong(f"{call[:80]} is no group of system calls", suggestion=closest(call, _CALL_GROUPS))
        if not call.startswith("@") and not _SYSTEM_CALL.fullmatch(call):
            raise Wrong(f"{call[:80]!r} is no system call", hint="systemd-analyze syscall-filter lists them")
    return ((name, ("(bas)", (allow, calls))),)


def _families(name: str, value: object) -> Assignments:
    allow, families = _signed(value)
    if families == ["none"]:
        return ((name, ("(bas)", (True, []))),)
    for family in families:
        if family not in _FAMILIES:
            raise Wrong(f"{family[:80]!r} is no address family", suggestion=closest(family, _FAMILIES))
    return ((name, ("(bas)", (allow, families))),)


def _signed(value: object) -> tuple[bool, list[str]]:
    """Whether what is listed is allowed, or with `~` before the first refused."""
    items = _list(value, split=True)
    refused = bool(items) and items[0].startswith("~")
    if refused:
        items[0] = items[0][1:]
    if not all(items):
        raise Wrong("an item of it is empty")
    return not refused, items


def _namespaces(name: str, value: object) -> Assignments:
    """true: none may be made; false: all; else those listed."""
    if isinstance(value, bool):
        return ((name, ("t", 0 if value else sum(_NAMESPACES.values()))),)
    kinds = _list(value, split=True)
    for kind in kinds:
        if kind not in _NAMESPACES:
            known = ", ".join(sorted(_NAMESPACES))
            raise Wrong(f"{kind[:80]!r} is no kind of namespace", hint=f"known: {known}")
    return ((name, ("t", sum({kind: _NAMESPACES[kind] for kind in kinds}.values()))),)


def _architectures(name: str, value: object) -> Assignments:
    items = _list(value, split=True)
    for item in items:
        if not re.fullmatch(r"[a-z0-9-]+", item):
            raise Wrong(f"{item[:80]!r} is no architecture", hint='"native" is this machine\'s')
    return ((name, ("as", items)),)


def _account(name: str, value: object) -> Assignments:
    value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(value, str) or not _ACCOUNT.fullmatch(value):
        raise Wrong("it is no name of an account")
    if value in {"root", "0"}:
        raise Wrong("attempts are not run by root", hint="name an account that has no rights of its own")
    return ((name, ("s", value)),)


def _accounts(name: str, value: object) -> Assignments:
    named = [_account(name, each) for each in _list(value, split=True)]
    return ((name, ("as", [account for ((_, (_, account)),) in named])),)


def _list(value: object, *, split: bool) -> list[str]:
    """An array of texts, or one text: with `split` that is several words."""
    if isinstance(value, str):
        return value.split() if split else [value]
    if not isinstance(value, list):
        raise Wrong(f"it is {type_name(value)}, not an array of texts")
    for item in value:
        if not isinstance(item, str):
            raise Wrong(f"an item of it is {type_name(item)}, not text", hint="put it in quotes")
    return list(value)


def _wrong_from(error: ValueError) -> Wrong:
    message, _, hint = str(error).rpartition(": ")
    return Wrong(message, hint=hint)


def _each(reader: Reader, names: str) -> Iterable[tuple[str, Reader]]:
    return ((name, reader) for name in names.split())


TABLE: Final[Mapping[str, Reader]] = {
    **dict(_each(_amount, "MemoryMax MemoryHigh MemoryLow MemoryMin MemorySwapMax")),
    "TasksMax": _tasks,
    "CPUQuota": _quota,
    **dict(_each(_whole(*_WEIGHT, "t"), "CPUWeight IOWeight")),
    "RuntimeMaxSec": _time,
    **dict(_each(_limit(_number), "LimitNOFILE LimitNPROC LimitNICE LimitLOCKS LimitSIGPENDING")),
    **dict(_each(_limit(_size), "LimitFSIZE LimitDATA LimitSTACK LimitCORE LimitRSS LimitAS LimitMEMLOCK")),
    "LimitCPU": _limit(_seconds),
    "Nice": _whole(*_NICE, "i"),
    "OOMScoreAdjust": _whole(*_OOM_SCORE, "i"),
    "CPUSchedulingPolicy": _numbered(other=0, batch=3, idle=5),
    "IOSchedulingClass": _numbered(**{"best-effort": 2, "idle": 3}),
    "IOSchedulingPriority": _whole(*_IO_PRIORITY, "i"),
    "ProtectSystem": _words("yes", "no", "full", "strict"),
    "ProtectHome": _words("yes", "no", "read-only", "tmpfs"),
    "ProtectProc": _words("default", "noaccess", "invisible", "ptraceable"),
    "ProcSubset": _words("all", "pid"),
    **dict(_each(_flag, "PrivateTmp PrivateDevices PrivateNetwork PrivateUsers PrivateIPC NoNewPrivileges")),
    **dict(_each(_flag, "ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectControlGroups")),
    **dict(_each(_flag, "ProtectClock ProtectHostname RestrictSUIDSGID RestrictRealtime LockPersonality")),
    "MemoryDenyWriteExecute": _flag,
    **dict(_each(_paths, "ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths")),
    **dict(_each(_binds, "BindPaths BindReadOnlyPaths")),
    "RestrictNamespaces": _namespaces,
    "RestrictAddressFamilies": _families,
    "SystemCallFilter": _call_filter,
    "SystemCallArchitectures": _architectures,
    **dict(_each(_account, "User Group")),
    "SupplementaryGroups": _accounts,
}

# What an attempt's unit has anyway → where it is set.
TAKEN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ExecStart", "ExecStopPost", "Type", "ExitType", "KillMode", "Restart", "Slice", "Delegate",
                     "OOMPolicy", "RemainAfterExit", "CollectMode", "Description"),
                    "an attempt could not be told by its unit else"),
    **dict.fromkeys(("StandardInput",), "see stdin"),
    **dict.fromkeys(("StandardOutput", "StandardError"), "output goes to the attempt's files"),
    "WorkingDirectory": "it is the project's directory",
    "UMask": "see umask",
    "TimeoutStopSec": "see terminate_grace",
    **dict.fromkeys(("Environment", "EnvironmentFile"), "see env.set"),
    "PassEnvironment": "see env.pass",
    "UnsetEnvironment": "the environment holds nothing but what env.set, env.pass and the manual name",
    **dict.fromkeys(("MemoryAccounting", "CPUAccounting", "TasksAccounting", "IOAccounting"), "they are on"),
}  # fmt: skip
