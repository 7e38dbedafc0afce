"""The composition root: where the daemon's parts meet, start in order, and end in order."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import signal
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path

from questlined import __version__
from questlined.attempts.recovery import recover
from questlined.attempts.runtime import Runtime
from questlined.clock import SystemClock
from questlined.config.load import Loaded
from questlined.core.ids import Entropy
from questlined.operations.context import Context, Daemon
from questlined.procs.family import Family
from questlined.procs.procfs import boot_id
from questlined.procs.pump import Pump
from questlined.procs.watch import Watch
from questlined.server.listener import Server, admin_gid, bind
from questlined.services.heartbeats import Heartbeats
from questlined.services.rescuer import Rescuer
from questlined.services.scheduler import Scheduler
from questlined.services.service import Service
from questlined.services.watchdog import Watchdog
from questlined.store.changes import Changes
from questlined.store.lock import StateLock
from questlined.store.sqlite.store import SqliteStore
from questlined.sysd.listen import inherited
from questlined.sysd.notify import Notifier
from questlined.wire.errors import Unavailable

log = logging.getLogger(__name__)
EX_SOFTWARE = 70
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXTEND_STOP_MS = 30_000


@dataclass(frozen=True, slots=True)
class Places:
    """Where this daemon keeps and listens."""

    state: Path
    socket: str
    database: Path
    artifacts: Path


def places(loaded: Loaded, state: Path, socket_path: str) -> Places:
    """The paths that the configuration and the state directory make."""
    config = loaded.config
    database = Path(config.store_path) if config.store_path else state / "quests.sqlite"
    artifacts = Path(config.artifacts_dir) if config.artifacts_dir else state / "artifacts"
    return Places(state, socket_path, database.expanduser(), artifacts.expanduser())


async def serve(loaded: Loaded, where: Places, environ: MutableMapping[str, str]) -> int:
    """Run the daemon until a signal ends it; its exit status. Raises QuestlineError where it cannot start."""
    clock = SystemClock()
    notifier = Notifier(environ)
    for folder in (where.state, where.database.parent, where.artifacts):
        _make(folder)
    started_at = clock.wall_ms()
    given = inherited(environ, os.getpid())
    if given:  # what systemd listens on is where we are, whatever else was said
        where = replace(where, socket=os.fsdecode(given[0].getsockname()))
    _refuse_emptied(where)
    locks = _lock(where, {"pid": os.getpid(), "socket": where.socket})
    sockets = given or [bind(where.socket, loaded.config.socket_mode or 0o600)]
    changes = Changes()
    try:
        store = await SqliteStore.open(where.database, clock, changes.publish, _die)
        try:
            async with asyncio.TaskGroup() as tasks:
                runtime = _runtime(loaded, where, store, tasks, environ)
                await _live(runtime, changes, sockets, notifier, where, started_at)
        finally:
            await store.close()
    finally:
        for listening in sockets:
            listening.close()
        if not given:
            _remove(where.socket)
        for lock in locks:
            lock.release()
        notifier.close()
    return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"{folder}: {error.strerror}", hint="choose another QUESTLINED_STATE") from error


def _refuse_emptied(where: Places) -> None:
    """A database of no bytes beside artifacts of earlier quests was emptied, not made: nothing is guessed."""
    if where.database.exists() and where.database.stat().st_size == 0 and any(where.artifacts.iterdir()):
        raise Unavailable(
            f"{where.database} is empty, but {where.artifacts} is not: its quests are lost from it",
            hint="bring back a backup; or remove the empty file to begin a new queue",
        )


def _remove(path: str) -> None:
    """Our own socket goes with us, so that clients are told at once that nobody is there."""
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s: %s, ignoring", path, error.strerror)


def _lock(where: Places, holder: dict[str, object]) -> list[StateLock]:
    """The state directory's lock and the database's own: another daemon's store.path may name this very file."""
    database = where.database.resolve()
    locks = [StateLock(where.state / "lock"), StateLock(database.with_name(f"{database.name}.lock"))]
    for lock in locks:
        lock.acquire(holder)
    return locks


def _die(error: Exception) -> None:
    """The store cannot go on, and what it last wrote is unknown: end, and let the restart find out."""
    log.critical("ending: %s", error)
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
        watch=Watch(),
        boot_id=boot_id(),
        artifacts=where.artifacts,
        socket=where.socket,
        environ=dict(environ),
        chance=random.random,
    )


