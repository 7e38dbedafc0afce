"""One life of the daemon, from its start or from an exec: services and door, begun in order and ended in order."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from questlined import __version__, probes
from questlined.attempts.execution import Left
from questlined.attempts.recovery import Recovered, ask_again, recover
from questlined.attempts.runtime import Runtime
from questlined.config.load import Loaded
from questlined.core.ids import Entropy
from questlined.operations.context import Context, Daemon
from questlined.operations.reloading import Reloader, group_of
from questlined.procs.cgroup import delegated
from questlined.reexec.handover import HandedAttempt, Handover, abandon, unpacked
from questlined.reexec.program import Program
from questlined.reexec.replacement import Replacement, release_signals
from questlined.server.listener import Server, admin_gid
from questlined.services.calendar import Calendar
from questlined.services.heartbeats import Heartbeats
from questlined.services.rescuer import Rescuer
from questlined.services.scheduler import Scheduler
from questlined.services.service import Service
from questlined.services.status import Status, counted, extend
from questlined.services.story import Story
from questlined.services.watchdog import Watchdog
from questlined.signals import Signals
from questlined.store.changes import Changes
from questlined.store.sqlite.store import SqliteStore
from questlined.sysd.journal import in_use
from questlined.sysd.notify import Notifier

log = logging.getLogger(__name__)
WIND_DOWN_S = 30.0  # what a daemon that stops may take beyond the grace of its executors


@dataclass(frozen=True, slots=True)
class Places:
    """Where this daemon keeps and listens."""

    state: Path
    socket: str
    database: Path
    artifacts: Path


@dataclass(frozen=True, slots=True)
class Given:
    """What a life begins with. `taken` is what the program before this one handed over."""

    loaded: Loaded
    where: Places
    started_at: int
    program: Program
    taken: Handover | None


@dataclass(frozen=True, slots=True)
class Found:
    """What this life found: its owner's name, the last event of the one before, what was handed over, what goes on."""

    owner: str
    last_event: int
    handed: dict[tuple[str, int], Left]
    recovered: Recovered


async def take_up(given: Given, runtime: Runtime) -> Found:
    """Settle what an earlier daemon left, and have children from now on. Nothing else of the daemon is there yet, so
    that nobody is woken by it."""
    owner = f"daemon:{os.getpid()}:{secrets.token_hex(6)}"
    last_event = await runtime.store.last_event()
    handed = _begin(given.taken, runtime)
    recovered = await recover(runtime, owner, handed)
    await runtime.store.configure(runtime.config.limits, runtime.config.lanes)
    return Found(owner, last_event, handed, recovered)


def _begin(taken: Handover | None, runtime: Runtime) -> dict[tuple[str, int], Left]:
    """Have children, those of the program before this one among them: what is left of each attempt."""
    handed = unpacked(taken, runtime.family, runtime.store_uuid) if taken else {}
    runtime.family.start(delegated(runtime.environ, again=taken is not None))
    runtime.pump.start()
    if taken:
        release_signals()
        if probes.armed:
            probes.reached("reexec.taken")
    return handed


