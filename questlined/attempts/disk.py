"""Threads for what may wait on a disk, so that the loop never does."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from questlined.wire.errors import Unavailable

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.Future[Any]]

THREADS = 6


class Disk:
    """A few threads on one queue. asyncio.to_thread does the same at three times the price, and an attempt pays it
    twice: that was a fifth of all that the loop did for one."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._begun = 0
        self._idle = asyncio.Event()
        self._idle.set()
        try:
            for number in range(threads):
                threading.Thread(target=self._run, name=f"disk-{number}", daemon=True).start()
        except RuntimeError:
            self.close()  # those that were started
            raise

    async def do(self, work: Callable[[], T]) -> T:
        """What `work` gives, called on one of the threads. Raises what it raises."""
        return await self.begin(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """The same, as a future that may be given up."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._begun += 1
        self._idle.clear()
        self._jobs.put((work, future))
        return future

    async def idle(self) -> None:
        """Returns when the threads have nothing to do, not even what nobody waits for any more."""
        await self._idle.wait()

    def close(self) -> None:
        """Let the threads end when they have done what was asked. Nobody waits for one that hangs."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, future = job
            answer, error = None, None
            try:
                answer = work()
            except Exception as fault:
                error = fault
            try:
                self._loop.call_soon_threadsafe(self._done, future, answer, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _done(self, future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
        self._begun -= 1
        if not self._begun:
            self._idle.set()
        _settle(future, answer, error)


class ForClients:
    """Threads that look at a disk for clients, made by `start` or when the first one asks: what hangs for them keeps
    nobody else, nor the end of the daemon."""

    def __init__(self, threads: int) -> None:
        self._threads, self._free = threads, asyncio.Semaphore(threads)
        self._disk: Disk | None = None

    def start(self) -> Disk:
        """Have the threads: when one is wanted later there may be none to be had. Raises Unavailable."""
        if self._disk is None:
            try:
                self._disk = Disk(self._threads)
            except RuntimeError as error:
                hint = "try again, or raise the limit of processes (ulimit -u, TasksMax=)"
                raise Unavailable(f"no thread can be had: {error}", hint=hint) from error
        return self._disk

    async def do(self, work: Callable[[], T]) -> T:
        """What `work` gives, called on one of the threads. Raises what it raises.

        Who is given up while it waits for a thread leaves nothing behind, however often that happens."""
        disk = self.start()
        await self._free.acquire()
        doing = disk.begin(work)
        doing.add_done_callback(self._over)
        return await asyncio.shield(doing)

    def _over(self, doing: asyncio.Future[Any]) -> None:
        self._free.release()
        if not doing.cancelled():
            doing.exception()  # where its caller was given up nobody else asks, and asyncio would say so in the log

    async def idle(self) -> None:
        """Returns when no thread has anything to do."""
        if self._disk is not None:
            await self._disk.idle()

    def close(self) -> None:
        """Let the threads end."""
        if self._disk is not None:
            self._disk.close()


def _settle(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
