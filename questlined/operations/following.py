"""Follow: an attempt's records as they come, or as they are stored, from any one on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from questlined.attempts import pages
from questlined.attempts.output import STREAMS
from questlined.attempts.pages import Source
from questlined.core.quest import check_integer, check_text
from questlined.core.states import FINAL
from questlined.operations import find, views
from questlined.operations.context import Caller, Context, Reply, Request
from questlined.operations.steering import reply
from questlined.store import rows
from questlined.wire.errors import InvalidInput, NotFound, Unavailable

T = TypeVar("T")
RESULT_MAX = 256 * 1024  # characters of a stored result that stands in for records
_ID = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})", re.ASCII)


class Follow(Request, frozen=True, kw_only=True):
    """Parameters of Follow."""

    id: str
    attempt: int | None = None
    after: str | None = None
    streams: list[str] | None = None


class Record(views.View, frozen=True, kw_only=True):
    """io.questline.Quests.Record"""

    id: str | UnsetType = UNSET
    attempt: int
    number: int | UnsetType = UNSET
    at: int
    kind: str
    data: dict[str, Any]


class FollowReply(Reply, frozen=True, kw_only=True):
    """Answer of Follow."""

    records: list[Record]
    state: str
    quest: views.Quest | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Position:
    """The last record that a reader has seen: number 0 is before the first of its attempt."""

    attempt: int
    number: int = 0


async def follow(ctx: Context, caller: Caller, request: Follow, more: bool) -> AsyncIterator[tuple[FollowReply, bool]]:
    """The records of a quest, or of one attempt. Raises InvalidInput, NotFound."""
    streams = _streams(request.streams)
    quest, start = await _start(ctx, caller, request)
    async with aclosing(records(ctx, quest, start, only=request.attempt, streams=streams, more=more)) as found:
        while True:  # without a name for what is given: nothing is kept while its reader takes its time
            try:
                yield await anext(found)
            except StopAsyncIteration:
                return


def _streams(asked: list[str] | None) -> Collection[str]:
    for name in asked or ():
        if name not in STREAMS:
            raise InvalidInput(
                f"streams: {name[:40]!r} is no stream", hint=f"use {' or '.join(STREAMS)}", field="streams"
            )
    return STREAMS if asked is None else frozenset(asked)


async def _start(ctx: Context, caller: Caller, request: Follow) -> tuple[str, Position]:
    """The quest's id, and where its reader is. Raises InvalidInput, NotFound."""
    if request.attempt is not None:
        check_integer("attempt", request.attempt, low=1)
    after = None if request.after is None else position(request.after, request.attempt)
    row = await find.quest(ctx, caller, request.id)
    start = after or Position(request.attempt or 1)
    if start.attempt > max(row.attempts, 0 if request.attempt or after else 1):
        raise NotFound(
            f"{row.id} has no attempt {start.attempt}: it has {row.attempts}",
            hint="qlctl runs ID names its attempts",
            id=f"{row.id}/{start.attempt}",
        )
    return row.id, start


def position(after: str, attempt: int | None = None) -> Position:
    """The record with this id. Raises InvalidInput for one of another attempt than the one that is given."""
    found = _ID.fullmatch(check_text("after", after))
    if found is None or int(found[1]) == 0:
        raise InvalidInput(
            f"after: {after[:40]!r} is no record", hint="give the id of the last record seen, as in 2.17", field="after"
        )
    if attempt is not None and int(found[1]) != attempt:
        raise InvalidInput(
            f"after: {after[:40]} is no record of attempt {attempt}", hint="leave one of the two out", field="after"
        )
    return Position(int(found[1]), int(found[2]))


class _Both(asyncio.Event):
    """An event that sets another one, too."""

    def __init__(self, other: asyncio.Event) -> None:
        super().__init__()
        self._other = other

    def set(self) -> None:
        super().set()
        self._other.set()


async def records(
    ctx: Context,
    quest: str,
    after: Position,
    *,
    only: int | None = None,
    streams: Collection[str] = STREAMS,
    more: bool = True,
) -> AsyncGenerator[tuple[FollowReply, bool], None]:
    """What comes after a record of the quest, each with whether it is the last reply: with `only` until that attempt
    has ended, else until the quest is final; without `more` one page. The next page is read when the caller wants it,
    and nothing is kept for one who does not."""
    woken = asyncio.Event()
    changed = _Both(woken)
    with ctx.changes.watching(quest, changed), ctx.records.reading(quest, woken):
        reader = _Reader(ctx, quest, after, only, streams)
        changed.set()
        told = None
        while True:
            woken.clear()
            if changed.is_set():
                changed.clear()
                await reader.refresh()
            await reader.turn()
            if reader.over:
                yield reader.take((await reply(ctx, quest)).quest), True
                return
            if not more:
                if reader.full and not reader.found:
                    continue  # from an empty page nobody could go on
                yield reader.take(), True
                return
            if reader.found or reader.state != told:
                told = reader.state
                yield reader.take(), False
            if not reader.full:
                await woken.wait()


