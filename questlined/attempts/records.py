"""Attempts' records while they come: who writes their indexes, and who waits for them. Everything here runs on the
loop's thread; what touches a disk is done by others.

Nothing is done for an attempt that is over before a first look is due: a quick one has no index.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from questlined.attempts import index
from questlined.attempts.disk import Disk, ForClients
from questlined.attempts.index import Index
from questlined.attempts.output import Files, directory_of
from questlined.attempts.pages import Ended
from questlined.clock import Clock
from questlined.procs.watch import Watch
from questlined.store.protocol import Claimed, Sealed

log = logging.getLogger(__name__)
T = TypeVar("T")
READ_S = 0.02  # between two looks at an attempt that somebody reads
UNREAD_S = 0.1
AGAIN_S = 1.0  # after a look that failed
SURVEYED_MAX = 256
READERS = 2  # threads that read for clients, so that a disk which hangs for them keeps none of an attempt


class Records:
    """Recorders of what runs, and readers by quest."""

    def __init__(self, tasks: asyncio.TaskGroup, clock: Clock, watch: Watch, disk: Disk, artifacts: Path) -> None:
        self.tasks, self.clock, self.disk = tasks, clock, disk
        self._watch, self._artifacts = watch, artifacts
        self._recorders: dict[str, Recorder] = {}
        self._readers: dict[str, list[asyncio.Event]] = {}
        self._reading = ForClients(READERS)
        self._surveyed: dict[tuple[str, int], Ended] = {}

    def surveyed(self, quest: str, attempt: int) -> Ended | None:
        """What was kept of an attempt that is over."""
        return self._surveyed.get((quest, attempt))

    def keep(self, quest: str, attempt: int, ended: Ended) -> None:
        """An index that grows no more need not be surveyed again for the next page that somebody asks for."""
        if len(self._surveyed) >= SURVEYED_MAX:
            del self._surveyed[next(iter(self._surveyed))]
        self._surveyed[quest, attempt] = ended

    def directory(self, quest: str, attempt: int) -> Path:
        """Where an attempt that runs has its files, if it has any."""
        return directory_of(self._artifacts, quest, attempt)

    def open(self, claimed: Claimed, files: Files) -> Recorder:
        """The recorder of an attempt that begins. End it with `end`."""
        recorder = Recorder(self, claimed.quest.id, claimed.run.started_at, files)
        self._recorders[claimed.quest.id] = recorder
        return recorder

    def drop(self, recorder: Recorder) -> None:
        """It records no more."""
        if self._recorders.get(recorder.quest) is recorder:
            del self._recorders[recorder.quest]

    def cancelling(self, quest: str) -> None:
        """The quest's running attempt is asked to stop: a record of its own."""
        recorder = self._recorders.get(quest)
        if recorder is not None:
            recorder.cancelling()

    def has_readers(self, quest: str) -> bool:
        """Whether somebody waits for what comes of this quest."""
        return quest in self._readers

    @contextmanager
    def reading(self, quest: str, grown: asyncio.Event) -> Iterator[None]:
        """`grown` is set when there are more records of the quest's running attempt; what is there now is looked for at
        once."""
        if not self._readers:
            self._watch.pace(READ_S)
        self._readers.setdefault(quest, []).append(grown)
        recorder = self._recorders.get(quest)
        if recorder is not None:
            recorder.hurry()
        try:
            yield
        finally:
            self._readers[quest].remove(grown)
            if not self._readers[quest]:
                del self._readers[quest]
            if not self._readers:
                self._watch.pace(UNREAD_S)

    def tell(self, quest: str) -> None:
        """There are more records."""
        for grown in self._readers.get(quest, ()):
            grown.set()

    async def read(self, work: Callable[[], T]) -> T:
        """What `work` gives, called on a thread that reads for clients. Raises what it raises."""
        return await self._reading.do(work)

    async def idle(self) -> None:
        """Returns when nothing is read for a client."""
        await self._reading.idle()

    def close(self) -> None:
        """Let the threads end."""
        self._reading.close()


class Recorder:
    """Keeps the index of one attempt while it runs: one look at a time, and one more for all that came meanwhile."""

    def __init__(self, records: Records, quest: str, started_at: int, files: Files) -> None:
        self.quest = quest
        self._records, self._started_at, self._files = records, started_at, files
        self._loop = asyncio.get_running_loop()
        self._index: Index | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._next_s = 0.0  # the earliest moment of the next look
        self._grown = self._cancelling = self._failed = self._ended = False
        self._asked_to_stop = False

    def grew(self) -> None:
        """There is more output than was seen."""
        self._grown = True
        if self._timer is None and self._looking is None and not self._ended:
            self._plan()

    def hurry(self) -> None:
        """Somebody wants what there is now. Who asks again and again is no reason for looks without a pause."""
        self._grown = True
        if self._looking is None and not self._ended:
            self._at(self._next_s - self._loop.time())

    def cancelling(self) -> None:
        """The attempt is asked to stop: one record, however often that is asked."""
        if not self._asked_to_stop:
            self._asked_to_stop = self._cancelling = True
            self.hurry()

    async def end(self) -> tuple[Sealed, ...]:
        """After the attempt's last byte: nothing is appended after this. Its index, safe on disk, if it has one.

        A look that hangs is waited for: what it wrote later would have the numbers of what readers compute then."""
        self._ended = True
        self._records.drop(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            await self._looking
        if self._cancelling:  # it ended sooner than a look was due, and no file tells that this was asked
            await self._look()
        if self._index is None:
            return ()
        return await self._records.disk.do(self._index.close)

    def _plan(self) -> None:
        now = self._loop.time()
        if self._failed or self._records.has_readers(self.quest):
            self._at(self._next_s - now)
        else:
            self._at(UNREAD_S)

    def _at(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, delay_s), self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._looking = self._records.tasks.create_task(self._look())

    async def _look(self) -> None:
        """Bring the index up to what the files hold; what stands in the way costs the attempt nothing."""
        if self._index is None:
            outputs = (self._files.stdout, self._files.stderr)
            self._index = Index(self._files.directory, self._started_at, outputs)
        cancelling, self._cancelling, self._grown = self._cancelling, False, False
        observe = partial(self._index.observe, self._records.clock.wall_ms(), cancelling=cancelling)
        self._next_s = self._loop.time() + READ_S
        try:
            appended = await self._records.disk.do(observe)
        except OSError as error:
            self._cancelling = cancelling or self._cancelling
            self._fail(error)
        else:
            self._failed = False
            self._grown = self._grown or appended >= index.AT_ONCE
            if appended:
                self._records.tell(self.quest)
        self._looking = None
        if self._grown and not self._ended:
            self._plan()

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            log.warning("records of %s cannot be kept: %s, ignoring", self._files.directory, error)
        self._failed = self._grown = True
        self._next_s = self._loop.time() + AGAIN_S
