"""argv → exit status of `questlined`: the daemon in the foreground, and subcommands that need none."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from questlined import app, probes
from questlined.arguments import parser
from questlined.config import paths
from questlined.config.load import Loaded, load_from
from questlined.life import Places
from questlined.operations.reloading import group_of
from questlined.procs.libc import set_name
from questlined.reexec import handover, preflight
from questlined.reexec.handover import Handover
from questlined.reexec.program import Program
from questlined.reexec.replacement import execute
from questlined.server.listener import admin_gid
from questlined.sysd.journal import flush, in_use, set_up
from questlined.wire.errors import ConfigInvalid, Internal, InvalidInput, QuestlineError

log = logging.getLogger("questlined")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command is None:
            return _daemon(arguments)
        _refuse_foreign(arguments)
        if arguments.command == "demo":
            from questlined.demo.show import demo

            return demo(arguments.agent, as_json=arguments.json)
        from questlined import installing

        return installing.run(arguments)
    except QuestlineError as error:
        return _complain(error)
    except KeyboardInterrupt:
        return 130


def _refuse_foreign(arguments: argparse.Namespace) -> None:
    """Subcommands need no daemon, and take no options of one."""
    if arguments.socket or arguments.config or arguments.state or arguments.detach or arguments.foreign:
        demo = "it has a daemon of its own, and works in the current directory"
        raise InvalidInput(
            f"{arguments.command}: it takes no --socket, --project, --config, --state and --detach",
            hint=demo if arguments.command == "demo" else "it sets up the daemon of the usual places",
            field=arguments.command,
        )


def _refused(group: BaseExceptionGroup[BaseException]) -> QuestlineError:
    """The error of the tree that ended the daemon; anything else is a fault of ours."""
    _, rest = group.split(QuestlineError)
    if rest is not None:
        log.critical("ending by a fault", exc_info=rest)
        return Internal("a fault of questlined has ended it", hint="the log tells which", reference="log")
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, QuestlineError)
    return error


def _complain(error: QuestlineError) -> int:
    if in_use():  # a line there would be of no priority, and its hint another record
        log.error("%s (%s)", error.message, error.hint)
        return error.exit_status
    print(f"questlined: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_status


def _daemon(arguments: argparse.Namespace) -> int:
    if arguments.check_handover is not None:
        return preflight.answer(lambda: _examined(arguments), arguments.check_handover)
    program = Program.running()
    set_up(os.environ)
    _arm("QUESTLINED_CRASH_AT", probes.arm)
    _arm("QUESTLINED_HANG_AT", probes.arm_hang)
    taken = handover.take(os.environ)
    loaded, where = _configured(arguments)
    for warning in loaded.warnings:
        log.warning("%s", warning)

    def serve() -> int:
        return _serve(arguments, loaded, where, program, taken)

    if not arguments.detach:
        return serve()
    from questlined.detach import absolute_paths, continued, detached

    os.environ.update(absolute_paths(os.environ))
    return detached(serve, where.state) if taken is None else continued(serve, where.state)


def _configured(arguments: argparse.Namespace) -> tuple[Loaded, Places]:
    loaded = load_from(os.environ, arguments.config)
    state = Path(os.path.abspath(arguments.state)) if arguments.state else paths.state_directory(os.environ)
    return loaded, app.places(loaded, state, paths.listen_path(os.environ, state, arguments.socket))


def _examined(arguments: argparse.Namespace) -> Places:
    """Where this program would work, if its configuration lets it start."""
    loaded, where = _configured(arguments)
    group_of(loaded, admin_gid)
    return where


def _arm(variable: str, arm: Callable[[str], None]) -> None:
    try:
        if os.environ.get(variable):
            arm(os.environ[variable])
    except ValueError as error:
        raise InvalidInput(str(error), hint=f"unset {variable}", field=variable) from None


def _serve(
    arguments: argparse.Namespace, loaded: Loaded, where: Places, program: Program, taken: Handover | None
) -> int:
    """Run to the end of the daemon, or of this program: then the next one is executed, and where that cannot be this
    one goes on with what it would have been given."""
    started_at = None
    set_name("questlined")  # whatever interpreter runs it, and however it was started
    while True:
        try:
            with asyncio.Runner() as runner:
                ended = runner.run(app.serve(loaded, where, os.environ, program, taken, started_at))
                if isinstance(ended, int):  # a reload that is asked for after the loop's end would kill
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        except BaseExceptionGroup as group:
            raise _refused(group) from None
        if isinstance(ended, int):
            return ended
        flush()  # log records that wait for a busy journal
        execute(program, ended, os.environ)
        taken, started_at = ended, ended.started_at
        with contextlib.suppress(ConfigInvalid):  # what was reloaded since the start counts
            loaded, where = _configured(arguments)
