"""Adding quests: Add and AddMany."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from questlined.config.shape import Executor
from questlined.core import prompts
from questlined.core import quest as rules
from questlined.core.deps import find_cycle
from questlined.core.ids import ENTROPY_BYTES, quest_id
from questlined.operations import find, views
from questlined.operations.context import Caller, Changing, Context, Pending, Place, Reply, Request
from questlined.operations.steering import reply
from questlined.store import protocol
from questlined.store.rows import Quest
from questlined.wire.errors import DependencyInvalid, InvalidInput, NotFound

ATTEMPTS_MAX = 1_000_000
TIMEOUT_MAX_MS = 366 * 24 * 3600 * 1000
ARGUMENT_SUSPECT = 60_000  # characters; below it no text can pass one argument's bytes
PATH_MAX_BYTES = 32 * 1024


class NewQuest(Request, frozen=True, kw_only=True):
    """io.questline.Quests.NewQuest"""

    task: str
    role: str | None = None
    name: str | None = None
    context: str | None = None
    priority: int | None = None
    depends_on: list[str] | None = None
    max_attempts: int | None = None
    not_before: int | None = None
    timeout_ms: int | None = None
    lane: str | None = None
    external: bool | None = None


class Add(NewQuest, frozen=True, kw_only=True):
    """Parameters of Add. Not of Changing as well: structs have one base."""

    project: str | None = None
    directory: str | None = None
    path: str | None = None
    request_id: str | None = None


class Added(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """io.questline.Quests.Added"""

    id: str
    deduped: bool


class AddReply(Reply, frozen=True, kw_only=True):
    """Answer of Add."""

    quest: views.Quest
    deduped: bool
    warnings: list[str]


class AddMany(Changing, frozen=True, kw_only=True):
    """Parameters of AddMany."""

    project: str | None = None
    directory: str | None = None
    path: str | None = None
    quests: list[NewQuest]


class AddManyReply(Reply, frozen=True, kw_only=True):
    """Answer of AddMany."""

    added: list[Added]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """What all quests of one call share."""

    project: protocol.ProjectRef
    path: str | None
    uid: int
    now: int


async def add(ctx: Context, caller: Caller, request: Add) -> AddReply:
    """Add one quest. The answer comes when it is on disk."""
    place = await find.project_ref(ctx, request.project, request.directory)
    asked = _asked(ctx, caller, request, place)
    depends_on = [await _dependency(ctx, caller, text) for text in request.depends_on or ()]
    asked = replace(asked, quests=(_with_dependencies(asked.quests[0], depends_on),))
    (stored,) = await ctx.store.add(asked)
    known = _known(asked.quests[0], place, stored)
    return known or AddReply(quest=(await reply(ctx, stored)).quest, deduped=False, warnings=warnings_of(place))


def begin_add(ctx: Context, caller: Caller, request: Add) -> Pending[AddReply] | None:
    """The same at once; None where something must be looked up first."""
    place = None if request.depends_on else find.place_at_hand(ctx, request.project, request.directory)
    if place is None:
        return None
    asked = _asked(ctx, caller, request, place)
    return Pending(ctx.store.add(asked), lambda stored: _known(asked.quests[0], place, stored[0]))


def _asked(ctx: Context, caller: Caller, request: Add, place: Place) -> protocol.Add:
    """The request, checked, without its dependencies."""
    token = ctx.token(caller, "Add", request)
    origin = _origin(ctx, caller, request, place)
    return _request(ctx, origin, (_new_quest(ctx, request, origin, ""),), token)


def _known(fresh: rules.NewQuest, place: Place, stored: str) -> AddReply | None:
    """Nothing where it may be another: an earlier call's quest, or one that a dependency has failed."""
    if stored != fresh.id or fresh.depends_on:
        return None
    return AddReply(quest=views.new(fresh), deduped=False, warnings=warnings_of(place))


async def add_many(ctx: Context, caller: Caller, request: AddMany) -> AddManyReply:
    """Add many quests, all or none. A dependency may be named by id, or by the name of an earlier entry."""
    bounds = ctx.config.bounds
    if len(request.quests) > bounds.add_many:
        raise InvalidInput(
            f"quests: {len(request.quests)} are more than bounds.add_many = {bounds.add_many}",
            hint="send them in several calls",
            field="quests",
            setting="bounds.add_many",
        )
    token = ctx.token(caller, "AddMany", request)
    place = await find.project_ref(ctx, request.project, request.directory)
    origin = _origin(ctx, caller, request, place)
    _refuse_cycles(request.quests)
    named: dict[str, str] = {}
    twice: set[str] = set()
    fresh: list[rules.NewQuest] = []
    for number, asked in enumerate(request.quests):
        where = f"quests[{number}]."
        quest = _new_quest(ctx, asked, origin, where)
        for text in asked.depends_on or ():
            if text in twice:
                raise InvalidInput(
                    f"{where}dependsOn: {text!r} is the name of several earlier entries",
                    hint="give entries that others depend on a name of their own",
                    field=f"{where}dependsOn",
                )
        ids = [named.get(text) or await _dependency(ctx, caller, text) for text in asked.depends_on or ()]
        fresh.append(_with_dependencies(quest, ids))
        if asked.name is not None:
            if asked.name in named:
                twice.add(asked.name)
            named[asked.name] = quest.id
    stored = await ctx.store.add(_request(ctx, origin, tuple(fresh), token))
    return AddManyReply(added=[Added(id=each, deduped=False) for each in stored], warnings=warnings_of(place))


def _origin(ctx: Context, caller: Caller, request: Add | AddMany, place: Place) -> Origin:
    if request.path is not None:
        rules.check_text("path", request.path, empty=True)
        rules.check_size("path", (request.path,), PATH_MAX_BYTES, None)
    return Origin(place.ref, request.path, caller.uid, ctx.clock.wall_ms())