async def _live(
    runtime: Runtime,
    changes: Changes,
    sockets: list[socket.socket],
    notifier: Notifier,
    where: Places,
    started_at: int,
) -> None:
    """From recovery to the last attempt's end."""
    stop = _Signals(in_terminal="NOTIFY_SOCKET" not in runtime.environ)
    runtime.family.start()
    runtime.pump.start()
    await recover(runtime)
    config = runtime.config
    await runtime.store.configure(runtime.config.limits, config.lanes)
    owner = f"daemon:{os.getpid()}:{secrets.token_hex(6)}"
    scheduler = Scheduler(runtime, changes, owner)
    heartbeats = Heartbeats(runtime, owner, lambda: scheduler.running)
    scheduler.on_busy = heartbeats.busy
    changes.on_stop.append(runtime.records.cancelling)
    rescuer = Rescuer(runtime, changes, scheduler.tick)
    ctx = _context(runtime, changes, scheduler, where, started_at)
    ctx.directories.start()
    server = Server(ctx, runtime.tasks, admin_gid(config.admin_group))
    ctx.daemon.connections = lambda: server.connections
    services: dict[str, Service] = {"scheduler": scheduler, "heartbeats": heartbeats, "rescuer": rescuer}
    watchdog = Watchdog(
        notifier, services, runtime.store.touch, ctx.daemon.store_busy, lambda: f"{scheduler.running} running"
    )
    running = [runtime.tasks.create_task(service.run(lambda: None)) for service in (*services.values(), watchdog)]
    await server.start(sockets)
    notifier.ready()
    notifier.status("ready")
    log.info("questlined %s listens on %s, state in %s", __version__, where.socket, where.state)
    await stop.first.wait()
    notifier.stopping()
    await _wind_down(runtime, scheduler, server, notifier, stop)
    for task in (*running, *runtime.beside):
        task.cancel()
    runtime.watch.close()
    runtime.disk.close()
    runtime.records.close()
    ctx.directories.close()
    runtime.pump.stop()
    runtime.family.stop()


async def _wind_down(
    runtime: Runtime, scheduler: Scheduler, server: Server, notifier: Notifier, stop: _Signals
) -> None:
    """Claim and accept no more, end what runs, then the sessions. A second signal skips the grace."""
    log.info("stopping: %d attempts are running", scheduler.running)
    notifier.extend_timeout(EXTEND_STOP_MS)
    server.stop_accepting()
    hurry = runtime.tasks.create_task(_hurry(scheduler, stop.second))
    await scheduler.stop()
    hurry.cancel()
    await server.last_words()
    server.close()


async def _hurry(scheduler: Scheduler, second: asyncio.Event) -> None:
    await second.wait()
    log.warning("stopping at once")
    await scheduler.stop(at_once=True)


class _Signals:
    """The first signal that ends the daemon, and any further one."""

    def __init__(self, *, in_terminal: bool) -> None:
        self.first, self.second = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._came)
        # The terminal is closed; a service has none, and there is nothing to reload yet.
        loop.add_signal_handler(signal.SIGHUP, self._came if in_terminal else self._ignored)

    def _ignored(self) -> None:
        log.warning("SIGHUP: this version does not reload its configuration, ignoring")

    def _came(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


def _context(runtime: Runtime, changes: Changes, scheduler: Scheduler, where: Places, started_at: int) -> Context:
    store = runtime.store
    assert isinstance(store, SqliteStore)
    daemon = Daemon(
        version=__version__,
        pid=os.getpid(),
        started_at=started_at,
        socket=where.socket,
        state_directory=str(where.state),
        database=str(where.database),
        connections=lambda: 0,
        running=lambda: scheduler.running,
        in_slots=lambda: scheduler.in_slots,
        last_output=scheduler.last_output,
        stuck=lambda: list(scheduler.stuck()),
        disk_low=scheduler.shortage,
        store_busy=lambda: store.busy,
        store_trouble=lambda: store.trouble,
        run_now=scheduler.run_now,
        interrupt=scheduler.interrupt,
    )
    entropy = Entropy(secrets.token_bytes)
    return Context(store, runtime.config, runtime.clock, changes, daemon, entropy, random.random, runtime.records)
