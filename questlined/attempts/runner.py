"""One attempt: spawn → follow → exit seen → sweep → reap → seal → classify → finish, in this order whatever happens.

A lane or slot is never free while something of the attempt lives, and its files are read when nobody writes them any
more. Whatever wants the attempt to end before its program does names its reason through `stop`; the first one counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from questlined import probes
from questlined.agents import text
from questlined.attempts import output
from questlined.attempts.follow import Follow
from questlined.attempts.preparation import (
    TRANSIENT_ERRNOS,
    BadConfig,
    NoResources,
    PathGone,
    Prepared,
    prepare,
)
from questlined.attempts.runtime import Runtime
from questlined.procs.child import Child, Exit
from questlined.procs.spawn import Command
from questlined.store.protocol import Claimed, Finish, Started
from questlined.wire.errors import StaleLease, StoreFull, Unavailable

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_RESOURCES_WAIT_MS = 5_000
AGAIN_S = (0.5, 1, 2, 5, 10, 30)
LEAVE_S = 10.0

# Why an attempt is stopped → the line in its error. The reason is its class, too, but for those in CLASS.
REASONS = {
    "cancelled": "cancelled",
    "interrupted": "the daemon was stopped",
    "client_gone": "the client that ran it went away",
    "timeout": "it ran longer than its timeout",
    "start_timeout": "it wrote nothing within first_output_timeout",
    "idle": "it wrote nothing for idle_timeout",
    "output_limit": "it wrote more than output_limit",
    "stale": "its lease was lost",
}
CLASS = {"client_gone": "interrupted"}


@dataclass(slots=True)
class _End:
    """What is known of an attempt's end, gathered on the way down."""

    klass: str = "ok"
    reason: str | None = None
    exit: Exit | None = None
    seal: output.Seal | None = None
    path_missing: bool = False
    retry_at: int | None = None


def _stopped(reason: str, ended: Exit | None = None, seal: output.Seal | None = None) -> _End:
    """The end of an attempt that was stopped for a reason of REASONS."""
    return _End(CLASS.get(reason, reason), REASONS[reason], ended, seal)


