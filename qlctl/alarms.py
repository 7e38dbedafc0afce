"""Timer units of recurring quests on disk: found, written and removed. Files of others are never touched."""

from __future__ import annotations

import os

from qlctl.codec import Malformed, decode
from qlctl.systemctl import Manager, SystemdRefused
from questlined.wire.errors import Ambiguous, NotFound

PREFIX, SUFFIX = "questline-recurring@", ".timer"
SERVICE = f"{PREFIX}.service"
MARK = "# Written by qlctl timer install."
SECTION = "[X-Questline]"
KEYS = (
    "Description", "OnCalendar", "Persistent", "AccuracySec", "RandomizedDelaySec", "WantedBy", "Recurrence", "Name",
    "Project",
)  # fmt: skip


class Alarm:
    """An installed timer: its unit, and whose it is."""

    __slots__ = ("id", "name", "path", "project", "unit")

    def __init__(self, path: str, text: str) -> None:
        self.path, self.unit = path, os.path.basename(path)
        told = _told(text)
        self.id = told.get("Recurrence") or self.unit[len(PREFIX) : -len(SUFFIX)]
        self.name, self.project = told.get("Name", ""), told.get("Project", "")


def _told(text: str) -> dict[str, str]:
    """The lines of the last section: JSON strings by key."""
    told = {}
    for line in text.partition(SECTION)[2].splitlines():
        key, _, value = line.partition("=")
        try:
            told[key] = str(decode(value))
        except Malformed:
            continue
    return told


def installed(manager: Manager) -> list[Alarm]:
    """The timers that `write` has written, by file name."""
    try:
        names = sorted(os.listdir(manager.folder))
    except FileNotFoundError:
        return []
    paths = [os.path.join(manager.folder, name) for name in names if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    return [Alarm(path, text) for path in paths if (text := _ours(path)) is not None]


def chosen(manager: Manager, word: str) -> Alarm:
    """The timer of a rule's id or name. Raises NotFound, Ambiguous."""
    there = installed(manager)
    found = [alarm for alarm in there if word in (alarm.id, alarm.unit)] or [
        alarm for alarm in there if alarm.name == word
    ]
    if len(found) > 1:
        ids = [alarm.id for alarm in found]
        raise Ambiguous(f"{word} has {len(found)} timers", hint=f"give the id: {', '.join(ids)}", id=word)
    if not found:
        raise NotFound(f"{word} has no timer in {manager.folder}", hint="qlctl timer list shows those there are")
    return found[0]


def left_of(rule: str) -> list[tuple[str, str]]:
    """The files of a rule's timers, the user's and the system's, and the option that names whose each is."""
    managers = ((Manager(system=False), ""), (Manager(system=True), " --system"))
    paths = [(os.path.join(manager.folder, f"{PREFIX}{rule}{SUFFIX}"), option) for manager, option in managers]
    return [(path, option) for path, option in paths if os.path.exists(path)]


def write(manager: Manager, unit: str, text: str) -> Alarm:
    """Write a unit file, whole or not at all. Raises SystemdRefused for a file that is not ours, and for what no daemon
    of questline says: root writes it for the daemon of another user."""
    if "/" in unit or not (unit.startswith(PREFIX) and unit.endswith(SUFFIX)) or not _plain(text):
        raise SystemdRefused(
            f"{unit[:100]!r} of the daemon's answer is no timer of a recurring quest, and was not written",
            hint="are qlctl and questlined of one version?",
        )
    path = os.path.join(manager.folder, unit)
    if os.path.lexists(path) and _ours(path) is None:
        raise SystemdRefused(
            f"{path} is there, and was not written by qlctl timer install",
            hint=f"look at it, and move it away: systemctl {manager.option} cat {unit}",
        )
    new = f"{path}.{os.getpid()}.new"  # no name of a unit, so that systemd does not see it
    try:
        os.makedirs(manager.folder, exist_ok=True)
        with open(new, "x", encoding="utf-8", opener=_for_everybody) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException as error:
        if os.path.exists(new):
            os.unlink(new)
        if isinstance(error, PermissionError):
            hint = "as root, for --system" if manager.system else "is that directory yours?"
            raise SystemdRefused(f"{manager.folder} cannot be written", hint=hint) from None
        raise
    return Alarm(path, text)


def _plain(text: str) -> bool:
    """Whether a unit's text has nothing but what a timer of ours has: it could start or stop other units with more."""
    lines = [line.strip() for line in text.splitlines()]
    return all(line[:1] in ("", "#", "[") or line.partition("=")[0].strip() in KEYS for line in lines)


def _for_everybody(path: str, flags: int) -> int:
    return os.open(path, flags, 0o644)


def _ours(path: str) -> str | None:
    """The text of a file that we have written, None for any other."""
    if os.path.islink(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(1024 * 1024)
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.startswith(MARK) else None
