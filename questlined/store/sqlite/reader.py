"""The reader thread: short read-only transactions, each on one snapshot."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]


class Reader:
    """Owns `db` and its thread."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    async def submit(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Run `read` on one snapshot. Raises what it raises."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((read, future))
        return await future

    async def close(self) -> None:
        """Finish what was submitted, then close the connection."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            read, future = job
            answer, error = None, None
            try:
                self._db.execute("BEGIN")
                try:
                    answer = read(self._db)
                finally:
                    self._db.execute("COMMIT")
            except Exception as fault:
                error = fault
            self._loop.call_soon_threadsafe(_settle, future, answer, error)
            del job, read, future, answer, error  # or they are kept until somebody asks for something else
        self._db.close()


def _settle(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
