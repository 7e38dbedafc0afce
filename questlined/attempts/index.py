"""An attempt's index: what of its output was seen when, in entries of a fixed size beside its files. Calls block.

The n-th entry is the record number n, and is in the file before anybody is shown it, so that its number is the same
after a kill -9. A power cut may leave a torn or empty tail: entries count up to the first that does not say its own
number.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from questlined.attempts.output import RECORDS, STREAMS, unfinished
from questlined.store.protocol import Sealed

log = logging.getLogger(__name__)
PIECE_BYTES = 32 << 10  # the most that one entry covers
# Cuts are this far apart, each moved back to where a character begins: how many there are is known without a look.
_STEP = PIECE_BYTES - 3
_ENTRY = struct.Struct("<BBHIQQQ")
ENTRY_BYTES = _ENTRY.size
STATE, OUTPUT = 1, 2  # kinds; 0 is what a file system leaves where nothing was written
RUNNING, CANCELLING = 0, 1  # `which` of a state
STATES = ("running", "cancelling")
_SHRANK = 1
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
AT_ONCE = 4096  # entries that one look appends
# What keeps a file from being opened now, and says nothing of whether it is there.
_FOR_A_WHILE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR})

Read = Callable[[int, int], bytes]  # (offset, length) of a file


class Entry(NamedTuple):
    """One record. `which` is the stream or the state; `lost`: the file had shrunk before it; `at` is epoch ms."""

    kind: int
    which: int
    lost: int
    length: int
    offset: int
    at: int
    number: int


def began(at: int) -> Entry:
    """The first record of every attempt."""
    return Entry(STATE, RUNNING, 0, 0, 0, at, 1)


class Extent(NamedTuple):
    """A range of a file, cut into pieces of at most PIECE_BYTES at whole characters. `lost` as in Entry."""

    start: int
    end: int
    lost: bool = False

    @property
    def pieces(self) -> int:
        """How many there are."""
        return -(-(self.end - self.start) // _STEP)

    def cut(self, read: Read, piece: int) -> int:
        """Where the piece with this number begins, from 0; of the one behind the last, where that ends."""
        at = self.start + piece * _STEP
        if piece == 0 or at >= self.end:
            return min(at, self.end)
        return at - unfinished(read(at - 3, 3))


def growth(covered: int, size: int, *, shrank: bool = False) -> Extent:
    """What of a file is in no entry yet. One that has shrunk is begun anew: that it lost something is told."""
    return Extent(0, size, lost=True) if shrank or size < covered else Extent(covered, size)


class Found(NamedTuple):
    """What an index holds: its entries, and how far they cover each stream."""

    entries: int
    covered: tuple[int, int]


def entries(descriptor: int, after: int, most: int) -> list[Entry]:
    """Up to `most` entries behind the number `after`, as far as they are sound."""
    block = os.pread(descriptor, most * ENTRY_BYTES, after * ENTRY_BYTES)
    return list(_sound(block, after))


def _sound(block: bytes, after: int) -> Iterator[Entry]:
    whole = memoryview(block)[: len(block) - len(block) % ENTRY_BYTES]
    for expected, values in enumerate(_ENTRY.iter_unpack(whole), after + 1):
        kind, which, _, length, _, _, number = values
        if number != expected or kind not in (STATE, OUTPUT) or which > 1 or length > PIECE_BYTES:
            return
        yield Entry._make(values)


def survey(descriptor: int) -> Found:
    """Read an index through."""
    number, covered = 0, [0, 0]
    while found := entries(descriptor, number, AT_ONCE):
        for entry in found:
            if entry.kind == OUTPUT:
                covered[entry.which] = entry.offset + entry.length
        number += len(found)
    return Found(number, (covered[0], covered[1]))


def opened(path: Path) -> int | None:
    """A descriptor for reading; None where there is no such file, whatever else somebody has put in its place. Raises
    OSError where that cannot be told now: an index that is taken for none would give its records other numbers."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _FOR_A_WHILE:
            raise
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def stored(directory: Path) -> tuple[Sealed, ...]:
    """The index as an artifact, on disk for good; nothing where there is none, or none that can be opened."""
    try:
        descriptor = opened(directory / RECORDS)
    except OSError as error:
        log.warning("%s cannot be opened: %s, ignoring", directory / RECORDS, error)
        return ()
    if descriptor is None:
        return ()
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        log.warning("%s cannot be brought to the disk: %s, ignoring", directory / RECORDS, error)
    try:
        return (Sealed(RECORDS, str(directory / RECORDS), os.fstat(descriptor).st_size),)
    finally:
        os.close(descriptor)


