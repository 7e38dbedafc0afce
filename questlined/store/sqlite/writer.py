"""The writer thread: the only connection that writes. Concurrent operations share a transaction (group commit), a
savepoint each, and are answered after COMMIT.

After an error the connection says what is left: still in a transaction, the operation alone is rolled back and the
batch goes on; not in one, SQLite has rolled all of it back, and nothing of the batch was written. An I/O error at
COMMIT leaves the outcome unknown: nobody is answered, the daemon ends, and clients repeat by requestId. Not so where a
write was refused, as on a disk that has become read-only: what commits a transaction is its last write.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from questlined import probes
from questlined.clock import Clock
from questlined.store.effects import Effects
from questlined.store.protocol import Token
from questlined.store.sqlite.requests import Operation, keep_error
from questlined.wire.errors import QuestlineError, StoreFull, Unavailable

R = TypeVar("R")
T = TypeVar("T")
log = logging.getLogger(__name__)

BATCH_MAX = 256
BUSY_GIVE_UP_MS = 30_000
LATER_S = 0.02


class _BatchVoid(Exception):
    """SQLite has rolled the whole transaction back. `fault` is why, `at_commit` whether COMMIT itself failed."""

    def __init__(self, fault: sqlite3.Error, *, at_commit: bool) -> None:
        self.fault, self.at_commit = fault, at_commit


@dataclass(slots=True, eq=False)
class _Job:
    operation: Operation[Any, Any]
    request: Any
    token: Token | None
    now: int
    future: asyncio.Future[Any]
    answer: Any = None
    error: Exception | None = None
    effects: Effects | None = None


def _neighbours(batch: list[_Job]) -> Iterator[tuple[Operation[Any, Any], list[_Job]]]:
    """The batch in its order, those that follow one another of a kind that can be done together as one piece."""
    for operation, jobs in groupby(batch, key=lambda job: job.operation):
        if operation.together is not None:
            yield operation, list(jobs)
        else:
            yield from ((operation, [job]) for job in jobs)


class Writer:
    """Owns `db` and its thread. `on_commit` gets each batch's effects, on the loop, before any of its answers."""

    def __init__(
        self,
        db: sqlite3.Connection,
        clock: Clock,
        on_commit: Callable[[Effects], None],
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._on_commit, self._on_fatal = on_commit, on_fatal
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Job] = []  # submitted, not yet handed to the thread
        self._soon = False  # they will be at the end of this turn of the loop
        self._timer: asyncio.TimerHandle | None = None  # or when this rings
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._dead = False
        self._closing = False  # nobody waits for another program's lock any more
        self.busy_since_ms: int | None = None  # monotonic; another program holds the database
        self.at_work_since_ms: int | None = None  # monotonic; the transaction under way began
        self.failing: str | None = None  # why the last write could not be done
        self._thread.start()

    def submit(
        self, operation: Operation[R, T], request: R, *, token: Token | None = None, later: bool = False
    ) -> asyncio.Future[T]:
        """Run an operation; its answer comes after COMMIT, or what it raises, StoreFull or Unavailable.

        What is submitted in one turn of the loop shares a transaction, in its order; above BATCH_MAX several. `later`:
        nobody waits for this one, so it may wait up to LATER_S for others to share theirs.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._gathered.append(_Job(operation, request, token, self._clock.wall_ms(), future))
        if later and not self._soon:
            self._timer = self._timer or self._loop.call_later(LATER_S, self._hand_over)
        elif not self._soon:
            self._soon = True
            self._loop.call_soon(self._hand_over)
        return future

    def _hand_over(self) -> None:
        """Give the thread what was gathered."""
        if self._timer is not None:
            self._timer.cancel()
        self._soon, self._timer = False, None
        for first in range(0, len(self._gathered), BATCH_MAX):
            self._queue.put(self._gathered[first : first + BATCH_MAX])
        self._gathered = []

    async def close(self) -> None:
        """Finish what was submitted, then close the connection."""
        self._closing = True
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        ending = False
        while not ending:
            batch = (jobs := self._queue.get()) or []
            ending = jobs is None
            while not ending and len(batch) < BATCH_MAX:
                try:
                    jobs = self._queue.get_nowait()
                except queue.Empty:
                    break
                if jobs is None:
                    ending = True
                else:
                    batch += jobs
            if batch and not self._dead:
                self._attempt(batch)
            del batch, jobs  # or they are kept until somebody asks for something else
        self._db.close()

    def _attempt(self, batch: list[_Job]) -> None:
        self.at_work_since_ms = self._clock.monotonic_ms()
        try:
            self._transact(batch)
        except _BatchVoid as void:
            if isinstance(void.fault, sqlite3.IntegrityError) and len(batch) > 1:
                for job in batch:
                    self._attempt([job])
                return
            self._void(batch, void)
        except Exception as error:
            log.critical("the writer failed", exc_info=error)
            self._die(error)
            return
        finally:
            self.at_work_since_ms = None
        if not self._dead:
            self._loop.call_soon_threadsafe(self._deliver, batch)

    def _transact(self, batch: list[_Job]) -> None:
        """One transaction for all of `batch`. Raises _BatchVoid."""
        before = self._db.total_changes if self.failing is not None else 0
        if not self._begin(batch):
            return
        if not self._straight(batch):
            self._roll_back()
            if not self._begin(batch):
                return
            for job in batch:
                self._savepoint(job)
        if probes.armed:
            probes.reached("commit.before")
        wrote = self.failing is not None and self._db.total_changes > before
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as fault:
            self._roll_back()
            raise _BatchVoid(fault, at_commit=True) from fault
        if wrote:
            log.warning("the database is written again", extra={"fields": {"QUESTLINE_EVENT": "store_back"}})
            self.failing = None
        if probes.armed:
            probes.reached("commit.after")
            for job in batch:
                probes.reached(f"{job.operation.name}.after")

    def _begin(self, batch: list[_Job]) -> bool:
        """BEGIN IMMEDIATE, waiting for other programs up to a bound; past it the batch is told Unavailable."""
        started = self._clock.monotonic_ms()
        while True:
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise _BatchVoid(error, at_commit=False) from error
                self.busy_since_ms = self.busy_since_ms or self._clock.monotonic_ms()
                if self._closing or self._clock.monotonic_ms() - started > BUSY_GIVE_UP_MS:
                    self._refuse(batch)
                    return False
            else:
                self.busy_since_ms = None
                return True

    @staticmethod
    def _refuse(batch: list[_Job]) -> None:
        """Another program holds the database for too long: nothing of the batch was written, or is any more."""
        for job in batch:
            job.answer, job.effects = None, None
            job.error = Unavailable(
                "another program holds the database", hint="find it with: fuser -v FILE", retryAfterMs=1000
            )

    def _straight(self, batch: list[_Job]) -> bool:
        """Every operation without a savepoint: a third of the statements less; neighbours of a kind that can be done
        together are. False where one fails, which is rare, and then all of them must be undone and done again with one
        each."""
        try:
            for operation, jobs in _neighbours(batch):
                effects = jobs[0].effects = Effects()
                asked = [(job.request, job.token, job.now) for job in jobs]
                for job, answer in zip(jobs, operation.perform_all(self._db, asked, effects), strict=True):
                    refused = isinstance(answer, QuestlineError)
                    job.answer, job.error = (None, answer) if refused else (answer, None)
                    if probes.armed:
                        probes.reached(f"{operation.name}.before")
        except Exception:  # it comes again, and is looked at then
            return False
        return True

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _savepoint(self, job: _Job) -> None:
        """One operation. Its own error undoes it alone; raises _BatchVoid where SQLite undid everything."""
        db, effects = self._db, Effects()
        job.answer, job.error, job.effects = None, None, effects
        db.execute("SAVEPOINT operation")
        try:
            job.answer = job.operation.perform(db, job.request, job.token, effects, job.now)
            if probes.armed:
                probes.reached(f"{job.operation.name}.before")
            db.execute("RELEASE operation")
            return
        except sqlite3.Error as fault:
            if not db.in_transaction:
                raise _BatchVoid(fault, at_commit=False) from fault
            job.error = self._translate(fault)
        except QuestlineError as error:
            job.error = error
        except Exception as error:
            log.error("operation %s failed", job.operation.name, exc_info=error)
            job.error = error
        self._undo(job)

    def _undo(self, job: _Job) -> None:
        """Take one operation back and keep its error for its token. Raises _BatchVoid where that fails."""
        db, error = self._db, job.error
        job.effects = None
        try:
            db.execute("ROLLBACK TO operation")
            db.execute("RELEASE operation")
            if job.token is not None and isinstance(error, QuestlineError):
                keep_error(db, job.token, error, job.now)
        except sqlite3.Error as fault:
            self._roll_back()
            raise _BatchVoid(fault, at_commit=False) from fault

    def _void(self, batch: list[_Job], void: _BatchVoid) -> None:
        code = getattr(void.fault, "sqlite_errorcode", 0)
        unknown = void.at_commit and code & 0xFF == sqlite3.SQLITE_IOERR and code != sqlite3.SQLITE_IOERR_WRITE
        if unknown or code & 0xFF == sqlite3.SQLITE_CORRUPT:
            log.critical("the database failed, the outcome of the last writes is unknown: %s", void.fault)
            self._die(void.fault)
            return
        error = self._translate(void.fault)
        if isinstance(error, Unavailable):
            if self.failing is None:
                fields = {"QUESTLINE_EVENT": "store_refused"}
                log.error("nothing is written for now: %s", error, extra={"fields": fields})
            self.failing = str(error)
        for job in batch:
            job.answer, job.error, job.effects = None, error, None

    def _translate(self, fault: sqlite3.Error) -> Exception:
        code = getattr(fault, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return StoreFull(
                "the disk is full; nothing was written",
                hint="free some space and repeat the command",
                setting="disk.min_free_bytes",
                retryAfterMs=5000,
            )
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY):
            return Unavailable(
                f"the database cannot be written: {fault}",
                hint="see the daemon's log; is the disk well?",
                retryAfterMs=5000,
            )
        return fault

    def _die(self, error: Exception) -> None:
        self._dead = True
        self._loop.call_soon_threadsafe(self._on_fatal, error)

    def _deliver(self, batch: list[_Job]) -> None:
        merged = Effects()
        for job in batch:
            if job.effects is not None:
                merged.merge(job.effects)
        self._on_commit(merged)
        for job in batch:
            if job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.answer)
