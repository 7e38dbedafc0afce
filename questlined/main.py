"""argv → exit status of `questlined`: the daemon in the foreground, and subcommands that need none."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from questlined import __version__, app, probes
from questlined.config import paths
from questlined.config.load import load_from
from questlined.wire.errors import InvalidInput, QuestlineError

log = logging.getLogger("questlined")
EX_SOFTWARE = 70


def parser() -> argparse.ArgumentParser:
    """The command line, for help and the manual."""
    options = argparse.ArgumentParser(
        prog="questlined", description="A durable work queue for command-line coding agents.", allow_abbrev=False
    )
    options.add_argument("--socket", metavar="PATH", help="listen there instead of the usual place")
    options.add_argument("--config", metavar="FILE", help="read this file instead of the usual ones")
    options.add_argument("--state", metavar="DIR", help="keep the state there instead of the usual place")
    options.add_argument("--version", action="version", version=f"questlined {__version__}")
    commands = options.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser("demo", help="show the main job on a temporary daemon", allow_abbrev=False)
    demo.add_argument("--agent", metavar="NAME", help="use this agent (claude) instead of a shell command")
    demo.add_argument("--json", action="store_true", help="print the quests as they ended as one JSON value")
    for name in ("--socket", "--project"):  # of qlctl, which takes them with every other verb
        demo.add_argument(name, dest="foreign", help=argparse.SUPPRESS)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "demo":
            return _demo(arguments)
        return _daemon(arguments)
    except QuestlineError as error:
        return _complain(error)
    except BaseExceptionGroup as group:
        return _refused(group)


def _refused(group: BaseExceptionGroup[BaseException]) -> int:
    """An error of the tree that ended the daemon keeps its exit status; anything else is a fault of ours."""
    _, rest = group.split(QuestlineError)
    if rest is not None:
        log.critical("ending by a fault", exc_info=rest)
        return EX_SOFTWARE
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, QuestlineError)
    return _complain(error)


def _complain(error: QuestlineError) -> int:
    print(f"questlined: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_status


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.socket or arguments.config or arguments.state or arguments.foreign:
        raise InvalidInput(
            "demo: it takes no --socket, --project, --config and --state",
            hint="it has a daemon of its own, and works in the current directory",
            field="demo",
        )
    from questlined.demo.show import demo

    return demo(arguments.agent, as_json=arguments.json)


def _daemon(arguments: argparse.Namespace) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    crash_at = os.environ.get("QUESTLINED_CRASH_AT")
    if crash_at:
        try:
            probes.arm(crash_at)
        except ValueError as error:
            raise InvalidInput(str(error), hint="unset QUESTLINED_CRASH_AT", field="QUESTLINED_CRASH_AT") from None
    loaded = load_from(os.environ, arguments.config)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    state = Path(os.path.abspath(arguments.state)) if arguments.state else paths.state_directory(os.environ)
    socket_path = paths.listen_path(os.environ, state, arguments.socket)
    return asyncio.run(app.serve(loaded, app.places(loaded, state, socket_path), os.environ))
