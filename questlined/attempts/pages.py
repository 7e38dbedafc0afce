"""An attempt's records, a page at a time, read from its files. A reader keeps a number and nothing else. Calls block.

Of an attempt that is over, what its index does not cover follows from the index and the sealed sizes: the rest of
stdout, the rest of stderr, then `end`. So every reader computes the same numbers, and nothing is ever appended.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from questlined.attempts import index
from questlined.attempts.index import Entry, Extent
from questlined.attempts.output import RECORDS, STREAMS, readable

TEXT_BYTES = index.PIECE_BYTES  # of output in one page
RECORDS_MAX = 256
SCANNED = 4096  # entries looked at for one page, where the reader wants few of them


@dataclass(frozen=True, slots=True)
class Record:
    """One entry as a reader gets it. Without a number it is no stored record. `at` is epoch milliseconds."""

    number: int | None
    at: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Records, and the number after which the next page begins. `full`: more is there now; `over`: no more comes."""

    records: list[Record]
    number: int
    full: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """What follows the index of an attempt that is over, by arithmetic alone."""

    stored: int
    rests: tuple[Extent, Extent]
    at: int
    end: Mapping[str, Any]

    @property
    def last(self) -> int:
        """The number of its `end`."""
        return self.stored + sum(rest.pieces for rest in self.rests) + 1


@dataclass(frozen=True, slots=True)
class Source:
    """Where the records of an attempt are. `ended` None: it runs, its index grows."""

    directory: Path
    started_at: int
    ended: Ended | None = None


def ended(
    directory: Path,
    sizes: tuple[int, int] | None,
    at: int,
    end: Mapping[str, Any],
    known: Ended | None = None,
) -> Ended | None:
    """How the records of an attempt go on behind its index. `sizes`: of the sealed streams, None where it had no files;
    `known`: what an earlier call gave. None: they are gone."""
    if sizes is None:
        return Ended(1, (Extent(0, 0), Extent(0, 0)), at, end)
    if not directory.is_dir():
        return None
    if known is not None:
        return known
    found = index.Found(0, (0, 0))
    descriptor = index.opened(directory / RECORDS)
    if descriptor is not None:
        try:
            found = index.survey(descriptor)
        finally:
            os.close(descriptor)
    first, second = (index.growth(covered, size) for covered, size in zip(found.covered, sizes, strict=True))
    return Ended(max(1, found.entries), (first, second), at, end)


class _Files:
    """The open files of one page."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._opened: dict[str, int | None] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *exc: object) -> None:
        for descriptor in self._opened.values():
            if descriptor is not None:
                os.close(descriptor)

    def get(self, name: str) -> int | None:
        """A descriptor, None where there is no such file."""
        if name not in self._opened:
            self._opened[name] = index.opened(self._directory / name)
        return self._opened[name]

    def read(self, stream: int, offset: int, length: int) -> bytes:
        """As much of a stream as there is."""
        descriptor = self.get(STREAMS[stream])
        if descriptor is None:
            return b""
        try:
            return os.pread(descriptor, length, offset)
        except OSError:
            return b""  # a gap to the reader

    def entries(self, after: int, most: int) -> list[Entry]:
        """Of the index."""
        descriptor = self.get(RECORDS)
        return [] if descriptor is None else index.entries(descriptor, after, most)

    def count(self) -> int:
        """Entries of the index."""
        descriptor = self.get(RECORDS)
        return 0 if descriptor is None else index.survey(descriptor).entries


def page(source: Source, number: int, streams: Collection[str] = STREAMS) -> Page:
    """The records after `number`, with the output of `streams` only; TEXT_BYTES or RECORDS_MAX of them at most. Raises
    OSError where the index cannot be read."""
    with _Files(source.directory) as files:
        records: list[Record] = []
        there = _there(files, source, number)
        if there < number:
            at = source.ended.at if source.ended else source.started_at
            records.append(_gap(at, f"record {number} is not there: after it {there} is the last one"))
            number = there
        if (end := source.ended) is not None and _is_lost(files, end, number):
            records.append(_gap(end.at, f"records {number + 1} to {end.stored} are gone"))
            number = end.stored
        read = 0
        for scanned, entry in enumerate(_entries(files, source, number)):
            if entry.kind != index.OUTPUT or STREAMS[entry.which] in streams:
                if records and (read + entry.length > TEXT_BYTES or len(records) >= RECORDS_MAX):
                    return Page(records, number, full=True)
                records += _shown(files, entry)
                read += entry.length
            elif scanned >= SCANNED:
                return Page(records, number, full=True)
            number = entry.number
        if end is None:
            return Page(records, number)
        if number < end.last:
            records.append(Record(end.last, end.at, "end", end.end))
        return Page(records, end.last, over=True)


def _there(files: _Files, source: Source, number: int) -> int:
    """`number`, or where there is no such record that of one to go on from: all there is of an attempt that runs, all
    but the end of one that is over."""
    if source.ended is not None:
        return number if number <= source.ended.last else source.ended.last - 1
    if number <= 1 or files.entries(number - 1, 1):
        return number
    return max(1, files.count())


def _is_lost(files: _Files, end: Ended, number: int) -> bool:
    """Whether the index was there when it was surveyed, and is gone: a slow reader may outlive it."""
    return number < end.stored and end.stored > 1 and not files.entries(number, 1)


def _entries(files: _Files, source: Source, number: int) -> Iterator[Entry]:
    """Every entry after `number`: those of the index, then those that the end makes of the rest."""
    stored = source.ended.stored if source.ended else None
    if number == 0 and not files.entries(0, 1):
        yield index.began(source.started_at)
        number = 1
    while stored is None or number < stored:
        found = files.entries(number, RECORDS_MAX if stored is None else min(RECORDS_MAX, stored - number))
        if not found:
            break
        yield from found
        number += len(found)
    if source.ended is not None:
        yield from _rest(files, source.ended, number)


def _rest(files: _Files, end: Ended, number: int) -> Iterator[Entry]:
    first = end.stored + 1
    for stream, rest in enumerate(end.rests):
        read = partial(files.read, stream)
        for piece in range(max(0, number + 1 - first), rest.pieces):
            begin, close = (rest.cut(read, each) for each in (piece, piece + 1))
            lost = int(rest.lost and piece == 0)
            yield Entry(index.OUTPUT, stream, lost, close - begin, begin, end.at, first + piece)
        first += rest.pieces


def _shown(files: _Files, entry: Entry) -> Iterator[Record]:
    if entry.kind == index.STATE:
        yield Record(entry.number, entry.at, "state", {"state": index.STATES[entry.which]})
        return
    name = STREAMS[entry.which]
    data = files.read(entry.which, entry.offset, entry.length)
    if entry.lost:
        yield _gap(entry.at, f"{name} has shrunk: what it held before is gone")
    if len(data) < entry.length:
        yield _gap(entry.at, f"{name} has only {len(data)} of {entry.length} bytes there")
    text = {"stream": name, "offset": entry.offset, "text": readable(data)}
    yield Record(entry.number, entry.at, "output", text)


def _gap(at: int, reason: str) -> Record:
    return Record(None, at, "gap", {"reason": reason})
