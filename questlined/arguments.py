"""The command line of `questlined`: its options and subcommands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from questlined import __version__

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def parser() -> argparse.ArgumentParser:
    """The command line, for use, help and the manual."""
    options = argparse.ArgumentParser(
        prog="questlined", description="A durable work queue for command-line coding agents.", allow_abbrev=False
    )
    options.add_argument("--socket", metavar="PATH", help="listen there instead of the usual place")
    options.add_argument("--config", metavar="FILE", help="read this file instead of the usual ones")
    options.add_argument("--state", metavar="DIR", help="keep the state there instead of the usual place")
    options.add_argument(
        "--detach", action="store_true", help="leave the terminal; return when the daemon is ready or has failed"
    )
    options.add_argument("--check-handover", metavar="FORMAT", help=argparse.SUPPRESS)  # for questlined.reexec
    options.add_argument("--version", action="version", version=f"questlined {__version__}")
    commands = options.add_subparsers(dest="command", metavar="COMMAND")
    _demo(commands)
    _install(commands)
    _uninstall(commands)
    return options


def _demo(commands: Subparsers) -> None:
    demo = commands.add_parser("demo", help="show the main job on a temporary daemon", allow_abbrev=False)
    demo.add_argument("--agent", metavar="NAME", help="use this agent (claude) instead of a shell command")
    demo.add_argument("--json", action="store_true", help="print the quests as they ended as one JSON value")
    _of_qlctl(demo)


def _install(commands: Subparsers) -> None:
    install = commands.add_parser(
        "install",
        help="set up the systemd units of this installation",
        description="Write questlined's units for systemd, enable and start them. A second run changes nothing.",
        allow_abbrev=False,
    )
    _manager(install)
    install.add_argument("--run-as", metavar="USER", help="with --system: whose daemon it is, never root")
    install.add_argument("--no-start", action="store_true", help="enable the units, and start nothing now")
    install.add_argument("--no-linger", action="store_true", help="leave the user's lingering as it is")
    install.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    install.add_argument("--json", action="store_true", help="print what was done as one JSON value")
    _of_qlctl(install)


def _uninstall(commands: Subparsers) -> None:
    uninstall = commands.add_parser(
        "uninstall",
        help="remove what install wrote",
        description="Stop and disable questlined's units and remove them. Quests and configuration stay.",
        allow_abbrev=False,
    )
    _manager(uninstall)
    uninstall.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    uninstall.add_argument("--json", action="store_true", help="print what was done as one JSON value")
    _of_qlctl(uninstall)


def _manager(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--user", action="store_true", help="the units of your own user manager")
    which.add_argument("--system", action="store_true", help="the units of the whole machine; needs root")


def _of_qlctl(command: argparse.ArgumentParser) -> None:
    """qlctl takes these with every verb, and hands them on; a subcommand that needs no daemon refuses them."""
    for name in ("--socket", "--project"):
        command.add_argument(name, dest="foreign", help=argparse.SUPPRESS)
