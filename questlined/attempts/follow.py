"""Watching an attempt's output while it runs: the pipe or the file, its bound, and the clocks that silence stops."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Protocol

from questlined.attempts.output import STREAMS, Files
from questlined.attempts.records import Recorder
from questlined.attempts.runtime import Runtime
from questlined.config.shape import Executor
from questlined.procs import pump
from questlined.store.protocol import Claimed, Sealed

log = logging.getLogger(__name__)
LOOK_S = 1.0


class Stop(Protocol):
    """Attempt.stop."""

    def __call__(self, reason: str, *, at_once: bool = False) -> None: ...


class Follow:
    """One attempt's output and clocks. Everything runs on the loop's thread."""

    def __init__(self, runtime: Runtime, claimed: Claimed, executor: Executor, stop: Stop) -> None:
        self._runtime, self._claimed, self._executor, self._stop = runtime, claimed, executor, stop
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._sizes = dict.fromkeys(STREAMS, 0)
        self._sources: dict[str, int] = {}
        self._for_child: list[int] = []
        self._files: Files | None = None
        self._watched: list[str] = []
        self._piped = executor.piped
        self._ended = asyncio.Event()
        self._recorder: Recorder | None = None
        self._last_output_s: float | None = None
        self.last_output_at: int | None = None
        self.failed: OSError | None = None
        self.records: tuple[Sealed, ...] = ()  # the index, if the attempt has one

    def ends(self, files: Files) -> tuple[int, int]:
        """The child's stdout and stderr: the files, or pipes into them. Raises OSError."""
        if not self._piped:
            return files.stdout, files.stderr
        for name in STREAMS:
            source, for_child = pump.open_pipe()
            self._sources[name] = source
            self._for_child.append(for_child)
        return self._for_child[0], self._for_child[1]

    def opened(self, files: Files, *, running: bool) -> None:
        """The child has its ends and ours of them are closed; where it does not run, all that was opened is."""
        self._files = files
        for descriptor in self._for_child:
            os.close(descriptor)
        self._for_child.clear()
        if not running:
            for source in self._sources.values():
                os.close(source)
            self._sources.clear()
            files.close()
            self._files = None

    def resume(self, files: Files, sources: Mapping[str, int], ran_ms: int) -> None:
        """Go on with an attempt that has run for `ran_ms` under an earlier daemon. Raises OSError, as `begin`."""
        self._files, self._sources, self._piped = files, dict(sources), bool(sources)
        for name, descriptor in (("stdout", files.stdout), ("stderr", files.stderr)):
            self._sizes[name] = os.fstat(descriptor).st_size
        if any(self._sizes.values()):
            written = max(os.fstat(each).st_mtime_ns for each in (files.stdout, files.stderr)) // 1_000_000
            self.last_output_at = min(written, self._runtime.clock.wall_ms())
            self._last_output_s = self._loop.time() - (self._runtime.clock.wall_ms() - self.last_output_at) / 1000
        self.begin(ran_ms)
        if self._recorder is not None:
            self._recorder.grew()

    def begin(self, ran_ms: int = 0) -> None:
        """Start the clocks, and follow what is written. `ran_ms` of them have passed already."""
        executor, files = self._executor, self._files
        assert files is not None
        self._recorder = self._runtime.records.open(self._claimed, files)
        self._arm("timeout", self._claimed.quest.timeout_ms or executor.timeout_ms, ran_ms)
        if self._last_output_s is None:
            self._arm("start_timeout", executor.first_output_timeout_ms, ran_ms)
            self._arm("idle", executor.idle_timeout_ms, ran_ms)
        else:
            self._arm("idle", executor.idle_timeout_ms, round(1000 * (self._loop.time() - self._last_output_s)))
        if self._piped:
            targets = {"stdout": files.stdout, "stderr": files.stderr}
            for name, source in list(self._sources.items()):
                self._runtime.pump.attach(source, targets[name], self._counter(name), self._ender(name))
            return
        self._ended.set()
        try:
            for name in STREAMS:
                self._runtime.watch.add(str(files.directory / name), self._look)
                self._watched.append(str(files.directory / name))
        except OSError as error:  # the user's watches are used up, by an editor for instance
            log.warning("output of %s cannot be watched: %s, ignoring", files.directory, error)
            self._look_again()
        self._look()  # a quick program has written before it was watched

    def end_clocks(self) -> None:
        """The program has ended: no clock matters any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def broken(self, error: OSError) -> None:
        """`begin` failed halfway: let go of the pipes that nobody will read."""
        self.failed = error
        for name, source in list(self._sources.items()):
            if not self._runtime.pump.attached(source):
                os.close(source)
                del self._sources[name]
        if not self._sources:
            self._ended.set()

    async def drained(self) -> None:
        """After the sweep: returns when every byte of the attempt is in the files.

        What the pipes hold is theirs; nobody who still has an end of one, a child that was kept or a stranger that
        was given it, is waited for."""
        for source in list(self._sources.values()):
            self._runtime.pump.detach(source)
        if self._sources:
            await self._ended.wait()
        for path in self._watched:
            self._runtime.watch.remove(path)
        if self._recorder is not None:
            self.records = await self._recorder.end()
        self._files = None

    async def let_go(self) -> dict[str, int]:
        """Look no more at a program that goes on. Its pipes' ends by stream, with what was not copied yet."""
        self.end_clocks()
        pump, sources = self._runtime.pump, list(self._sources.items())
        left = {name: source for name, source in sources if await pump.release(source)}  # the others have ended
        self._sources.clear()
        for path in self._watched:
            self._runtime.watch.remove(path)
        if self._recorder is not None:
            await self._recorder.end()
        self._files = None
        return left

    def _arm(self, reason: str, delay_ms: int | None, passed_ms: int = 0) -> None:
        if delay_ms:
            left_s = max(0, delay_ms - passed_ms) / 1000
            self._timers[reason] = self._loop.call_later(left_s, self._rang, reason, delay_ms)

    def _rang(self, reason: str, delay_ms: int) -> None:
        if reason != "timeout":
            self._look()  # changes are told with some delay
        if reason == "start_timeout" and self._last_output_s is not None:
            return
        if reason == "idle":
            quiet_ms = 1000 * (self._loop.time() - (self._last_output_s or 0))
            if self._last_output_s is not None and quiet_ms < delay_ms:
                self._timers[reason] = self._loop.call_later((delay_ms - quiet_ms) / 1000, self._rang, reason, delay_ms)
                return
        self._stop(reason)

    def _counter(self, name: str) -> pump.OnBytes:
        before = self._sizes[name]  # of an earlier daemon's pump

        def count(total: int) -> None:
            self._seen(name, before + total)

        return count

    def _ender(self, name: str) -> pump.OnEnd:
        def end(error: OSError | None) -> None:
            del self._sources[name]
            self.failed = self.failed or error
            if not self._sources:
                self._ended.set()

        return end

    def _look(self) -> None:
        """Whether the child's files have grown. Where there are pipes, the pump tells."""
        if self._files is None or self._piped:
            return
        for name, descriptor in (("stdout", self._files.stdout), ("stderr", self._files.stderr)):
            size = os.fstat(descriptor).st_size
            if size != self._sizes[name]:
                self._seen(name, size)

    def _look_again(self) -> None:
        """In place of a watch."""
        self._look()
        self._timers["look"] = self._loop.call_later(LOOK_S, self._look_again)

    def _seen(self, name: str, total: int) -> None:
        self._sizes[name] = total
        if self._recorder is not None:
            self._recorder.grew()
        self._last_output_s = self._loop.time()
        self.last_output_at = self._runtime.clock.wall_ms()
        first = self._timers.pop("start_timeout", None)
        if first is not None:
            first.cancel()
        if sum(self._sizes.values()) > self._executor.output_limit:
            self._stop("output_limit", at_once=True)