class _Reader:
    """A position in a quest's records, and what is known of the attempt that it is in."""

    def __init__(self, ctx: Context, quest: str, after: Position, only: int | None, streams: Collection[str]) -> None:
        self._ctx, self._quest, self._only, self._streams = ctx, quest, only, streams
        self._attempt, self._number = after.attempt, after.number
        self._attempts = 0  # how many there are
        self._source: Source | None = None
        self.state = ""
        self.found: list[Record] = []
        self.full = False  # more is there already

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        if self._only is not None:
            return self._attempt > self._only
        return self.state in FINAL and self._attempt > self._attempts

    def take(self, quest: views.Quest | UnsetType = UNSET) -> FollowReply:
        """What was found, as a reply; it is kept no longer."""
        taken, self.found = self.found, []
        state = quest.state if isinstance(quest, views.Quest) else self.state  # it may have moved on meanwhile
        return FollowReply(records=taken, state=state, quest=quest)

    async def refresh(self) -> None:
        """Something has changed. Raises NotFound."""
        row = await self._row()
        self.state, self._attempts = row.state, row.attempts
        if self._source is not None and self._source.ended is None:
            self._source = None

    async def turn(self) -> None:
        """Find the next records. Such without an id are never alone, where others follow: a reader who asks again by
        the last id would get them for ever."""
        self.full = False
        while not self.full and not self.over and self._attempt <= self._attempts:
            source = self._source or await self._look_up()
            if source is None:
                continue
            page = await self._read(source.directory, partial(pages.page, source, self._number, self._streams))
            self.found += [_record(self._attempt, each) for each in page.records]
            self._number = page.number
            self.full = bool(page.records) and (page.full or page.over)
            if page.over:
                self._next()
            elif not page.full:
                return

    async def _read(self, directory: Path, work: Callable[[], T]) -> T:
        """What `work` gives of an attempt's files. Raises Unavailable."""
        try:
            return await self._ctx.records.read(work)
        except OSError as error:
            raise Unavailable(f"{directory} cannot be read: {error.strerror}", hint="try again") from error

    async def _row(self) -> rows.Quest:
        row = await self._ctx.store.quest(self._quest)
        if row is None:
            raise find.gone(self._quest)
        return row

    def _next(self) -> None:
        self._attempt, self._number, self._source = self._attempt + 1, 0, None

    async def _look_up(self) -> Source | None:
        """Where the attempt's records are; None where they are gone, and the next attempt's turn has come."""
        run = await self._ctx.store.run(self._quest, self._attempt)
        if run is None:
            self._next()
        elif run.finished_at is None:
            self._source = Source(self._ctx.records.directory(self._quest, self._attempt), run.started_at)
        else:
            self._source = await self._ended(run, run.finished_at)
            if self._source is None:
                self._shrink()
                self.found += await self._stand_in(run, run.finished_at)
                self._next()
        return self._source

    async def _ended(self, run: rows.Run, at: int) -> Source | None:
        ctx = self._ctx
        if at + ctx.config.records_keep_ms <= ctx.clock.wall_ms():
            return None
        files = await ctx.store.artifacts_of(self._quest, run.attempt)
        sizes = {file.kind: file.bytes for file in files}
        sealed = (sizes.get("stdout", 0), sizes.get("stderr", 0)) if files else None
        directory = Path(files[0].path).parent if files else ctx.records.directory(self._quest, run.attempt)
        known = ctx.records.surveyed(self._quest, run.attempt)
        ended = await self._read(directory, partial(pages.ended, directory, sealed, at, _end(run), known))
        if ended is None:
            return None
        if known is None:
            ctx.records.keep(self._quest, run.attempt, ended)
        return Source(directory, run.started_at, ended)

    def _shrink(self) -> None:
        """Of very many attempts whose records are gone, one gap tells: they come in one reply."""
        if len(self.found) >= pages.RECORDS_MAX:
            last = self.found[-1]
            gone = {"reason": f"the records of the attempts up to {last.attempt} are gone"}
            self.found = [_record(last.attempt, pages.Record(None, last.at, "gap", gone))]

    async def _stand_in(self, run: rows.Run, at: int) -> list[Record]:
        """For records that are gone."""
        row = await self._row()
        gone = {"reason": f"the records of attempt {run.attempt} are gone"}
        shown = [pages.Record(None, at, "gap", gone)]
        if run.attempt == row.attempts and row.result is not None:
            text = row.result if len(row.result) <= RESULT_MAX else row.result[: RESULT_MAX - 1] + "…"
            shown.append(pages.Record(None, at, "text", {"text": text}))
        shown.append(pages.Record(None, at, "end", _end(run)))
        return [_record(run.attempt, each) for each in shown]


def _end(run: rows.Run) -> dict[str, Any]:
    error = run.error
    if error is not None and len(error) > views.SHORT:
        error = error[: views.SHORT - 1] + "…"
    codes = {"exitCode": run.exit_code, "exitSignal": run.exit_signal}
    return {"outcome": run.outcome, "class": run.class_, **codes, "error": error}


def _record(attempt: int, record: pages.Record) -> Record:
    number = record.number
    if number is None:
        return Record(attempt=attempt, at=record.at, kind=record.kind, data=dict(record.data))
    name = f"{attempt}.{number}"
    return Record(id=name, attempt=attempt, number=number, at=record.at, kind=record.kind, data=dict(record.data))
