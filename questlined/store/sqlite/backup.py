"""Copies of the whole database, made beside the writer's work: one snapshot each, complete or not there at all."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import tempfile
import threading
from pathlib import Path

from questlined.store.sqlite import connection
from questlined.store.sqlite.statements import Family, value
from questlined.wire.errors import Busy, InvalidInput, QuestlineError, StoreFull, Unavailable

PAGES_A_STEP = 2048  # 8 MiB: between two steps the end of the daemon is looked for
UNFINISHED = ".questlined-backup-"  # how the name of a copy begins until it is whole

_sql = Family("health")
_bytes = _sql.one("page_size", value)
_quick_check = _sql.one("quick_check", value)


class Backups:
    """Copies the database at `path`, one at a time, each on a thread that nobody waits for when the daemon ends. `name`
    tells its unfinished copies from those of another store."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._unfinished = path, f"{UNFINISHED}{name}-"
        self._under_way: Path | None = None
        self._ending = threading.Event()

    async def make(self, target: Path, reserve: int) -> int:
        """Write the new file `target`, mode 0600, flushed to its disk; its size. Where it shares a disk with the
        database, `reserve` bytes stay free. Raises Busy, InvalidInput (it exists), StoreFull, Unavailable."""
        if self._under_way is not None:
            raise Busy(f"a backup to {self._under_way} is under way", hint="try again when it is done")
        self._under_way = target
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def work() -> None:
            size, error = 0, None
            try:
                size = self._copied(target, reserve)
            except Exception as fault:
                error = _told(target, fault)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._settle, done, size, error)

        try:
            threading.Thread(target=work, name="backup", daemon=True).start()
        except RuntimeError as error:
            self._under_way = None
            raise Unavailable(f"no thread can be had: {error}", hint="try again later") from error
        return await done

    def close(self) -> None:
        """Give up what is under way."""
        self._ending.set()

    def _settle(self, done: asyncio.Future[int], size: int, error: Exception | None) -> None:
        self._under_way = None
        if done.done():
            return
        if error is None:
            done.set_result(size)
        else:
            done.set_exception(error)

    def _copied(self, target: Path, reserve: int) -> int:
        _refuse_existing(target)
        source = connection.open_reader(self._path)
        try:
            # One read transaction from the first look to the last page: whatever is written meanwhile, the copy has
            # what was committed now, and the steps need not begin anew.
            source.execute("BEGIN")
            _refuse_without_space(self._path, target, _bytes(source) or 0, reserve)
            self._remove_unfinished(target.parent)
            descriptor, name = tempfile.mkstemp(prefix=self._unfinished, dir=target.parent)
            try:
                self._fill(source, name)
                os.fsync(descriptor)
                _publish(Path(name), target)
                return os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(name)
        finally:
            source.close()

    def _remove_unfinished(self, folder: Path) -> None:
        """What a daemon left that was killed meanwhile; there is no other copy under way now."""
        for path in folder.glob(f"{self._unfinished}*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def _fill(self, source: sqlite3.Connection, name: str) -> None:
        """Copy into the empty file `name`, and look whether it is sound."""
        copy = sqlite3.connect(name, isolation_level=None)
        try:
            # Nobody else knows the file, and it counts once it is whole and flushed.
            for pragma in ("locking_mode = exclusive", "synchronous = off", "journal_mode = off"):
                copy.execute(f"PRAGMA {pragma}")
            source.backup(copy, pages=PAGES_A_STEP, progress=self._go_on, sleep=0)
            # The file says that it has a log beside it, as the database has: a copy is to be one file.
            copy.execute("PRAGMA journal_mode = delete")
            found = _quick_check(copy)
        finally:
            copy.close()
        if found != "ok":
            raise Unavailable(f"the copy is damaged, and so is the database: {found}", hint="see: qlctl health")

    def _go_on(self, _status: int, _remaining: int, _total: int) -> None:
        if self._ending.is_set():
            raise Unavailable("the daemon ends, and the backup with it", hint="try again when it is back")


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise InvalidInput(f"file: {target} exists already", hint="name a file that does not", field="file")


def _refuse_without_space(database: Path, target: Path, size: int, reserve: int) -> None:
    where = os.statvfs(target.parent)
    free = where.f_bavail * where.f_frsize
    if os.stat(target.parent).st_dev != os.stat(database).st_dev:
        reserve = 0
    if free < size + reserve:
        kept = f", and {reserve >> 20} MiB are to stay free (disk.min_free_bytes)" if reserve else ""
        raise StoreFull(
            f"no space for a backup in {target.parent}: it takes {size >> 20} MiB, {free >> 20} MiB are free{kept}",
            hint="free some, or name a file on another disk",
        )


def _publish(whole: Path, target: Path) -> None:
    """Give the file its name, which must be free, for good."""
    try:
        os.link(whole, target)
    except FileExistsError:
        _refuse_existing(target)
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # a filesystem without hard links
        _refuse_existing(target)
        whole.rename(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _told(target: Path, fault: Exception) -> QuestlineError:
    """What went wrong, for the one who asked for the copy."""
    if isinstance(fault, QuestlineError):
        return fault
    if isinstance(fault, OSError):
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        what = f"{fault.filename or target}: {fault.strerror}"
    else:
        full = isinstance(fault, sqlite3.Error) and getattr(fault, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
        what = f"{target}: {fault}"
    cls = StoreFull if full else Unavailable
    return cls(f"no backup was made: {what}", hint="may the daemon write there, and is there space?")
