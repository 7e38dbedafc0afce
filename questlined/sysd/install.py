"""`questlined install` and `uninstall`: units into place, known to systemd, enabled and started; and all of it undone.

A second run changes nothing. What somebody else wrote, or edited, is neither overwritten nor removed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import questlined
from questlined.sysd import placing, programs
from questlined.sysd.machine import Account, Done, Machine
from questlined.sysd.placing import NotOurs
from questlined.sysd.rendering import Origin, Rendered, render
from questlined.sysd.systemctl import Manager
from questlined.wire.address import state_socket
from questlined.wire.errors import InvalidInput, PermissionDenied, QuestlineError, Unavailable

SYSTEMD_MIN = 252
SOCKET, SERVICE, TIMER = "questlined.socket", "questlined.service", "questlined-backup.timer"
ENABLED = (SOCKET, SERVICE, TIMER)
TIMERS = "questline-recurring@*.timer"
ATTEMPTS = "questline-attempt-*"
APPLIED = {"sysusers.d": ("systemd-sysusers",), "tmpfiles.d": ("systemd-tmpfiles", "--create")}
PAST = {"write": "wrote", "remove": "removed", "run": "ran"}
RUN_S = 180.0  # longer than a service of ours takes to start or stop, but for a giant queue
MANAGER_S = 5.0
PAUSE_S = 0.05


class NotSetUp(QuestlineError):
    """Something that only somebody else can do is missing."""

    exit_status = 77


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for. `run_as` None means the user's own manager."""

    run_as: Account | None = None
    start: bool = True
    linger: bool = True
    dry_run: bool = False


@dataclass(slots=True)
class Report:
    """What was done (or would be, in a dry run), what to look at, and what comes next. `missing` is what only root can
    do."""

    done: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: NotSetUp | None = None
    fresh: bool = False
    dry_run: bool = False

    def do(self, verb: str, what: str, action: Callable[[], object]) -> None:
        """Do it, unless this is a dry run, and write it down. `verb` is one of PAST."""
        if self.dry_run:
            self.done.append(f"would {verb} {what}")
        else:
            action()
            self.done.append(f"{PAST[verb]} {what}")