def warnings_of(place: Place) -> list[str]:
    """What whoever adds to this project should know."""
    warnings = [place.warning] if place.warning else []
    if place.ref.path is None:
        warnings.append(
            f"project {place.ref.name} has no path yet: the daemon runs none of its quests until it has one"
        )
    return warnings


async def _dependency(ctx: Context, caller: Caller, text: str) -> str:
    """A dependency's id. Its existence is the store's to check; what another user may not see is not there for him."""
    try:
        return await find.quest_id(ctx, caller, text) if caller.owner else (await find.quest(ctx, caller, text)).id
    except NotFound as error:
        raise DependencyInvalid(f"dependsOn: {error.message}", hint=error.hint, reason="not_found") from None


def _refuse_cycles(quests: list[NewQuest]) -> None:
    """Names lead to earlier entries only; a name that leads to itself or in a circle gets the reason that fits."""
    names = {quest.name for quest in quests if quest.name is not None}
    earlier: set[str] = set()
    edges = {q.name: [d for d in q.depends_on or () if d in names] for q in quests if q.name is not None}
    for number, quest in enumerate(quests):
        for dependency in quest.depends_on or ():
            if dependency in names and dependency not in earlier:
                cycle = find_cycle(edges)
                reason = "self" if dependency == quest.name else "cycle" if cycle else "not_found"
                raise DependencyInvalid(
                    f"quests[{number}].dependsOn: {dependency!r} is no earlier entry",
                    hint="put an entry behind those it depends on; a circle can never run",
                    reason=reason,
                    cycle=cycle,
                )
        if quest.name is not None:
            earlier.add(quest.name)


def _request(
    ctx: Context, origin: Origin, quests: tuple[rules.NewQuest, ...], token: protocol.Token | None
) -> protocol.Add:
    return protocol.Add(origin.project, quests, origin.now, ctx.config.bounds.max_waiting, ctx.config.lanes, token)


def _with_dependencies(quest: rules.NewQuest, ids: list[str]) -> rules.NewQuest:
    return replace(quest, depends_on=tuple(dict.fromkeys(ids))) if ids else quest


def _new_quest(ctx: Context, asked: NewQuest, origin: Origin, where: str) -> rules.NewQuest:
    """A checked quest. `where` is the path of its entry, for errors."""
    try:
        return checked(ctx, asked, origin)
    except InvalidInput as error:
        if where:
            error.details["field"] = f"{where}{error.details.get('field')}"
            raise InvalidInput(f"{where}{error.message}", hint=error.hint, **error.details) from None
        raise


def checked(ctx: Context, asked: NewQuest, origin: Origin) -> rules.NewQuest:
    """A quest as it will be stored, without its dependencies. Raises InvalidInput."""
    config = ctx.config
    role = rules.check_word("role", "default" if asked.role is None else asked.role)
    executor = config.for_role(role)
    rules.check_text("task", asked.task)
    if asked.context is not None:
        rules.check_text("context", asked.context, empty=True)
    rules.check_size("task", (asked.task, asked.context), config.bounds.max_task_bytes, "bounds.max_task_bytes")
    if len(asked.depends_on or ()) > config.bounds.max_dependencies:
        raise InvalidInput(
            f"dependsOn: {len(asked.depends_on or ())} are more than bounds.max_dependencies",
            hint="let one quest gather them",
            field="dependsOn",
            setting="bounds.max_dependencies",
        )
    external = executor.external if asked.external is None else asked.external
    name = rules.default_name(asked.task) if asked.name is None else rules.check_name(asked.name)
    attempts = (0 if external else config.max_attempts) if asked.max_attempts is None else asked.max_attempts
    quest = rules.NewQuest(
        id=quest_id(ctx.random_bytes(ENTROPY_BYTES)),
        project=origin.project.key,
        role=role,
        name=name,
        task=asked.task,
        context=asked.context or None,
        priority=rules.check_integer("priority", asked.priority or 0),
        max_attempts=rules.check_integer("maxAttempts", attempts, low=0, high=ATTEMPTS_MAX),
        backoff_base_ms=config.backoff_base_ms,
        scheduled_at=rules.check_integer("notBefore", asked.not_before or 0, low=0),
        timeout_ms=_timeout(asked.timeout_ms),
        lane=None if asked.lane is None else rules.check_word("lane", asked.lane),
        external=external,
        depends_on=(),
        created_at=origin.now,
        submitter_uid=origin.uid,
        submitter_path=origin.path,
    )
    refuse_oversized(executor, quest, origin.project.path or "")
    return quest


def _timeout(asked: int | None) -> int | None:
    return None if asked is None else rules.check_integer("timeoutMs", asked, low=1, high=TIMEOUT_MAX_MS)


def refuse_oversized(executor: Executor, quest: rules.NewQuest | Quest, project: str) -> None:
    """What can never fit an argv is refused now, not when it runs in the night."""
    if quest.external or len(quest.task) + len(quest.context or "") + len(project) < ARGUMENT_SUSPECT // 2:
        return
    values = prompts.values(
        task=quest.task,
        context=quest.context,
        project=project,
        role=quest.role,
        quest=quest.id,
        name=quest.name,
        lane=quest.lane,
        run="0" * 12,
        task_file=project,
    )
    argv = prompts.fill(executor.command, values)
    reason = prompts.oversized(argv, {})
    if reason is not None:
        raise InvalidInput(
            f"task: {reason}",
            hint='let the executor read it: stdin = "prompt", or {task_file} in its command',
            field="task",
            setting="executor.stdin",
        )
