"""Recurring quests: rules, what they have due, and their timers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from questlined.core import calendar, cron, oncalendar
from questlined.core.ids import ENTROPY_BYTES, recurrence_id
from questlined.core.quest import check_integer, check_text, check_word
from questlined.operations import find, views
from questlined.operations.context import Caller, Changing, Context, Reply, Request
from questlined.operations.lookups import checked_limit, fitting
from questlined.operations.quests import NewQuest, Origin, checked, warnings_of
from questlined.store import rows
from questlined.store.protocol import ProjectRef
from questlined.store.recurrences import AddRecurrence, Fire, SteerRecurrence
from questlined.sysd import timers
from questlined.wire.errors import Ambiguous, InvalidInput, NotFound

SHOWN = 5  # of the next times
ID_MAX = 100
ID_MARK = "r-"
SEED_BYTES = 16
DELAY_MAX_MS = 7 * 24 * 3600 * 1000
OWNING = "see and change recurring quests"


class Recurrence(views.View, frozen=True, kw_only=True, omit_defaults=True):
    """io.questline.Recurrences.Recurrence"""

    id: str
    project: str
    name: str
    cron: str
    timezone: str
    role: str
    task: str
    context: str | None = None
    priority: int
    max_attempts: int
    lane: str | None = None
    timeout_ms: int | None = None
    external: bool
    catch_up: str
    enabled: bool
    next_run_at: int
    last_enqueued_at: int | None = None
    created_at: int
    updated_at: int


class Occurrence(views.View, frozen=True, kw_only=True):
    """io.questline.Recurrences.Occurrence"""

    at: int
    local: str


class Add(Changing, frozen=True, kw_only=True):
    """Parameters of Add."""

    project: str | None = None
    directory: str | None = None
    name: str
    cron: str
    task: str
    timezone: str | None = None
    role: str | None = None
    context: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    timeout_ms: int | None = None
    lane: str | None = None
    external: bool | None = None
    catch_up: str | None = None


class Steer(Changing, frozen=True, kw_only=True):
    """Parameters of Pause, Resume, Remove and Fire."""

    id: str
    project: str | None = None
    directory: str | None = None


class Get(Request, frozen=True, kw_only=True):
    """Parameters of Get."""

    id: str
    project: str | None = None
    directory: str | None = None


class List(Request, frozen=True, kw_only=True):
    """Parameters of List."""

    project: str | None = None
    directory: str | None = None
    all_projects: bool | None = None
    limit: int | None = None
    cursor: str | None = None


class Timer(Request, frozen=True, kw_only=True):
    """Parameters of Timer."""

    id: str
    project: str | None = None
    directory: str | None = None
    randomized_delay_ms: int | None = None


class AddReply(Reply, frozen=True, kw_only=True):
    """Answer of Add."""

    recurrence: Recurrence
    upcoming: list[Occurrence]
    warnings: list[str]


class GetReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of Get."""

    recurrence: Recurrence
    upcoming: list[Occurrence]
    problem: str | None = None


class ListReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of List."""

    recurrences: list[Recurrence]
    next: str | None = None


class SteerReply(Reply, frozen=True, kw_only=True):
    """The rule as it is now, or was when it was removed."""

    recurrence: Recurrence


class FireReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of Fire."""

    quests: list[str]
    held: str | None = None
    recurrence: Recurrence


class TimerReply(Reply, frozen=True, kw_only=True):
    """Answer of Timer."""

    unit: str
    text: str
    recurrence: Recurrence


