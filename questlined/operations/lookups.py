"""Looking at quests: List, Get, Why, Events and Runs. They answer from one snapshot each and change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import msgspec

from questlined.core import gates
from questlined.core.ids import split_attempt
from questlined.core.quest import check_word
from questlined.core.states import CLAIMABLE, STATES
from questlined.operations import find, views
from questlined.operations.context import Caller, Context, Reply, Request
from questlined.store import rows
from questlined.store.reading import Page
from questlined.wire.errors import InvalidInput

V = TypeVar("V")
LIMIT, LIMIT_MAX = 30, 1000
PAGE_BYTES = 256 * 1024
SHOWN_RUNS, SHOWN_EVENTS = 50, 50


class List(Request, frozen=True, kw_only=True):
    """Parameters of List."""

    project: str | None = None
    directory: str | None = None
    all_projects: bool | None = None
    states: list[str] | None = None
    role: str | None = None
    lane: str | None = None
    limit: int | None = None
    cursor: str | None = None


class ListReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of List."""

    quests: list[views.Quest]
    next: str | None = None


class One(Request, frozen=True, kw_only=True):
    """Parameters of Get and Why."""

    id: str


class GetReply(Reply, frozen=True, kw_only=True):
    """Answer of Get."""

    quest: views.Quest
    runs: list[views.Run]
    events: list[views.Event]
    artifacts: list[views.Artifact]


class WhyReply(Reply, frozen=True, kw_only=True):
    """Answer of Why."""

    quest: views.Quest
    gates: list[views.Gate]


class Events(Request, frozen=True, kw_only=True):
    """Parameters of Events."""

    id: str | None = None
    project: str | None = None
    directory: str | None = None
    all_projects: bool | None = None
    limit: int | None = None
    cursor: str | None = None


class EventsReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of Events."""

    events: list[views.Event]
    next: str | None = None


class Runs(Request, frozen=True, kw_only=True):
    """Parameters of Runs."""

    id: str
    limit: int | None = None
    cursor: str | None = None


class RunsReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of Runs."""

    runs: list[views.Run]
    next: str | None = None


def checked_limit(asked: int | None) -> int:
    """How many a page may have. Raises InvalidInput."""
    if asked is None:
        return LIMIT
    if not 1 <= asked <= LIMIT_MAX:
        raise InvalidInput(
            f"limit: {asked} is not between 1 and {LIMIT_MAX}", hint="page on with the cursor", field="limit"
        )
    return asked


