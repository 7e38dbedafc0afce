"""What an installation would stumble over later: projects that its user cannot write, logins and programs that are
elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence

from questlined.sysd.machine import Account, Machine
from questlined.wire.address import PLACES

LOGINS = (".claude", ".codex", ".gemini", ".pi")  # where agents keep theirs, below HOME
PROJECTS_MAX = 200

# Run as the user in question; one line for each that is amiss: what, a blank, the path. The directories of an agent
# prove no login, but without one there is none.
_LOOK = r"""
for path; do
    if [ ! -d "$path" ]; then echo "gone $path"
    elif [ ! -w "$path" ] || [ ! -x "$path" ]; then echo "unwritable $path"
    elif [ -e "$path/.git" ] && command -v git >/dev/null &&
        git -C "$path" rev-parse --git-dir 2>&1 >/dev/null | grep -q 'dubious ownership'; then echo "dubious $path"
    fi
done
"""
_PATH = "/usr/local/bin:/usr/bin:/bin"


def on_projects(machine: Machine, account: Account, paths: Sequence[str]) -> list[str]:
    """Warnings about the directories in which quests of this user's daemon run, or will."""
    wanted = [path for path in dict.fromkeys(paths) if "\n" not in path][:PROJECTS_MAX]
    if not wanted:
        return []
    environ = {"HOME": str(account.home), "PATH": _PATH, "LC_ALL": "C"}
    done = machine.run(["sh", "-c", _LOOK, "sh", *wanted], account=account, environ=environ)
    found: dict[str, list[str]] = {}
    for line in done.out.splitlines():
        what, _, path = line.partition(" ")
        found.setdefault(what, []).append(path)
    warnings = []
    if "unwritable" in found:
        warnings.append(f"{account.name} cannot write {_few(found['unwritable'])}: its agents could not work there")
    if "dubious" in found:
        paths_said = _few(found["dubious"])
        command = f"git config --global --add safe.directory {found['dubious'][0]}"
        warnings.append(
            f"git refuses {account.name} in {paths_said}, which somebody else owns: as {account.name}, {command}"
        )
    return warnings


def on_programs(commands: Iterable[str], here: str, service: str) -> list[str]:
    """Warnings about programs of executors that a shell with the PATH `here` finds, and a service with its own does
    not. Without a PATH nothing is known."""
    if not here or not service:
        return []
    warnings = []
    for name in sorted(set(commands)):
        found = shutil.which(name, path=here)
        if found and "/" not in name and shutil.which(name, path=service) is None:
            warnings.append(
                f"{found} is not on the PATH of the service ({service}): the quests of recurrences would not find it. "
                f"In the configuration, give {name} by its whole path, or set env.path"
            )
    return warnings


def on_variables(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """A warning where variables of this shell move the daemon, and are not the service's."""
    moved = [name for name in PLACES if ours.get(name) and ours[name] != theirs.get(name)]
    if not moved:
        return []
    them = ", ".join(moved)
    return [f"the service is at the usual places, as it does not see this shell's {them}: unset what is not meant"]


def on_two_services(account: Account) -> list[str]:
    """A warning where the user whom the system's service is to run as has one, too."""
    if not (account.home / ".config/systemd/user/questlined.service").exists():
        return []
    return [
        f"{account.name} has a user service of questlined as well, with a queue of its own, and their qlctl speaks to "
        f"that: one of the two is enough (as {account.name}: questlined uninstall --user)"
    ]


def on_logins(account: Account, caller: Account) -> list[str]:
    """A warning where the agents of `caller` are logged in, and those of the daemon's user are not."""
    if account.uid == caller.uid:
        return []
    missing = [name for name in LOGINS if (caller.home / name).is_dir() and not (account.home / name).is_dir()]
    if not missing:
        return []
    where = ", ".join(f"~/{name}" for name in missing)
    return [f"agents are logged in as {caller.name} ({where}), and not as {account.name}: log in there, too"]


def _few(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