class Attempt:
    """A claimed quest being run. `run` once; `stop` any time, from the loop's thread.

    `ending` is called when nothing of it lives any more, just before its outcome is written: what is claimed from
    then on is claimed behind that, perhaps in one transaction with it.
    """

    def __init__(self, runtime: Runtime, claimed: Claimed, ending: Callable[[], None]) -> None:
        self._runtime, self.claimed, self._ending = runtime, claimed, ending
        self._executor = runtime.config.for_role(claimed.quest.role)
        self._child: Child | None = None
        self._stopped: str | None = None
        self._ladders: list[asyncio.Task[None]] = []
        self._leaving = asyncio.Event()  # the daemon ends: what cannot be written soon is left to the next one
        self._leave_at_s: float | None = None
        self._writing: set[asyncio.Timeout] = set()
        self._follow = Follow(runtime, claimed, self._executor, self.stop)

    @property
    def last_output_at(self) -> int | None:
        """Epoch ms of the last output seen."""
        return self._follow.last_output_at

    @property
    def stuck(self) -> list[int]:
        """Processes that were killed and live on."""
        return list(self._child.stuck) if self._child else []

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End it: `reason` is a key of REASONS. A later reason only makes the end faster, where it is `at_once`.

        A program that has ended already keeps the end it took."""
        if self._child is not None and self._child.exited.is_set():
            return
        first = self._stopped is None
        if first:
            self._stopped = reason
        if self._child is not None and (first or at_once):
            grace = 0.0 if at_once else self._executor.terminate_grace_ms / 1000
            down = self._runtime.family.take_down(self._child, grace, at_once=at_once)
            self._ladders.append(self._runtime.tasks.create_task(down))

    def leave(self, *, at_once: bool = False) -> None:
        """The daemon ends. What cannot be written within LEAVE_S, with `at_once` now, its next start settles."""
        self._leave_at_s = asyncio.get_running_loop().time() + (0 if at_once else LEAVE_S)
        self._leaving.set()
        for writing in self._writing:
            writing.reschedule(self._leave_at_s)
        self.stop("interrupted", at_once=at_once)

    async def run(self) -> None:
        """From the lease to the outcome. Raises nothing but what a fault of ours is."""
        end = _End()
        try:
            prepared = await self._runtime.disk.do(lambda: prepare(self._runtime, self.claimed, self._executor))
        except PathGone:
            end = _End("released", "the project's directory is not there", path_missing=True)
        except BadConfig as error:
            end = _End("bad_config", str(error))
        except NoResources as error:
            end = self._later(str(error))
        else:
            if probes.armed:
                probes.reached("attempt.prepared")
            end = await self._execute(prepared)
        self._ending()
        if self._stopped == "stale":
            return
        await self._finish(end)

    def _later(self, reason: str) -> _End:
        log.warning("%s cannot be started now: %s, ignoring", self.claimed.quest.id, reason)
        return _End("released", reason, retry_at=self._runtime.clock.wall_ms() + NO_RESOURCES_WAIT_MS)

    async def _execute(self, prepared: Prepared) -> _End:
        try:
            if self._stopped is not None:
                return _stopped(self._stopped)
            failed = self._spawn(prepared)
            if failed is not None:
                return failed
        finally:
            self._follow.opened(prepared.files, running=self._child is not None)
        child = self._child
        assert child is not None
        if probes.armed:
            probes.reached("attempt.spawned")
        self._runtime.tasks.create_task(self._record(child))
        try:
            self._follow.begin(self.claimed.quest.timeout_ms)
        except OSError as error:  # out of descriptors: it runs where nobody reads it
            self._follow.broken(error)
            self.stop("interrupted", at_once=True)
        await child.exited.wait()
        self._follow.end_clocks()
        if probes.armed:
            probes.reached("attempt.exited")
        return await self._gather(child, prepared)

    def _spawn(self, prepared: Prepared) -> _End | None:
        """Start the child; what stands in the way, or None."""
        try:
            stdout, stderr = self._follow.ends(prepared.files)
            command = Command(
                prepared.argv,
                prepared.cwd,
                prepared.env,
                prepared.files.stdin,
                stdout,
                stderr,
                self._executor.umask,
            )
            self._child = self._runtime.family.spawn(command, prepared.marker)
        except OSError as error:
            if error.filename == prepared.cwd:
                return _End("released", f"the project's directory: {error.strerror}", path_missing=True)
            if error.errno in TRANSIENT_ERRNOS:
                return self._later(f"{error.strerror}")
            return _End("bad_config", f"{prepared.argv[0]}: {error.strerror}")
        return None

    async def _record(self, child: Child) -> None:
        """Keep the child's pid, so that a later daemon finds it; a cancel that came before we knew it is seen here."""
        runtime = self._runtime
        started = Started(self.claimed.fence, runtime.clock.wall_ms(), child.pid, child.started, runtime.boot_id)
        try:
            if await self._patiently(lambda: runtime.store.started(started), "pid"):
                self.stop("cancelled")
        except StaleLease:
            # Over before this was written, or somebody else's: nothing of it may live on.
            self.stop("stale", at_once=True)

    async def _gather(self, child: Child, prepared: Prepared) -> _End:
        """Down to the last process, then the exit status and the files."""
        keep = self._executor.keep_children
        await self._runtime.family.sweep(child, keep)
        for ladder in self._ladders:
            await ladder
        if probes.armed:
            probes.reached("attempt.swept")
        ended = self._runtime.family.reap(child)
        if probes.armed:
            probes.reached("attempt.reaped")
        await self._follow.drained()
        executor = self._executor
        whole, preview = executor.max_inline_output_bytes, executor.output_preview_bytes
        files = prepared.files
        seal = output.seal_silent(files)
        if seal is None:
            seal = await self._runtime.disk.do(lambda: output.seal(files, whole=whole, preview=preview))
        files.close()
        if probes.armed:
            probes.reached("attempt.sealed")
        return self._judge(ended, seal)

    def _judge(self, ended: Exit, seal: output.Seal) -> _End:
        if self._stopped is not None:
            return _stopped(self._stopped, ended, seal)
        if self._follow.failed is not None:
            # The machine's fault and not the quest's: uncharged, and claims pause while the disk is full.
            return _End("interrupted", f"its output could not be kept: {self._follow.failed}", ended, seal)
        if sum(file.bytes for file in seal.artifacts) > self._executor.output_limit:  # it was faster than our notice
            return _End("output_limit", REASONS["output_limit"], ended, seal)
        judgement = text.judge(ended.code, ended.signal)
        return _End(judgement.klass, judgement.reason, ended, seal)

    async def _finish(self, end: _End) -> None:
        """Write the outcome; a lost lease is somebody else's story."""
        request = self._outcome(end)
        try:
            await self._patiently(lambda: self._runtime.store.finish(request), "end")
        except StaleLease:
            log.warning("%s: its lease was lost, ignoring its end as %s", self.claimed.quest.id, end.klass)

    async def _patiently(self, write: Callable[[], Awaitable[T]], what: str) -> T | None:
        """A full disk is waited out until the daemon ends: then None, and the next one settles it."""
        waits, said = iter(AGAIN_S), False
        while True:
            try:
                return await self._before_leaving(write())
            except TimeoutError:
                return None
            except (StoreFull, Unavailable) as error:
                if not said:
                    log.warning("%s: its %s cannot be written yet: %s", self.claimed.quest.id, what, error)
                said = True
            try:
                async with asyncio.timeout(next(waits, AGAIN_S[-1])):
                    await self._leaving.wait()
            except TimeoutError:
                continue
            if self._leave_at_s is None or asyncio.get_running_loop().time() >= self._leave_at_s:
                return None
            await asyncio.sleep(AGAIN_S[0])

    async def _before_leaving(self, written: Awaitable[T]) -> T:
        """What `written` gives. Raises TimeoutError when the daemon will not wait any longer."""
        async with asyncio.timeout_at(self._leave_at_s) as writing:
            self._writing.add(writing)
            try:
                return await written
            finally:
                self._writing.discard(writing)

    def _outcome(self, end: _End) -> Finish:
        runtime, seal, ended = self._runtime, end.seal, end.exit
        stderr = seal.stderr if seal else ""
        return Finish(
            self.claimed.fence,
            runtime.clock.wall_ms(),
            end.klass,
            runtime.chance(),
            runtime.config.policy,
            runtime.config.limits,
            result=seal.stdout if seal else None,
            error=None if end.reason is None else "\n".join(part for part in (end.reason, stderr) if part),
            reason=end.reason,
            retry_at=end.retry_at,
            exit_code=ended.code if ended else None,
            exit_signal=ended.signal if ended else None,
            kill_reason=self._stopped,
            last_output_at=seal.last_output_at if seal else None,
            peak_memory_bytes=ended.peak_memory_bytes if ended else None,
            cpu_ms=ended.cpu_ms if ended else None,
            artifacts=(*seal.artifacts, *self._follow.records) if seal else (),
            path_missing=end.path_missing,
        )