def remove(paths: Sequence[Path]) -> None:
    """Delete indexes. One that cannot be deleted stays until its quest goes: nobody reads it any more."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be deleted: %s, ignoring", path, error)


class Index:
    """The one writer of an attempt's index; made when there is something to write."""

    def __init__(self, directory: Path, started_at: int, outputs: Sequence[int]) -> None:
        """`outputs` are the attempt's open files, in the order of STREAMS."""
        self.path = directory / RECORDS
        self._started_at, self._outputs = started_at, outputs
        self._file: int | None = None
        self._entries = 0
        self._covered = [0, 0]
        self._shrank = [False, False]
        self._warned = False
        self._known = False  # what the file holds; not known at first, nor after a write that failed halfway

    def observe(self, at: int, *, cancelling: bool = False) -> int:
        """Append what has grown by the moment `at`, then that the attempt is asked to stop; how many entries. From
        AT_ONCE on there may be a rest. Raises OSError; then nothing is lost, and the next call tries again."""
        if not self._known:
            self._recall()
        new = [entry for stream in range(len(STREAMS)) for entry in self._new(stream, at)]
        if cancelling:
            new.append(Entry(STATE, CANCELLING, 0, 0, 0, at, 0))
        if new:
            self._append(new)
        return len(new)

    def close(self) -> tuple[Sealed, ...]:
        """The index as an artifact, safe on disk; nothing where there was nothing to write."""
        self._close_file()
        return stored(self.path.parent)

    def _new(self, stream: int, at: int) -> Iterator[Entry]:
        """Entries for what is new of a stream, not numbered yet; the beginning of a character waits for its rest."""
        source, covered = self._outputs[stream], self._covered[stream]

        def read(offset: int, length: int) -> bytes:
            return os.pread(source, length, offset)

        size = os.fstat(source).st_size
        if size < covered and not self._shrank[stream]:
            self._shrank[stream] = True
            self._warn(stream)
        extent = growth(covered, size, shrank=self._shrank[stream])
        if extent.start == size:
            return
        tail = min(3, size - extent.start)
        extent = extent._replace(end=size - unfinished(read(size - tail, tail)))
        begin = extent.start

        for piece in range(1, min(extent.pieces, AT_ONCE) + 1):
            end = extent.cut(read, piece)
            yield Entry(OUTPUT, stream, _SHRANK if extent.lost and piece == 1 else 0, end - begin, begin, at, 0)
            begin = end

    def _append(self, new: list[Entry]) -> None:
        if self._file is None:
            self._file = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        if not self._entries:
            new.insert(0, began(self._started_at))
        first = self._entries + 1
        block = b"".join(_ENTRY.pack(*entry[:6], number) for number, entry in enumerate(new, first))
        try:
            self._write(block)
        except OSError:
            self._close_file()  # what of this is whole may have been read by somebody: it is kept
            self._known = False
            raise
        self._entries += len(new)
        for entry in new:
            if entry.kind == OUTPUT:
                self._covered[entry.which] = entry.offset + entry.length
                self._shrank[entry.which] = False

    def _recall(self) -> None:
        """Go on with what is there, without a torn tail. Raises OSError."""
        found = Found(0, (0, 0))
        try:
            self._file = os.open(self.path, _FLAGS)
            found = survey(self._file)
            os.ftruncate(self._file, found.entries * ENTRY_BYTES)
        except FileNotFoundError:
            pass
        except OSError:
            self._close_file()
            raise
        self._entries, self._covered = found.entries, list(found.covered)
        self._shrank, self._known = [False, False], True

    def _write(self, block: bytes) -> None:
        assert self._file is not None
        offset, left = self._entries * ENTRY_BYTES, memoryview(block)
        while left:
            written = os.pwrite(self._file, left, offset)
            left, offset = left[written:], offset + written

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _warn(self, stream: int) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s has shrunk: what it lost cannot be read, ignoring", self.path.with_name(STREAMS[stream]))
