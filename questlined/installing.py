"""`questlined install` and `uninstall` on the command line: what was asked for, and what is told about it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from questlined.config import paths
from questlined.config.load import Loaded, load_from
from questlined.operations.reloading import group_of
from questlined.server.listener import admin_gid
from questlined.store.sqlite.looking import project_paths
from questlined.sysd import advice, install
from questlined.sysd.install import Report, Wanted
from questlined.sysd.machine import Account, Machine
from questlined.sysd.systemctl import Manager
from questlined.wire.address import PLACES
from questlined.wire.errors import InvalidInput, NotFound, QuestlineError

SYSTEM_STATE = Path("/var/lib/questlined")
SYSTEM_USER = "questline"  # of units/sysusers.d


def run(arguments: argparse.Namespace) -> int:
    """Carry out a subcommand; its exit status. Raises QuestlineError."""
    machine = this_machine()
    if arguments.command == "uninstall":
        return _uninstall(machine, arguments)
    run_as = _run_as(arguments, machine)
    manager = Manager(machine, user=run_as is None)
    account, report = run_as or machine.me, Report()
    config = _configuration(machine, manager, account)
    wanted = Wanted(run_as, not arguments.no_start, not arguments.no_linger, arguments.dry_run)
    try:
        install.install(machine, wanted, report)
    except QuestlineError:
        if report.done:
            _tell(report, "", as_json=arguments.json)
        raise
    report.warnings += _warnings(machine, manager, account, config)
    if report.fresh and not report.dry_run:
        report.notes += _next(machine, account, system=run_as is not None, started=wanted.start)
    _tell(report, "all is in place already; nothing was changed", as_json=arguments.json)
    if report.missing is not None:
        raise report.missing
    return 0


def _configuration(machine: Machine, manager: Manager, account: Account) -> Loaded:
    """What the service will read. Raises ConfigInvalid: it could not start with that."""
    loaded = load_from(_as_the_service(machine, manager), uid=account.uid)
    group_of(loaded, admin_gid)
    return loaded


def _as_the_service(machine: Machine, manager: Manager) -> dict[str, str]:
    """The variables by which its daemon finds its places."""
    theirs, places = manager.environment(), (*PLACES, "PATH")
    own = {name: value for name, value in machine.environ.items() if name not in (*places, "MANAGERPID")}
    found = own | {name: theirs[name] for name in places if name in theirs}
    return found if manager.user else found | {"STATE_DIRECTORY": str(SYSTEM_STATE)}


def _warnings(machine: Machine, manager: Manager, account: Account, config: Loaded) -> list[str]:
    environ = _as_the_service(machine, manager)
    executors = (config.config.executor, *config.config.executors.values())
    commands = [each.command[0] for each in executors if each.env_path is None]
    return [
        *(config.warnings if manager.user else advice.on_two_services(account)),
        *advice.on_variables(machine.environ, environ),
        *advice.on_programs(commands, machine.environ.get("PATH", ""), environ.get("PATH", "")),
        *advice.on_projects(machine, account, list(_projects(paths.state_directory(environ)))),
        *advice.on_logins(account, _caller(machine)),
    ]


def _uninstall(machine: Machine, arguments: argparse.Namespace) -> int:
    report = install.uninstall(machine, user=arguments.user, dry_run=arguments.dry_run)
    state = paths.state_directory(_as_the_service(machine, Manager(machine, user=arguments.user)))
    config = machine.user_units.parents[1] / "questlined" if arguments.user else paths.SYSTEM_CONFIG
    units = machine.user_units if arguments.user else machine.at("/etc/systemd/system")
    drop_ins = sorted(units.glob("questline*.d"))
    kept = [str(path) for path in (state, config, *drop_ins) if path.exists()]
    if not arguments.user:
        with contextlib.suppress(KeyError):
            kept.append(f"the user {pwd.getpwnam(SYSTEM_USER).pw_name} with its group")
    if kept:
        report.notes.append(f"what stays, to be removed by hand: {', '.join(kept)}")
    if arguments.user and install.lingers(machine, machine.me):
        report.notes.append("lingering stays, as other services may rely on it; off: loginctl disable-linger")
    _tell(report, "nothing of an install is there", as_json=arguments.json)
    return 0


def this_machine() -> Machine:
    """The real one."""
    return Machine(install.run, Account.of(pwd.getpwuid(os.geteuid())), dict(os.environ))


def _run_as(arguments: argparse.Namespace, machine: Machine) -> Account | None:
    name = arguments.run_as
    if arguments.user:
        if name is not None:
            raise InvalidInput(
                "--run-as goes with --system", hint="a user's own units run as that user", field="--run-as"
            )
        return None
    if name is None:
        caller = _caller(machine).name
        raise InvalidInput(
            "install --system needs --run-as USER: a system user could neither write people's checkouts nor read the "
            "logins of their agents",
            hint=f"--run-as {'USER' if caller == 'root' else caller}; for one person, install --user is simpler",
            field="--run-as",
        )
    try:
        return Account.of(pwd.getpwnam(name))
    except KeyError:
        raise NotFound(f"--run-as: there is no user {name}", hint="getent passwd lists them", id=name) from None


def _caller(machine: Machine) -> Account:
    """Who sits at the terminal, also behind sudo."""
    try:
        return Account.of(pwd.getpwnam(machine.environ.get("SUDO_USER", "")))
    except KeyError:
        return machine.me


def _projects(state: Path) -> Iterable[str]:
    """Where quests have run, and where they will: the checkout in which one installs."""
    yield from project_paths(state / "quests.sqlite")
    if Path(".git").exists():
        yield os.getcwd()


def _next(machine: Machine, account: Account, *, system: bool, started: bool) -> list[str]:
    """What a person types after the first installation."""
    qlctl = "qlctl" if shutil.which("qlctl") else shlex.quote(str(Path(sys.executable).with_name("qlctl")))
    journal, units = ("journalctl", "systemctl") if system else ("journalctl --user", "systemctl --user")
    whose = f", as {account.name}" if system else ""
    lines = [
        f"questlined runs{whose}, and will at every boot" if started else f"to start it now: {units} start questlined",
        f'a first quest, in the directory of a project: {qlctl} add "write unit tests for src/parser.py" --follow',
        f"its story: {journal} QUESTLINE_ID=q-...   that of the daemon: {journal} -u questlined",
        f'every night: {qlctl} recurring add nightly "0 3 * * *" "update the changelog"',
        f"woken for that by a timer of systemd: {qlctl} timer install nightly{' --system' if system else ''}",
    ]
    if not system and "XDG_RUNTIME_DIR" not in machine.environ:  # as in a shell of su or sudo
        lines.append(f"systemctl --user and journalctl need: export XDG_RUNTIME_DIR={machine.runtime_directory}")
    if system:
        lines.append("for others to use it: usermod -aG questline NAME, and a new login")
    return lines


def _tell(report: Report, nothing: str, *, as_json: bool) -> None:
    if as_json:
        told = {"done": report.done, "dryRun": report.dry_run, "warnings": report.warnings, "notes": report.notes}
        print(json.dumps(told, ensure_ascii=False))
        return
    for line in report.done:
        print(line)
    if not report.done and report.missing is None:
        print(nothing)
    for line in report.warnings:
        print(f"warning: {line}")
    for line in report.notes:
        print(line)