def _number(field: str, cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput(f"{field}: {cursor[:40]!r} is no number", hint="give back what next said", field=field)
    return int(cursor)


def _attempt(quest: str, cursor: str | None) -> int:
    """The attempt after which a page begins: 0, or the number in an id of this quest's attempts."""
    if cursor is None:
        return 0
    parts = split_attempt(cursor)
    if parts is None or parts[0] != quest:
        raise InvalidInput(
            f"cursor: {cursor[:40]!r} is no attempt of {quest}", hint="give back what next said", field="cursor"
        )
    return parts[1]


def _states(asked: list[str] | None) -> tuple[str, ...]:
    for state in asked or ():
        if state not in STATES:
            raise InvalidInput(f"states: {state[:40]!r} is no state", hint=f"use {', '.join(STATES)}", field="states")
    return tuple(dict.fromkeys(asked or ()))


async def list_quests(ctx: Context, caller: Caller, request: List) -> ListReply:
    """A page of quests, newest first, long texts shortened."""
    project = None
    if not request.all_projects:
        project = (await find.project_ref(ctx, request.project, request.directory)).ref.key
    for name, word in (("role", request.role), ("lane", request.lane)):
        if word is not None:
            check_word(name, word)
    limit = checked_limit(request.limit)
    cursor = None if request.cursor is None else await find.quest_id(ctx, caller, request.cursor)
    page = Page(
        limit=limit + 1,
        project=project,
        states=_states(request.states),
        role=request.role,
        lane=request.lane,
        submitter=None if caller.owner else caller.uid,
        cursor=cursor,
    )
    found = await ctx.store.page(page)
    dependencies = await ctx.store.dependencies([row.id for row in found]) if found else {}
    shown, more = fitting([views.quest(row, dependencies.get(row.id, ()), shorten=views.SHORT) for row in found], limit)
    return ListReply(quests=shown, next=shown[-1].id if more else None)


def fitting(items: list[V], limit: int) -> tuple[list[V], bool]:
    """As many as `limit` and the page's size allow, at least one, and whether more follow."""
    size, shown = 0, 0
    for item in items[:limit]:
        size += len(msgspec.json.encode(item))
        if size > PAGE_BYTES and shown:
            break
        shown += 1
    return items[:shown], shown < len(items)


async def _view(ctx: Context, row: rows.Quest) -> views.Quest:
    return views.quest(row, (await ctx.store.dependencies([row.id])).get(row.id, ()))


def _runs(ctx: Context, found: list[rows.Run]) -> list[views.Run]:
    now, last = ctx.clock.wall_ms(), ctx.daemon.last_output
    return [
        views.run(row, now=now, last_output_at=last(row.quest_id) if row.finished_at is None else None) for row in found
    ]


async def get(ctx: Context, caller: Caller, request: One) -> GetReply:
    """One quest with its latest attempts and events, and its files."""
    row = await find.quest(ctx, caller, request.id)
    runs = await ctx.store.runs(row.id, row.attempts - SHOWN_RUNS, SHOWN_RUNS)
    events = await ctx.store.events(quest=row.id, project=None, before=None, limit=SHOWN_EVENTS)
    artifacts = await ctx.store.artifacts(row.id)
    return GetReply(
        quest=await _view(ctx, row),
        runs=_runs(ctx, runs),
        events=[views.event(event) for event in reversed(events)],
        artifacts=[views.artifact(file) for file in artifacts[-2 * SHOWN_RUNS :]],
    )


async def why(ctx: Context, caller: Caller, request: One) -> WhyReply:
    """Every closed gate of a quest that waits; of one that does not wait, none."""
    row = await find.quest(ctx, caller, request.id)
    closed: list[gates.Gate] = []
    situation = await ctx.store.situation(row.id, ctx.clock.wall_ms())
    if row.state in CLAIMABLE and situation is not None:
        config = ctx.config
        full = replace(
            situation,
            running_here=ctx.daemon.in_slots(),
            max_concurrent=config.max_concurrent,
            role_concurrency=config.role_concurrency,
            project_concurrency=config.project_concurrency,
            disk_low=ctx.daemon.disk_low(),
        )
        closed = list(gates.closed_gates(full))
    shown = [views.Gate(gate=each.gate, detail=each.detail, opens_at=views.some(each.opens_at)) for each in closed]
    return WhyReply(quest=await _view(ctx, row), gates=shown)


async def list_events(ctx: Context, caller: Caller, request: Events) -> EventsReply:
    """A page of state changes, newest first."""
    limit, before = checked_limit(request.limit), _number("cursor", request.cursor)
    quest = project = None
    if request.id is not None:
        quest = (await find.quest(ctx, caller, request.id)).id
    else:
        caller.must_own("see the events of a whole project")
        if not request.all_projects:
            project = (await find.project_ref(ctx, request.project, request.directory)).ref.key
    found = await ctx.store.events(quest=quest, project=project, before=before, limit=limit + 1)
    shown, more = fitting([views.event(event) for event in found], limit)
    return EventsReply(events=shown, next=str(shown[-1].seq) if more else None)


async def list_runs(ctx: Context, caller: Caller, request: Runs) -> RunsReply:
    """A page of attempts, oldest first."""
    row = await find.quest(ctx, caller, request.id)
    limit, after = checked_limit(request.limit), _attempt(row.id, request.cursor)
    found = await ctx.store.runs(row.id, after, limit + 1)
    shown, more = fitting(_runs(ctx, found), limit)
    return RunsReply(runs=shown, next=shown[-1].id if more else None)
