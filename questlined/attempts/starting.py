"""From a prepared attempt to its running program: a child of ours, or a transient unit."""

from __future__ import annotations

import re

from questlined.attempts import output
from questlined.attempts.execution import Execution, Process
from questlined.attempts.preparation import TRANSIENT_ERRNOS, BadConfig, NoResources, PathGone, Prepared
from questlined.attempts.runtime import Runtime
from questlined.config.properties import PROJECT, Assignment
from questlined.config.shape import Executor
from questlined.core.ids import attempt_name
from questlined.procs import unit_order
from questlined.procs.spawn import Command
from questlined.procs.unit_order import Order
from questlined.procs.units import Unfit
from questlined.store.protocol import Claimed
from questlined.wire.errors import Unavailable

# What is the daemon's own, and another account's program is given its own of by systemd.
_ACCOUNT = re.compile(r"HOME|USER|LOGNAME|SHELL|SSH_AUTH_SOCK|XDG_\w*")


async def start(
    runtime: Runtime, prepared: Prepared, executor: Executor, claimed: Claimed, ends: tuple[int, int]
) -> Execution:
    """Start the program with `ends` as its stdout and stderr. Raises PathGone, BadConfig and NoResources: then nothing
    of it runs."""
    env = _for_account(prepared.env, executor)
    command = Command(prepared.argv, prepared.cwd, env, prepared.files.stdin, *ends, executor.umask)
    try:
        if executor.isolation == "unit":
            return await _unit(runtime, prepared, executor, claimed, command)
        name = attempt_name(claimed.quest.id, claimed.quest.lease_gen)
        return Process(runtime.family, runtime.family.spawn(command, prepared.marker, name))
    except OSError as error:
        if error.filename == prepared.cwd:
            raise PathGone(f"the project's directory: {error.strerror}") from error
        if error.errno in TRANSIENT_ERRNOS:
            raise NoResources(f"{error.strerror}") from error
        raise BadConfig(f"{prepared.argv[0]}: {error.strerror}") from error


async def _unit(
    runtime: Runtime, prepared: Prepared, executor: Executor, claimed: Claimed, command: Command
) -> Execution:
    quest = claimed.quest
    order = Order(
        unit_order.name_of(quest.id, quest.lease_gen),
        prepared.marker,
        command,
        output.directory_of(runtime.artifacts, quest.id, quest.attempts),
        executor.terminate_grace_ms / 1000,
        _properties(executor, prepared.cwd),
    )
    if runtime.units is None:
        raise NoResources('isolation = "unit" needs systemd')
    try:
        await runtime.disk.do(lambda: unit_order.stage(order))
    except OSError as error:
        raise NoResources(f"{order.directory}: {error.strerror}") from error
    try:
        return await runtime.units.start(order)
    except Unfit as error:
        raise BadConfig(f"{prepared.argv[0]}: {error}") from error
    except Unavailable as error:
        raise NoResources(f"{error.message} ({error.hint})") from error
    finally:
        await runtime.disk.do(lambda: unit_order.unstage(order.directory))


def _properties(executor: Executor, project: str) -> list[Assignment]:
    """What the configuration says of the unit, for one project."""
    assignments = [each for group in executor.properties.values() for each in group]
    return [(name, (signature, _filled(value, project))) for name, (signature, value) in assignments]


def _filled(value: object, project: str) -> object:
    if isinstance(value, str):
        return value.replace(PROJECT, project)
    if isinstance(value, list | tuple):
        return type(value)(_filled(each, project) for each in value)
    return value


def _for_account(env: dict[str, str], executor: Executor) -> dict[str, str]:
    """Without what is the daemon's own, where another account runs the program and nobody has asked for it."""
    if "User" not in executor.properties or executor.isolation != "unit":
        return env
    asked = {*executor.env_set, *executor.env_pass, *executor.env_credentials}
    return {name: value for name, value in env.items() if name in asked or not _ACCOUNT.fullmatch(name)}