def view(row: rows.Recurrence, *, shorten: int | None = None) -> Recurrence:
    """A rule as the wire shows it."""
    return Recurrence(
        id=row.id,
        project=row.project,
        name=row.name,
        cron=row.cron,
        timezone=row.timezone,
        role=row.role,
        task=views.cut(row.task, shorten),
        context=None if row.context is None else views.cut(row.context, shorten),
        priority=row.priority,
        max_attempts=row.max_attempts,
        lane=row.lane,
        timeout_ms=row.timeout_ms,
        external=bool(row.external),
        catch_up=row.catch_up,
        enabled=bool(row.enabled),
        next_run_at=row.next_run_at,
        last_enqueued_at=row.last_enqueued_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _upcoming(row: rows.Recurrence, now: int) -> list[Occurrence]:
    """The next times from now on. Raises InvalidInput for a rule of another program that is none here."""
    where = calendar.zone(row.timezone)
    moments = calendar.following(cron.parse(row.cron), where, now, SHOWN)
    return [Occurrence(at=moment, local=calendar.shown(where, moment)) for moment in moments]


async def _rule(ctx: Context, caller: Caller, asked: Steer | Get | Timer) -> rows.Recurrence:
    """The rule named by id, name or prefix, in this order. Raises NotFound, Ambiguous."""
    caller.must_own(OWNING)
    text = check_text("id", asked.id)
    unknown = NotFound(
        f"there is no recurring quest {text[:ID_MAX]}", hint="see qlctl recurring list --all-projects", id=text[:ID_MAX]
    )
    if len(text) > ID_MAX:
        raise unknown
    found = await ctx.store.recurrence(text)
    if found is None and not text.startswith(ID_MARK):
        key = (await find.project_ref(ctx, asked.project, asked.directory)).ref.key
        named = await ctx.store.recurrences_named(key, text)
        found = named[0] if _only(text, [row.id for row in named]) else None
    elif found is None:
        only = _only(text, await ctx.store.recurrences_matching(text))
        found = await ctx.store.recurrence(only) if only else None
    if found is None:
        raise unknown
    return found


def _only(text: str, ids: list[str]) -> str | None:
    if len(ids) > 1:
        raise Ambiguous(
            f"{text} fits {len(ids)} recurring quests", hint=f"give the id: {', '.join(ids)}", id=text, candidates=ids
        )
    return ids[0] if ids else None


async def add(ctx: Context, caller: Caller, request: Add) -> AddReply:
    """Make a rule; its first quest comes at the first of its times from now on."""
    caller.must_own(OWNING)
    token = ctx.token(caller, "Recurrences.Add", request)
    place = await find.project_ref(ctx, request.project, request.directory)
    row = _new(ctx, caller, request, place.ref)
    stored = await ctx.store.add_recurrence(AddRecurrence(place.ref, row, ctx.config.bounds.max_recurrences, token))
    if stored != row.id:  # an earlier call with this requestId made it; it may be removed by now
        row = await ctx.store.recurrence(stored) or replace(row, id=stored)
    upcoming = _upcoming(row, ctx.clock.wall_ms())
    return AddReply(recurrence=view(row), upcoming=upcoming, warnings=warnings_of(place))


def _new(ctx: Context, caller: Caller, request: Add, project: ProjectRef) -> rows.Recurrence:
    """A checked rule. What its quests get is checked as that of a quest is."""
    name = check_word("name", request.name)
    if name.startswith(ID_MARK):
        raise InvalidInput("name: it reads like an id", hint=f"let it not begin with {ID_MARK}", field="name")
    rule, where = cron.parse(check_text("cron", request.cron)), calendar.zone(request.timezone or "UTC")
    catch_up = request.catch_up or "one"
    if catch_up not in calendar.CATCH_UP:
        raise InvalidInput(
            f"catchUp: {catch_up[:40]!r} is none", hint=f"use {', '.join(calendar.CATCH_UP)}", field="catchUp"
        )
    now = ctx.clock.wall_ms()
    like = NewQuest(
        task=request.task,
        role=request.role,
        context=request.context,
        priority=request.priority,
        max_attempts=request.max_attempts,
        timeout_ms=request.timeout_ms,
        lane=request.lane,
        external=request.external,
    )
    quest = checked(ctx, like, Origin(project, None, caller.uid, now))
    return rows.Recurrence(
        id=recurrence_id(ctx.random_bytes(ENTROPY_BYTES)),
        project=project.key,
        name=name,
        cron=cron.normal(request.cron),
        timezone=request.timezone or "UTC",
        role=quest.role,
        task=quest.task,
        context=quest.context,
        priority=quest.priority,
        max_attempts=quest.max_attempts,
        backoff_base_ms=quest.backoff_base_ms,
        catch_up=catch_up,
        enabled=1,
        next_run_at=calendar.upcoming(rule, where, now),
        last_enqueued_at=None,
        created_at=now,
        updated_at=now,
        lane=quest.lane,
        timeout_ms=quest.timeout_ms,
        external=int(quest.external),
        submitter_uid=caller.uid,
    )


async def get(ctx: Context, caller: Caller, request: Get) -> GetReply:
    """One rule, and its next times, or why it has none."""
    row = await _rule(ctx, caller, request)
    try:
        return GetReply(recurrence=view(row), upcoming=_upcoming(row, ctx.clock.wall_ms()))
    except InvalidInput as error:
        return GetReply(recurrence=view(row), upcoming=[], problem=error.message)


async def list_rules(ctx: Context, caller: Caller, request: List) -> ListReply:
    """A page of rules by project and name, long texts shortened."""
    caller.must_own(OWNING)
    limit, key = checked_limit(request.limit), None
    if not request.all_projects:
        key = (await find.project_ref(ctx, request.project, request.directory)).ref.key
    if request.cursor is not None and await ctx.store.recurrence(check_text("cursor", request.cursor)) is None:
        raise NotFound(
            f"cursor: there is no recurring quest {request.cursor[:ID_MAX]}",
            hint="give back what next said",
            id=request.cursor[:ID_MAX],
        )
    found = await ctx.store.recurrences(key, request.cursor, limit + 1)
    shown, more = fitting([view(row, shorten=views.SHORT) for row in found], limit)
    return ListReply(recurrences=shown, next=shown[-1].id if more else None)


async def _switch(ctx: Context, caller: Caller, request: Steer, *, enabled: bool) -> SteerReply:
    token = ctx.token(caller, "Recurrences.Resume" if enabled else "Recurrences.Pause", request)
    row = await _rule(ctx, caller, request)
    await ctx.store.switch_recurrence(SteerRecurrence(row.id, ctx.clock.wall_ms(), token), enabled)
    return SteerReply(recurrence=view(await ctx.store.recurrence(row.id) or row))


async def pause(ctx: Context, caller: Caller, request: Steer) -> SteerReply:
    """Hold a rule. What it has enqueued goes on."""
    return await _switch(ctx, caller, request, enabled=False)


async def resume(ctx: Context, caller: Caller, request: Steer) -> SteerReply:
    """Let it go on, with what it missed by its catch-up."""
    return await _switch(ctx, caller, request, enabled=True)


async def remove(ctx: Context, caller: Caller, request: Steer) -> SteerReply:
    """Forget a rule; its quests stay."""
    token = ctx.token(caller, "Recurrences.Remove", request)
    try:
        rule = (await _rule(ctx, caller, request)).id
    except NotFound:
        if token is None:
            raise
        rule = request.id[:ID_MAX]  # an earlier call with this requestId may have removed it: then the store knows
    removed = await ctx.store.remove_recurrence(SteerRecurrence(rule, ctx.clock.wall_ms(), token))
    return SteerReply(recurrence=view(removed))


async def fire(ctx: Context, caller: Caller, request: Steer) -> FireReply:
    """Enqueue what is due of a rule."""
    token = ctx.token(caller, "Recurrences.Fire", request)
    row = await _rule(ctx, caller, request)
    bounds, lanes = ctx.config.bounds, ctx.config.lanes
    asked = Fire(row.id, ctx.clock.wall_ms(), ctx.random_bytes(SEED_BYTES), bounds.max_waiting, lanes, token)
    fired = await ctx.store.fire(asked)
    now = await ctx.store.recurrence(row.id) or row
    return FireReply(quests=list(fired.quests), held=fired.held, recurrence=view(now))


async def timer(ctx: Context, caller: Caller, request: Timer) -> TimerReply:
    """The rule's timer unit."""
    row = await _rule(ctx, caller, request)
    delay = check_integer("randomizedDelayMs", request.randomized_delay_ms or 0, low=0, high=DELAY_MAX_MS)
    if row.catch_up == "skip" and delay > calendar.ON_TIME_MS:
        raise InvalidInput(
            f"randomizedDelayMs: {row.name} skips what is more than a minute late, and so what its timer wakes for",
            hint="delay it by up to a minute, or make the rule with another catch-up",
            field="randomizedDelayMs",
        )
    lines = oncalendar.lines(cron.parse(row.cron), row.timezone, ctx.clock.wall_ms())
    text = timers.timer(
        rule=row.id,
        name=row.name,
        project=row.project,
        cron=row.cron,
        zone=row.timezone,
        lines=lines,
        delay_ms=delay,
    )
    return TimerReply(unit=timers.unit_name(row.id), text=text, recurrence=view(row))


async def broken(ctx: Context) -> AsyncIterator[tuple[str, str]]:
    """(what, hint) of each rule that never comes due, for health: other programs write them unchecked."""
    for rule, name, text, zone in await ctx.store.enabled_recurrences():
        try:
            cron.parse(text)
            calendar.zone(zone)
        except InvalidInput as error:
            yield (
                f"the recurring quest {name} ({rule}) never comes due: {error.message}",
                f"{error.hint}; make it anew: qlctl recurring remove {rule}",
            )
