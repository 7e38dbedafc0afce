"""From `qlctl reexec` to the exec: asked for, everything at rest, let go of, and the last step.

Up to `agreed` it can be taken back, and whatever stands in the way is the caller's error. After that there is one way:
the next program takes over, and where that cannot be executed the running one does, from the same handover.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping

from questlined import __version__, probes
from questlined.attempts.runtime import Runtime
from questlined.clock import SystemClock
from questlined.operations.context import Context, Replaced
from questlined.procs.family import Family
from questlined.reexec import handover, preflight
from questlined.reexec.belongings import Belongings
from questlined.reexec.handover import HandedAttempt, Handover
from questlined.reexec.program import Program
from questlined.server.listener import Server
from questlined.services.scheduler import Scheduler
from questlined.services.status import counted
from questlined.sysd.journal import flush
from questlined.sysd.notify import Notifier
from questlined.wire.errors import Busy, Unavailable

log = logging.getLogger(__name__)
REST_S = 10.0
JOIN_S = 5.0
# Blocked from the moment on when the loop takes them no more, until the next program has its handlers: by default the
# first three would end it.
HELD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Replacement:
    """One daemon's. `on_agreed` is called when nothing but the exec is left to be done; `ask` answers just before."""

    def __init__(
        self,
        program: Program,
        where: preflight.Places,
        runtime: Runtime,
        ctx: Context,
        scheduler: Scheduler,
        server: Server,
        on_agreed: Callable[[], None],
    ) -> None:
        self._program, self._where, self._runtime, self._ctx = program, where, runtime, ctx
        self._scheduler, self._server, self._on_agreed = scheduler, server, on_agreed
        self._under_way = False
        self.agreed = False

    async def ask(self) -> Replaced:
        """Have the installed program examined, and bring all that runs to rest. To be called by a session, which stays
        until it has told the answer. Raises what the new program says against it, Busy and Unavailable; then all is as
        it was."""
        if self._under_way:
            raise Busy("the program is being replaced already", hint="wait for that", retryAfterMs=1000)
        self._under_way = True
        try:
            version = await preflight.ask(self._runtime.family, self._program, self._where, self._runtime.environ)
            if probes.armed:
                probes.reached("reexec.checked")
            await self._rest()
        finally:
            self._under_way = self.agreed
        return Replaced(version, self._scheduler.running)

    async def _rest(self) -> None:
        """Claim and accept nothing, answer what was asked, wait for what cannot be let go of."""
        self._scheduler.hold()
        try:
            async with asyncio.timeout(REST_S):
                await self._server.finish(but=asyncio.current_task())
                await self._scheduler.rest()
                await self._runtime.disk.idle()
                await self._runtime.records.idle()
                await self._ctx.directories.idle()
                await self._runtime.store.touch()
            if probes.armed:
                probes.reached("reexec.rested")
            self.agreed = True
            self._on_agreed()
        except TimeoutError:
            raise Unavailable(
                f"the program cannot be replaced now: {self._hindrance()} takes longer than {REST_S:.0f} s",
                hint=f"try again later; {preflight.NOTHING_CHANGED}",
                retryAfterMs=5000,
            ) from None
        finally:
            if not self.agreed:
                self._scheduler.go_on()
                self._server.go_on()

    def _hindrance(self) -> str:
        if self._server.connections > 1:
            return "a call that a client has made"
        if (quest := self._scheduler.restless) is not None:
            return f"{quest}, which is being started or ended,"
        return "a disk or another program that holds the database"

    async def let_go(self, notifier: Notifier) -> tuple[HandedAttempt, ...]:
        """After `agreed`: the asker is answered, then the attempts are let go of. What is left of each."""
        fields = {"fields": {"QUESTLINE_EVENT": "program_replaced"}}
        log.info("the program is being replaced, with %s under way", counted(self._scheduler.running), extra=fields)
        notifier.reloading(self._runtime.clock.monotonic_ms() * 1000)
        notifier.watchdog()
        await self._server.farewell()
        self._server.close()
        handed = [handover.packed(claimed, left) for claimed, left in await self._scheduler.hand_over()]
        return tuple(one for one in handed if one is not None)


def handed_on(
    started_at: int, attempts: tuple[HandedAttempt, ...], belongings: Belongings, family: Family, in_terminal: bool
) -> Handover:
    """What the next program gets. Nothing of it is this one's any more."""
    return Handover(__version__, started_at, *belongings.hand_over(), family.hand_over(), attempts, in_terminal)


async def hold_signals(stopped: asyncio.Event) -> None:
    """Keep signals for the next program, when the other threads have ended: each could take one, and it would be lost.
    One that has come already, of which `stopped` tells, is sent again."""
    await asyncio.get_running_loop().shutdown_default_executor()
    flush()
    _alone()
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    # What came just before is on its way through the loop: read from its pipe in one turn, its handler in the next.
    for _ in range(3):
        await asyncio.sleep(0)
    if stopped.is_set():
        signal.raise_signal(signal.SIGTERM)


def _alone() -> list[str]:
    """The names of the threads besides this that do not end within JOIN_S: a disk may hold one."""
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    until = SystemClock().monotonic_ms() + JOIN_S * 1000
    for thread in others:
        thread.join(max(0, until - SystemClock().monotonic_ms()) / 1000)
    return [thread.name for thread in others if thread.is_alive()]


def release_signals() -> None:
    """The handlers are there."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def execute(program: Program, given: Handover, environ: Mapping[str, str]) -> None:
    """Become the next program. Returns where that cannot be: the same handover is good for this one, too."""
    if held := _alone():  # the exec would wait for it, for ever
        _keep(f"a disk holds {', '.join(held)}")
        return
    descriptors = list(given.descriptors())
    try:
        passed = handover.write(given)
        try:
            for each in (passed, *descriptors):
                os.set_inheritable(each, True)
            flush()
            if probes.armed:
                probes.reached("reexec.written")
            program.execute({**environ, handover.VARIABLE: f"{os.getpid()}:{passed}"})
        finally:
            os.close(passed)
            for each in descriptors:
                os.set_inheritable(each, False)
    except OSError as error:
        _keep(f"{program.argv[0]} cannot be executed: {error.strerror}")


def _keep(why: str) -> None:
    fields = {"fields": {"QUESTLINE_EVENT": "program_kept"}}
    log.error("the program is not replaced: %s; the running one goes on", why, extra=fields)
