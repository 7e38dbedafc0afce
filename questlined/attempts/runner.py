"""One attempt: spawn → follow → exit seen → sweep → reap → seal → classify → finish, in this order whatever happens.

A lane or slot is never free while something of the attempt lives, and its files are read when nobody writes them any
more. Whatever wants the attempt to end before its program does names its reason through `stop`; the first one counts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from questlined import probes
from questlined.attempts import output
from questlined.attempts.ending import End, judged, outcome, stopped
from questlined.attempts.execution import Execution, Left
from questlined.attempts.follow import Follow
from questlined.attempts.preparation import BadConfig, NoResources, PathGone, Prepared, prepare
from questlined.attempts.runtime import Runtime
from questlined.attempts.starting import start
from questlined.store.protocol import Claimed, Started
from questlined.wire.errors import StaleLease, StoreFull, Unavailable

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_RESOURCES_WAIT_MS = 5_000
AGAIN_S = (0.5, 1, 2, 5, 10, 30)
LEAVE_S = 10.0


class Attempt:
    """A claimed quest being run. `run` or `resume` once; `stop` any time, from the loop's thread.

    `ending` is called when nothing of it lives any more, just before its outcome is written: what is claimed from
    then on is claimed behind that, perhaps in one transaction with it.
    """

    def __init__(self, runtime: Runtime, claimed: Claimed, ending: Callable[[], None]) -> None:
        self._runtime, self.claimed, self._ending = runtime, claimed, ending
        self._executor = runtime.config.for_role(claimed.quest.role)
        self._execution: Execution | None = None
        self.resting = asyncio.Event()  # it may be let go of, or is over
        self._stopped: str | None = None
        self._starting_unit = self._letting_go = False
        self.left: Left | None = None  # what `run` left running
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
        return list(self._execution.stuck) if self._execution else []

    @property
    def grace_s(self) -> float:
        """What its executor leaves it between SIGTERM and SIGKILL."""
        return self._executor.terminate_grace_ms / 1000

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End it: `reason` is a key of REASONS. A later reason only makes the end faster, where it is `at_once`.

        A program that has ended already keeps the end it took."""
        if self._execution is not None and self._execution.exited.is_set():
            return
        first = self._stopped is None
        if first:
            self._stopped = reason
            if self._execution is not None and self._execution.survives:
                self.resting.clear()  # who finds a unit on its way down would not know why
        if self._execution is not None and (first or at_once):
            self._take_down(self._execution, at_once=at_once)

    def _take_down(self, execution: Execution, *, at_once: bool = False) -> None:
        grace_s = 0.0 if at_once else self.grace_s
        down = execution.take_down(grace_s, at_once=at_once)
        self._ladders.append(self._runtime.tasks.create_task(down))

    def leave(self, *, at_once: bool = False) -> None:
        """The daemon ends. What cannot be written within LEAVE_S, with `at_once` now, its next start settles."""
        self._leave_at_s = asyncio.get_running_loop().time() + (0 if at_once else LEAVE_S)
        self._leaving.set()
        for writing in self._writing:
            writing.reschedule(self._leave_at_s)
        if self._starting_unit:  # it is let go once it runs
            return
        if self._execution is None or not self._execution.survives:
            self.stop("interrupted", at_once=at_once)
        elif self._stopped is None or at_once:  # one on its way down is seen to its end, while there is time
            self.let_go()

    @property
    def runs(self) -> bool:
        """Whether its program runs, is recorded, and nobody has asked for its end."""
        execution = self._execution
        return (
            self.resting.is_set() and self._stopped is None and execution is not None and not execution.exited.is_set()
        )

    def let_go(self) -> None:
        """Leave the program running and its outcome to who adopts it: `run` returns, and `left` is what there is."""
        if self._execution is not None and not self._execution.exited.is_set():
            self._letting_go = True
            self._execution.let_go()

    def resume(self, left: Left) -> Coroutine[Any, Any, None]:
        """Go on with a program that an earlier daemon has let go of, to its outcome; as `run`. It is this attempt's at
        once: what stops or leaves it may come before the first step."""
        self._execution, self._stopped = left.execution, left.stopped
        self.resting.set()
        return self._resumed(left)

    async def _resumed(self, left: Left) -> None:
        end: End | None
        try:
            files = left.files
            if files is None:
                files = await self._runtime.disk.do(lambda: output.reopen(self._directory()))
        except OSError as error:
            end = await self._unseen(error)
        else:
            self._go_on(left, files)
            if left.stopped is not None:  # it was on its way down, and has perhaps arrived
                self._take_down(left.execution)
            if self.claimed.quest.cancel_requested_at is not None:
                self.stop("cancelled")
            end = await self._see_through(left.execution, files)
        await self._settle(end)

    def _go_on(self, left: Left, files: output.Files) -> None:
        self._follow.failed = left.unkept
        started_ms = round(left.execution.trace.started * 1000 / os.sysconf("SC_CLK_TCK"))
        try:
            self._follow.resume(files, left.sources, max(0, self._runtime.clock.boot_ms() - started_ms))
        except OSError as error:
            self._follow.broken(error)
            self.stop("interrupted", at_once=True)

    async def _unseen(self, error: OSError) -> End:
        """Its files cannot be had: what it does is lost, so it is ended."""
        execution = self._execution
        assert execution is not None
        self.stop("interrupted", at_once=True)
        await execution.exited.wait()
        await self._end_all(execution)
        return End("interrupted", f"its output cannot be read: {error}", await execution.reap())

    def _directory(self) -> Path:
        quest = self.claimed.quest
        return output.directory_of(self._runtime.artifacts, quest.id, quest.attempts)

    async def run(self) -> None:
        """From the lease to the outcome. Raises nothing but what a fault of ours is."""
        end: End | None
        try:
            prepared = await self._runtime.disk.do(lambda: prepare(self._runtime, self.claimed, self._executor))
        except PathGone:
            end = End("released", "the project's directory is not there", path_missing=True)
        except BadConfig as error:
            end = End("bad_config", str(error))
        except NoResources as error:
            end = self._later(str(error))
        else:
            if probes.armed:
                probes.reached("attempt.prepared")
            end = await self._execute(prepared)
        await self._settle(end)

    async def _settle(self, end: End | None) -> None:
        """Nothing of it lives any more, or it was let go."""
        if end is None:
            return
        self._ending()
        if self._stopped != "stale":
            await self._finish(end)

    def _later(self, reason: str) -> End:
        log.warning("%s cannot be started now: %s, ignoring", self.claimed.quest.id, reason, extra=self.claimed.about)
        return End("released", reason, retry_at=self._runtime.clock.wall_ms() + NO_RESOURCES_WAIT_MS)

    async def _execute(self, prepared: Prepared) -> End | None:
        try:
            if self._stopped is not None:
                return stopped(self._stopped)
            failed = await self._start(prepared)
            if failed is not None:
                return failed
        finally:
            self._follow.opened(prepared.files, running=self._execution is not None)
        execution = self._execution
        assert execution is not None
        if probes.armed:
            probes.reached("attempt.spawned")
        self._runtime.tasks.create_task(self._record(execution))
        try:
            self._follow.begin()
        except OSError as error:  # out of descriptors: it runs where nobody reads it
            self._follow.broken(error)
            self.stop("interrupted", at_once=True)
        return await self._see_through(execution, prepared.files)

    async def _start(self, prepared: Prepared) -> End | None:
        """Start the program; what stands in the way, or None."""
        self._starting_unit = self._executor.isolation == "unit"
        try:
            ends = self._follow.ends(prepared.files)
            execution = await start(self._runtime, prepared, self._executor, self.claimed, ends)
        except PathGone as error:
            return End("released", str(error), path_missing=True)
        except BadConfig as error:
            return End("bad_config", str(error))
        except NoResources as error:
            return self._later(str(error))
        except OSError as error:  # no descriptors for its pipes
            return self._later(f"{error.strerror}")
        finally:
            self._starting_unit = False
        self._execution = execution
        if self._stopped is not None:  # while it was being started
            self._take_down(execution)
        elif self._leaving.is_set():
            self.let_go()
        return None

    async def _record(self, execution: Execution) -> None:
        """Keep who it is, so that a later daemon finds it; a cancel that came before we knew it is seen here."""
        runtime, trace = self._runtime, execution.trace
        started = Started(
            self.claimed.fence,
            runtime.clock.wall_ms(),
            trace.pid,
            trace.started,
            runtime.boot_id,
            trace.cgroup,
            trace.unit,
        )
        try:
            if await self._patiently(lambda: runtime.store.started(started), "pid"):
                self.stop("cancelled")
        except StaleLease:
            # Over before this was written, or somebody else's: nothing of it may live on.
            self.stop("stale", at_once=True)
        if not execution.exited.is_set() and not (self._stopped and execution.survives):
            self.resting.set()

    async def _see_through(self, execution: Execution, files: output.Files) -> End | None:
        """To the end of all of it, or until it is let go: then None."""
        await execution.exited.wait()
        if self._letting_go:
            sources = await self._follow.let_go()
            self.left = Left(execution, files, sources, stopped=self._stopped, unkept=self._follow.failed)
            return None
        self.resting.clear()
        self._follow.end_clocks()
        if probes.armed:
            probes.reached("attempt.exited")
        return await self._gather(execution, files)

    async def _end_all(self, execution: Execution) -> None:
        await execution.sweep(self._executor.keep_children)
        for ladder in self._ladders:
            await ladder

    async def _gather(self, execution: Execution, files: output.Files) -> End:
        """Down to the last process, then the exit status and the files."""
        await self._end_all(execution)
        if probes.armed:
            probes.reached("attempt.swept")
        ended = await execution.reap()
        if probes.armed:
            probes.reached("attempt.reaped")
        await self._follow.drained()
        executor = self._executor
        whole, preview = executor.max_inline_output_bytes, executor.output_preview_bytes
        seal = output.seal_silent(files)
        if seal is None:
            seal = await self._runtime.disk.do(lambda: output.seal(files, whole=whole, preview=preview))
        files.close()
        if probes.armed:
            probes.reached("attempt.sealed")
        return judged(self._stopped, self._follow.failed, executor.output_limit, ended, seal)

    async def _finish(self, end: End) -> None:
        """Write the outcome; a lost lease is somebody else's story."""
        request = outcome(self._runtime, self.claimed.fence, end, self._stopped, self._follow.records)
        try:
            await self._patiently(lambda: self._runtime.store.finish(request), "end")
        except StaleLease:
            whose, about = self.claimed.quest.id, self.claimed.about
            log.warning("%s: its lease was lost, ignoring its end as %s", whose, end.klass, extra=about)

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
                    whose, about = self.claimed.quest.id, self.claimed.about
                    log.warning("%s: its %s cannot be written yet: %s", whose, what, error, extra=about)
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
