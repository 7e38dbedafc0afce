"""Opening the database: the checks that refuse a file, and the pragmas of each connection."""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path

from questlined.store.sqlite import migrate
from questlined.store.sqlite.refusals import RefusedDatabase
from questlined.wire.errors import Unavailable

SQLITE_MIN = (3, 38, 0)
BUSY_MS = 250  # the writer's loop tries again, so that it can say that it still lives
CHECKED_BYTES = 128 * 1024 * 1024  # a larger file is not read through at start; health and use find its faults
MOUNTINFO = Path("/proc/self/mountinfo")
NETWORK_FILESYSTEMS = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "gpfs",
        "orangefs",
        "ncpfs",
        "beegfs",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.gcsfuse",
        "virtiofs",
        "vboxsf",
    }
)


def filesystem_of(path: Path, mountinfo: str) -> str:
    """The type of the filesystem that holds `path`, from the text of /proc/self/mountinfo."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        mount = _unescaped(left.split(" ")[4])
        inside = mount == "/" or str(path) == mount or str(path).startswith(mount + "/")
        if inside and len(mount) >= best:  # the later of two mounts on one point is the visible one
            best, found = len(mount), right.split(" ")[0]
    return found


def _unescaped(name: str) -> str:
    """A name without the kernel's octal escapes for space, tab, newline and backslash."""
    raw = name.encode("utf-8", "surrogateescape")
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), raw))


def refuse_network(path: Path) -> None:
    """WAL needs shared memory between processes, which network filesystems do not give. Raises RefusedDatabase."""
    kind = filesystem_of(path.resolve().parent, MOUNTINFO.read_text("utf-8", "surrogateescape"))
    if kind in NETWORK_FILESYSTEMS:
        raise RefusedDatabase(
            f"{path} is on {kind}, a network filesystem: locks and shared memory do not hold there",
            hint="keep the state on a local disk: set QUESTLINED_STATE or store.path",
        )


def _refuse_damaged(path: Path, error: sqlite3.DatabaseError | str) -> RefusedDatabase:
    return RefusedDatabase(
        f"{path} is damaged or no SQLite database: {error}",
        hint=f"nothing was changed; move it away, or bring back a backup, or try: sqlite3 {path} .recover",
    )


def open_writer(path: Path, *, store_uuid: str, now: int) -> sqlite3.Connection:
    """The connection that writes and checkpoints, with its schema brought up to date. Raises RefusedDatabase."""
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise RefusedDatabase(f"SQLite {sqlite3.sqlite_version} is too old", hint="use SQLite 3.38 or newer")
    refuse_network(path)
    try:
        # Made here so that it is readable by others not for an instant; SQLite gives -wal and -shm the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="choose another place for store.path") from error
    try:
        _refuse_unfit(path)
        return _writer(path, store_uuid, now)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
            raise Unavailable(
                f"{path} cannot be opened: {error}", hint="is the disk full, or the file in use?"
            ) from error
        raise _refuse_damaged(path, error) from error


def examine(path: Path) -> None:
    """Whether this program could go on with a database that another one has open. Raises Unavailable."""
    try:
        db = sqlite3.connect(f"file:{_escaped(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            migrate.refuse_foreign(db, path)
        finally:
            db.close()
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"{path} cannot be read: {error}", hint="qlctl health tells how the daemon does") from error


def _refuse_unfit(path: Path) -> None:
    """Look at what is there through a connection that cannot change it, not even by a checkpoint at its close."""
    # A log beside it must be read, too. Without one, `immutable` keeps SQLite from making one.
    real = path.resolve()
    logs = [real.with_name(real.name + end) for end in ("-wal", "-journal")]
    try:
        _look(path, "mode=ro" if any(log.exists() for log in logs) else "mode=ro&immutable=1")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        # A transaction was cut off, ours while the file was being made, for instance. What was there before it can
        # only be seen when it is rolled back, which any program does that opens the file.
        _look(path, "mode=rw")


def _look(path: Path, how: str) -> None:
    db = sqlite3.connect(f"file:{_escaped(path)}?{how}", uri=True, isolation_level=None)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if path.stat().st_size <= CHECKED_BYTES:
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise _refuse_damaged(path, found)
        migrate.refuse_foreign(db, path)
    finally:
        db.close()


def _writer(path: Path, store_uuid: str, now: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        db.execute("PRAGMA journal_mode = wal")
        db.execute("PRAGMA synchronous = full")
        db.execute("PRAGMA foreign_keys = on")
        db.execute("PRAGMA cache_size = -6000")
        db.execute("PRAGMA temp_store = memory")
        db.execute("PRAGMA journal_size_limit = 67108864")
        # A page is often written again before that, and is then copied into the file once for all. 16 MB are what the
        # first piece of the log's index holds: reads do not get slower.
        db.execute("PRAGMA wal_autocheckpoint = 4000")
        migrate.upgrade(db, store_uuid=store_uuid, now=now)
        migrate.make_touched(db)
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads; it never checkpoints."""
    db = sqlite3.connect(
        f"file:{_escaped(path)}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, cached_statements=128
    )
    db.execute("PRAGMA busy_timeout = 5000")
    db.execute("PRAGMA query_only = on")
    db.execute("PRAGMA cache_size = -2000")
    return db


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