class Life:
    """From then on. `run` once."""

    def __init__(
        self, given: Given, found: Found, runtime: Runtime, changes: Changes, notifier: Notifier, signals: Signals
    ) -> None:
        self._given, self._found, self._runtime, self._changes = given, found, runtime, changes
        self._notifier, self._signals = notifier, signals
        self._scheduler = scheduler = Scheduler(runtime, changes, found.owner)
        self._ctx = ctx = context(runtime, changes, scheduler, given.where, given.started_at)
        self._server = server = Server(ctx, runtime.tasks, group_of(given.loaded, admin_gid))
        self._status = Status(notifier, runtime.store, changes, lambda: scheduler.running, lambda: _trouble(ctx.daemon))
        self._reloader = Reloader(
            given.loaded, runtime, ctx, notifier, signals.hangup,
            find_group=admin_gid, admit=server.admit, woken=scheduler.look_again,
        )  # fmt: skip
        self._replacement = Replacement(
            given.program, given.where, runtime, ctx, scheduler, server, signals.turn.set
        )  # fmt: skip
        ctx.daemon.connections = lambda: server.connections
        ctx.daemon.reload, ctx.daemon.reexec = self._reloader.reload, self._replacement.ask
        changes.on_stop.append(runtime.records.cancelling)

    async def run(self, sockets: list[socket.socket]) -> tuple[HandedAttempt, ...] | None:
        """To the last attempt's end, or to where all that runs is left to the next program: what that is."""
        runtime = self._runtime
        self._ctx.directories.start()
        story = Story(runtime.store, self._changes, self._found.last_event, told=in_use())
        running = self._serve({**self._services(), "story": story})
        self._adopt()
        await self._server.start(sockets)
        self._say_ready()
        await self._signals.turn.wait()
        attempts = await self._end()
        await story.finish()
        for task in (*running, *runtime.beside):
            task.cancel()
        self._close()
        if attempts is None:
            runtime.family.stop()
        return attempts

    def _services(self) -> dict[str, Service]:
        runtime, changes, scheduler = self._runtime, self._changes, self._scheduler
        heartbeats = Heartbeats(runtime, self._found.owner, lambda: scheduler.running)
        scheduler.on_busy = heartbeats.busy
        return {
            "scheduler": scheduler,
            "heartbeats": heartbeats,
            "rescuer": Rescuer(runtime, changes, scheduler.tick),
            "status": self._status,
            "calendar": Calendar(runtime, changes, secrets.token_bytes),
        }

    def _serve(self, services: dict[str, Service]) -> list[asyncio.Task[None]]:
        runtime = self._runtime
        watchdog = Watchdog(self._notifier, services, runtime.store.touch, self._ctx.daemon.store_busy)
        runtime.aside(self._reloader.follow_signals())
        return [runtime.tasks.create_task(service.run(lambda: None)) for service in (*services.values(), watchdog)]

    def _adopt(self) -> None:
        """Before anybody is served, and before the scheduler's first turn, so that these have their slots."""
        runtime, recovered, handed = self._runtime, self._found.recovered, dict(self._found.handed)
        for claimed, left in recovered.adopted:
            handed.pop((claimed.quest.id, claimed.run.lease_gen), None)
            self._scheduler.adopt(claimed, left)
        for left in handed.values():
            runtime.aside(abandon(left))
        if recovered.unknown:
            runtime.aside(ask_again(runtime, self._found.owner, recovered.unknown, self._scheduler.adopt))

    def _say_ready(self) -> None:
        self._notifier.ready()
        where, said = self._given.where, {"QUESTLINE_EVENT": "daemon_started"}
        log.info(
            "questlined %s listens on %s, state in %s", __version__, where.socket, where.state, extra={"fields": said}
        )

    async def _end(self) -> tuple[HandedAttempt, ...] | None:
        """Leave all that runs to the next program, or end it."""
        self._reloader.end()
        if self._replacement.agreed and not self._signals.first.is_set():
            return await self._replacement.let_go(self._notifier)
        self._status.stopping()
        await self._wind_down()
        return None

    async def _wind_down(self) -> None:
        """Claim and accept no more, end what runs, then the sessions. A second signal skips the grace."""
        scheduler, runtime = self._scheduler, self._runtime
        self._notifier.stopping()
        fields = {"QUESTLINE_EVENT": "daemon_stopping"}
        log.info("stopping: %s under way", counted(scheduler.running), extra={"fields": fields})
        asking = runtime.aside(extend(self._notifier, scheduler.longest_grace_s + WIND_DOWN_S))
        self._server.stop_accepting()
        hurry = runtime.tasks.create_task(self._hurry())
        await scheduler.stop()
        hurry.cancel()
        asking.cancel()
        await self._server.last_words()
        self._server.close()

    async def _hurry(self) -> None:
        await self._signals.second.wait()
        log.warning("stopping at once")
        await self._scheduler.stop(at_once=True)

    def _close(self) -> None:
        runtime = self._runtime
        runtime.watch.close()
        runtime.disk.close()
        runtime.records.close()
        self._ctx.directories.close()
        runtime.pump.stop()
        if runtime.units is not None:
            runtime.units.close()


def _trouble(daemon: Daemon) -> str | None:
    """What holds claims back, short enough for a line."""
    if daemon.store_trouble() is not None:
        return "the database cannot be written"
    return "claims wait: the disk is low" if daemon.disk_low() is not None else None


def context(runtime: Runtime, changes: Changes, scheduler: Scheduler, where: Places, started_at: int) -> Context:
    """The daemon as operations see it."""
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
        isolation=lambda: runtime.family.isolation,
        no_units=lambda: (runtime.units.trouble, runtime.units.hint) if runtime.units else (None, ""),
        run_now=scheduler.run_now,
        interrupt=scheduler.interrupt,
    )
    entropy = Entropy(secrets.token_bytes)
    return Context(store, runtime.config, runtime.clock, changes, daemon, entropy, random.random, runtime.records)