def run(argv: Sequence[str], *, account: Account | None = None, environ: Mapping[str, str] | None = None) -> Done:
    """machine.Run, for real. Another user's program is run as that user, with that user's groups."""
    other = account is not None and account.uid != os.geteuid()
    groups = os.getgrouplist(account.name, account.gid) if account is not None and other else None
    try:
        done = subprocess.run(
            argv,
            stdin=None if environ is None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            env=environ,
            timeout=RUN_S,
            check=False,
            user=account.uid if account is not None and other else None,
            group=account.gid if account is not None and other else None,
            extra_groups=groups,
        )
    except OSError as error:
        return Done(127, "", f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Done(124, "", f"{argv[0]}: not done after {RUN_S:.0f} s")
    return Done(done.returncode, done.stdout, done.stderr)


def install(machine: Machine, wanted: Wanted, report: Report | None = None) -> Report:
    """See the module. Raises QuestlineError before anything is done, or where systemd refuses: what was done until
    then is in `report`."""
    report, manager = report or Report(), Manager(machine, user=wanted.run_as is None)
    report.dry_run = wanted.dry_run
    account = wanted.run_as or machine.me
    _check(machine, wanted)
    found = programs.find(machine, account)
    rendered = render(machine, found, wanted.run_as)
    writes, old = placing.to_write(rendered), placing.obsolete(rendered)
    if wanted.linger:
        _linger(machine, account, report)
    if not _reach(machine, manager, report):
        return report
    _refuse_other_daemon(machine, manager)
    new = {each.path.name for each in writes if not each.path.exists()}
    report.fresh = SERVICE in new
    upgraded = SERVICE not in new and any(each.path.name == SERVICE for each in writes)
    _place(machine, manager, writes, old, report)
    units = _units(manager, first=TIMER in new)
    _enable(manager, units, report)
    if wanted.start:
        _start(manager, units, report)
    older = upgraded or _of_another_version(machine, manager, found["qlctl"])
    if older and manager.ask("is-active", "--quiet", SERVICE).status == 0:
        report.notes.append(
            f"the daemon that runs is still the one from before: `qlctl reexec` replaces it and interrupts nothing "
            f"(or {manager.command} restart questlined)"
        )
    if not wanted.dry_run:
        _see_that_it_counts(manager, rendered, report)
    return report


def _check(machine: Machine, wanted: Wanted) -> None:
    """Raises where this cannot come to anything."""
    if not machine.there():
        raise Unavailable(
            "systemd does not run this machine",
            hint="questlined --detach starts the daemon in the background; `questlined` alone in the foreground",
        )
    if wanted.run_as is not None:
        if machine.me.uid != 0:
            raise PermissionDenied("install --system needs root", hint="run it with sudo", what="install --system")
        if wanted.run_as.uid == 0:
            raise InvalidInput(
                "--run-as: every agent would run as root",
                hint="name the person whose checkouts and logins the agents use",
                field="--run-as",
            )
    elif machine.me.uid == 0 and machine.environ.get("SUDO_USER", "root") != "root":
        raise InvalidInput(
            "install --user by sudo would set it up for root",
            hint=f"leave sudo out, or: install --system --run-as {machine.environ['SUDO_USER']}",
            field="--user",
        )


def lingers(machine: Machine, account: Account) -> bool:
    """Whether the user's manager runs without a login."""
    return machine.at(f"/var/lib/systemd/linger/{account.name}").exists()


def _linger(machine: Machine, account: Account, report: Report) -> None:
    """Have the user's manager run without a login; the report says what is missing where that needs root."""
    if lingers(machine, account):
        return
    command = f"loginctl enable-linger {account.name}"

    def enable() -> None:
        # without --no-ask-password it would ask for a password where a terminal is there, which is meant
        done = machine.run(command.split())
        if done.status:
            report.missing = NotSetUp(
                f"{account.name} does not linger: the daemon ends with the last login, and does not start at boot "
                f"({done.complaint})",
                hint=f"as root: {command}   (or go without: --no-linger)",
            )

    report.do("run", f"{command}   (the daemon runs without a login)", enable)
    if report.missing is not None:
        report.done.pop()


def _reach(machine: Machine, manager: Manager, report: Report) -> bool:
    """Whether the manager answers; in a dry run it need not. Raises Unavailable."""
    if manager.user and report.done and not report.dry_run:
        _await_manager(machine)  # lingering has just begun
    version = manager.version()
    if version is None:
        if report.dry_run:
            report.warnings.append(f"{manager.command} does not answer: what follows cannot be told before it does")
            return False
        raise _no_manager(machine, manager, report)
    number = re.match(r"\d+", version)
    if number and int(number[0]) < SYSTEMD_MIN:
        report.warnings.append(f"systemd {version} is older than {SYSTEMD_MIN}: nobody has tried these units with it")
    return True


def _await_manager(machine: Machine) -> None:
    """logind starts it and does not say when it is up."""
    private = machine.runtime_directory / "systemd/private"
    until = time.monotonic() + MANAGER_S
    while not private.exists() and time.monotonic() < until:
        time.sleep(PAUSE_S)


def _no_manager(machine: Machine, manager: Manager, report: Report) -> QuestlineError:
    if not manager.user:
        return Unavailable("systemctl does not answer", hint="systemctl status")
    name = machine.me.name
    if not machine.runtime_directory.exists():
        return Unavailable(
            f"the user manager of {name} does not run: {machine.runtime_directory} is not there",
            hint=f"as root: loginctl enable-linger {name}; or log in at the machine or by ssh: `su` is no login",
        )
    return report.missing or Unavailable(
        f"the user manager of {name} does not answer",
        hint=f"is dbus-user-session (or dbus) installed? As root: systemctl status user@{machine.me.uid}.service",
    )


def socket_path(machine: Machine, manager: Manager) -> Path:
    """Where clients reach the daemon."""
    base = machine.runtime_directory if manager.user else machine.at("/run")
    return base / "questlined/questlined.sock"


def _refuse_other_daemon(machine: Machine, manager: Manager) -> None:
    """A daemon that somebody has started by hand has the path of the socket unit, or the state. Raises Unavailable."""
    if any(manager.ask("is-active", "--quiet", unit).status == 0 for unit in (SOCKET, SERVICE)):
        return
    paths = [str(socket_path(machine, manager))]
    if manager.user:  # where it listens without XDG_RUNTIME_DIR
        paths.append(state_socket(dict(machine.environ)))
    for path in paths:
        if _listens(path):
            raise Unavailable(
                f"a questlined that was started by hand listens on {path}",
                hint="end it, then install again: its quests stay, and the service goes on with them",
            )


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _place(machine: Machine, manager: Manager, writes: list[Rendered], old: list[Path], report: Report) -> None:
    """Write and remove files, then have systemd read them."""
    for file in writes:
        report.do("write", f"{file.path}", partial(placing.write, file))
    for path in old:
        report.do("remove", f"{path}, which this version has no more", partial(placing.remove, path))
    for file in writes:
        command = APPLIED.get(file.path.parent.name)
        if command is not None:
            apply = partial(_apply, machine, command, file.path)
            report.do("run", f"{' '.join(command)} {file.path}", apply)
    # An install that was cut short, or somebody's drop-in, may not have been read yet.
    if writes or old or any(manager.shown(unit, "NeedDaemonReload") == "yes" for unit in ENABLED):
        report.do("run", f"{manager.command} daemon-reload", partial(manager.tell, "daemon-reload"))


def _apply(machine: Machine, command: Sequence[str], file: Path) -> None:
    """Have a file of ours carried out. Raises Unavailable; the file is gone then: the next install tries again."""
    done = machine.run([*command, str(file)])
    if done.status:
        placing.remove(file)
        raise Unavailable(f"{' '.join(command)} {file}: {done.complaint}", hint="mend that, and install again")


def _units(manager: Manager, *, first: bool) -> list[str]:
    """Those to enable and start. The backup is turned on at first, or where an earlier install has not come so far;
    whoever turned it off meant that."""
    on = {unit for unit in (SOCKET, TIMER) if manager.ask("is-enabled", "--quiet", unit).status == 0}
    return [unit for unit in ENABLED if unit != TIMER or first or SOCKET not in on or TIMER in on]


def _enable(manager: Manager, units: Sequence[str], report: Report) -> None:
    states = {unit: manager.ask("is-enabled", unit).out.strip() for unit in units}
    masked = [unit for unit, state in states.items() if state.startswith("masked")]
    if masked:
        raise NotOurs(f"{', '.join(masked)}: masked", hint=f"{manager.command} unmask {' '.join(masked)}")
    off = [unit for unit, state in states.items() if state != "enabled"]
    if off:
        report.do("run", f"{manager.command} enable {' '.join(off)}", partial(manager.tell, "enable", *off))


def _start(manager: Manager, units: Sequence[str], report: Report) -> None:
    down = [unit for unit in units if manager.ask("is-active", "--quiet", unit).status]
    failed = [unit for unit in down if manager.ask("is-failed", "--quiet", unit).status == 0]
    if failed:  # after too many starts systemd would refuse this one, too
        words = ("reset-failed", *failed)
        report.do("run", f"{manager.command} {' '.join(words)}", partial(manager.tell, *words))
    for unit in down:  # the socket first: a service that runs already keeps it from starting
        report.do("run", f"{manager.command} start {unit}", partial(manager.tell, "start", unit))


def _of_another_version(machine: Machine, manager: Manager, qlctl: Sequence[str]) -> bool:
    """Whether the daemon that runs is not the program that is installed; False where none answers."""
    asked = machine.run([*qlctl, f"--socket={socket_path(machine, manager)}", "version", "--json"])
    try:
        return bool(json.loads(asked.out)["daemon"]["version"] != questlined.__version__)
    except (ValueError, TypeError, KeyError):
        return False


def _see_that_it_counts(manager: Manager, rendered: Sequence[Rendered], report: Report) -> None:
    """Another folder may come first for the manager, and XDG_CONFIG_HOME be another there."""
    ours = next(each.path for each in rendered if each.path.name == SERVICE)
    used = manager.shown(SERVICE, "FragmentPath")
    if used != str(ours):
        report.warnings.append(f"systemd uses {used or 'no file'} for {SERVICE}, and not {ours}")


def uninstall(machine: Machine, *, user: bool, dry_run: bool = False) -> Report:
    """Stop and disable the units, remove the files that an install wrote and nobody has edited. Quests, configuration,
    drop-ins and lingering stay. Raises QuestlineError."""
    report, manager = Report(dry_run=dry_run), Manager(machine, user=user)
    if not user and machine.me.uid != 0:
        raise PermissionDenied("uninstall --system needs root", hint="run it with sudo", what="uninstall --system")
    found = placing.written(_folders(machine, user=user))
    ours = [path for path, whose in found if whose is Origin.OURS]
    report.warnings += [f"{path} was edited, and stays" for path, whose in found if whose is Origin.EDITED]
    whose = ""
    if ours:
        if machine.there():
            if manager.version() is None:
                raise _no_manager(machine, manager, report)
            whose = "" if user else manager.shown(SERVICE, "User")
            _stop(manager, [path.name for path in ours], report)
        for path in ours:
            report.do("remove", f"{path}", partial(placing.remove, path))
        if machine.there():
            report.do("run", f"{manager.command} daemon-reload", partial(manager.tell, "daemon-reload"))
    _say_what_stays(machine, manager, whose, report)
    return report


def _folders(machine: Machine, *, user: bool) -> list[Path]:
    if user:
        return [machine.user_units]
    return [machine.at(f"/etc/{name}") for name in ("systemd/system", "sysusers.d", "tmpfiles.d")]


def _stop(manager: Manager, names: Sequence[str], report: Report) -> None:
    running = manager.ask("is-active", "--quiet", SERVICE).status == 0
    units = [unit for unit in ENABLED if unit in names]
    on = [
        unit
        for unit in units
        if manager.ask("is-active", "--quiet", unit).status == 0
        or manager.ask("is-enabled", "--quiet", unit).status == 0
    ]
    if on:
        report.do(
            "run", f"{manager.command} disable --now {' '.join(on)}", partial(manager.tell, "disable", "--now", *on)
        )
    if running and not report.dry_run:
        report.notes.append("what ran in the daemon was interrupted, and runs again when a daemon has the queue")


def _say_what_stays(machine: Machine, manager: Manager, whose: str, report: Report) -> None:
    """`whose` is the user of a system service, in whose own manager its attempts may go on."""
    units = _folders(machine, user=manager.user)[0]
    timers = sorted(path.stem.partition("@")[2] for path in units.glob(TIMERS))
    if timers:
        remove = f"qlctl timer remove {'' if manager.user else '--system '}{' '.join(timers)}"
        report.warnings.append(f"timers of recurring quests stay, and fail from now on: {remove}")
    if machine.there():
        theirs = Manager(machine, user=manager.user, machine_of=whose)
        if theirs.ask("list-units", "--plain", "--no-legend", ATTEMPTS).out.strip():
            stop = f"{theirs.command} stop '{ATTEMPTS}'"
            report.warnings.append(f"attempts in units of their own go on; this ends them: {stop}")
