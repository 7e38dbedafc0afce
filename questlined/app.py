"""The composition root: what the daemon has of the machine and of the disk, for one life of it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path

from questlined.attempts.runtime import Runtime
from questlined.clock import SystemClock
from questlined.config.load import Loaded
from questlined.life import Given, Life, Places, take_up
from questlined.procs.family import Family
from questlined.procs.limits import raise_open_files
from questlined.procs.procfs import boot_id
from questlined.procs.pump import Pump
from questlined.procs.units import Units, address
from questlined.procs.watch import Watch
from questlined.reexec.belongings import acquire
from questlined.reexec.handover import Handover
from questlined.reexec.program import Program
from questlined.reexec.replacement import handed_on, hold_signals
from questlined.signals import Signals, in_terminal
from questlined.store.changes import Changes
from questlined.store.sqlite.refusals import RefusedDatabase
from questlined.store.sqlite.store import SqliteStore
from questlined.sysd.journal import flush
from questlined.sysd.notify import Notifier
from questlined.wire.errors import Unavailable

log = logging.getLogger(__name__)
EX_SOFTWARE = 70


def places(loaded: Loaded, state: Path, socket_path: str) -> Places:
    """The paths that the configuration and the state directory make."""
    config = loaded.config
    database = Path(config.store_path) if config.store_path else state / "quests.sqlite"
    artifacts = Path(config.artifacts_dir) if config.artifacts_dir else state / "artifacts"
    return Places(state, socket_path, database.expanduser(), artifacts.expanduser())


async def serve(
    loaded: Loaded,
    where: Places,
    environ: MutableMapping[str, str],
    program: Program | None = None,
    taken: Handover | None = None,
    started_at: int | None = None,
) -> int | Handover:
    """Run the daemon until a signal ends it: its exit status; or until `program` is to be executed in place of this
    one: what that is given. `taken` is what this one was given; `started_at` is told of where it has run before. Raises
    QuestlineError where it cannot start."""
    clock = SystemClock()
    notifier = Notifier(environ)
    raise_open_files()
    for folder in (where.state, where.database.parent, where.artifacts):
        _make(folder)
    started_at = started_at or clock.wall_ms()
    _refuse_emptied(where)
    mode = loaded.config.socket_mode or 0o600
    belongings = acquire(where.state, where.database, where.socket, mode, environ, taken)
    where = replace(where, socket=belongings.address)
    changes = Changes()
    terminal = in_terminal(environ) if taken is None else taken.in_terminal
    signals = Signals(in_terminal=terminal)
    attempts = None
    try:
        store = await SqliteStore.open(where.database, clock, changes.publish, _die)
        try:
            async with asyncio.TaskGroup() as tasks:
                runtime = _runtime(loaded, where, store, tasks, environ)
                given = Given(loaded, where, started_at, program or Program.running(), taken)
                found = await take_up(given, runtime)
                attempts = await Life(given, found, runtime, changes, notifier, signals).run(belongings.sockets)
        finally:
            await store.close()
        if attempts is None:
            return 0
        await hold_signals(signals.first)
        return handed_on(started_at, attempts, belongings, runtime.family, terminal)
    finally:
        if attempts is None:
            belongings.release()
        notifier.close()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"{folder}: {error.strerror}", hint="choose another QUESTLINED_STATE") from error


def _refuse_emptied(where: Places) -> None:
    """A database of no bytes beside artifacts of earlier quests was emptied, not made: nothing is guessed."""
    if where.database.exists() and where.database.stat().st_size == 0 and any(where.artifacts.iterdir()):
        raise RefusedDatabase(
            f"{where.database} is empty, but {where.artifacts} is not: its quests are lost from it",
            hint="bring back a backup; or remove the empty file to begin a new queue",
        )


def _die(error: Exception) -> None:
    """The store cannot go on, and what it last wrote is unknown: end, and let the restart find out."""
    log.critical("ending: %s", error)
    flush()
    os._exit(EX_SOFTWARE)


def _runtime(
    loaded: Loaded, where: Places, store: SqliteStore, tasks: asyncio.TaskGroup, environ: MutableMapping[str, str]
) -> Runtime:
    return Runtime(
        store=store,
        store_uuid=store.uuid,
        config=loaded.config,
        clock=SystemClock(),
        tasks=tasks,
        family=Family(),
        pump=Pump(),
        units=Units(store.uuid, address(environ, os.geteuid()), os.geteuid()),
        watch=Watch(),
        boot_id=boot_id(),
        artifacts=where.artifacts,
        socket=where.socket,
        environ=dict(environ),
        chance=random.random,
    )
