"""Edit: other values for a quest that neither runs nor is over, under the rules of Add."""

from __future__ import annotations

from collections.abc import Callable

from questlined.config.shape import Config
from questlined.core import quest as rules
from questlined.operations import find
from questlined.operations.context import Caller, Changing, Context
from questlined.operations.quests import ATTEMPTS_MAX, TIMEOUT_MAX_MS, refuse_oversized
from questlined.operations.steering import QuestReply, reply
from questlined.store import protocol, rows
from questlined.wire.errors import InvalidInput

FIELDS = ("task", "context", "name", "priority", "not_before", "timeout_ms", "max_attempts", "lane")


class Edit(Changing, frozen=True, kw_only=True):
    """Parameters of Edit."""

    id: str
    task: str | None = None
    context: str | None = None
    name: str | None = None
    priority: int | None = None
    not_before: int | None = None
    timeout_ms: int | None = None
    max_attempts: int | None = None
    lane: str | None = None


async def edit(ctx: Context, caller: Caller, request: Edit) -> QuestReply:
    """Change what was given. Raises WrongState for a quest that runs or is over."""
    token = ctx.token(caller, "Edit", request)
    _check_alone(ctx.config, request)
    row = await find.quest(ctx, caller, request.id)
    project = await ctx.store.project(row.project)
    await ctx.store.edit(
        protocol.Edit(
            row.id,
            ctx.clock.wall_ms(),
            _whole(ctx.config, request, project.path if project else None),
            task=request.task,
            context=request.context,
            name=request.name,
            priority=request.priority,
            not_before=request.not_before,
            timeout_ms=request.timeout_ms,
            max_attempts=request.max_attempts,
            lane=request.lane,
            lane_slots=ctx.config.lanes,
            token=token,
        )
    )
    return await reply(ctx, row.id)


def _check_alone(config: Config, request: Edit) -> None:
    """What can be said of each value by itself. Raises InvalidInput."""
    if all(getattr(request, field) is None for field in FIELDS):
        raise InvalidInput(
            "nothing to change was given",
            hint="give task, context, name, priority, notBefore, timeoutMs, maxAttempts or lane",
            field="parameters",
        )
    if request.task is not None:
        rules.check_text("task", request.task)
    if request.context is not None:
        rules.check_text("context", request.context, empty=True)
    # Before any of it goes to the store: together with what is there they are looked at again.
    rules.check_size("task", (request.task, request.context), config.bounds.max_task_bytes, "bounds.max_task_bytes")
    if request.name is not None:
        rules.check_name(request.name)
    rules.check_integer("priority", request.priority or 0)
    rules.check_integer("notBefore", request.not_before or 0, low=0)
    rules.check_integer("timeoutMs", request.timeout_ms or 0, low=0, high=TIMEOUT_MAX_MS)
    rules.check_integer("maxAttempts", request.max_attempts or 0, low=0, high=ATTEMPTS_MAX)
    if request.lane:
        rules.check_word("lane", request.lane)


def _whole(config: Config, request: Edit, path: str | None) -> Callable[[rows.Quest], None]:
    """What must hold of the quest as it will be. Only what is changed can break a rule: the rest was let in."""

    def check(quest: rows.Quest) -> None:
        if request.task is not None or request.context is not None:
            limit = config.bounds.max_task_bytes
            rules.check_size("task", (quest.task, quest.context), limit, "bounds.max_task_bytes")
        if any(text is not None for text in (request.task, request.context, request.name, request.lane)):
            refuse_oversized(config.for_role(quest.role), quest, path or "")
        if request.max_attempts and quest.max_attempts <= quest.attempts:
            charged = quest.attempts - quest.refunds
            raise InvalidInput(
                f"maxAttempts: {request.max_attempts} leaves none, {charged} are charged already",
                hint=f"give at least {charged + 1}, or 0 for no bound; qlctl cancel ends the quest",
                field="maxAttempts",
            )

    return check
