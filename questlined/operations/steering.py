"""Steering quests: Cancel, Retry and Block."""

from __future__ import annotations

import json

from questlined.core.quest import check_size, check_text
from questlined.core.verdicts import Verdict
from questlined.operations import find, views
from questlined.operations.context import Caller, Changing, Context, Reply
from questlined.store.protocol import Block as StoreBlock
from questlined.store.protocol import Steer
from questlined.wire.errors import InvalidInput

REASON_MAX = 4096
CHOICES_MAX = 50


class Cancel(Changing, frozen=True, kw_only=True):
    """Parameters of Cancel."""

    id: str
    reason: str | None = None


class Retry(Changing, frozen=True, kw_only=True):
    """Parameters of Retry."""

    id: str


class Block(Changing, frozen=True, kw_only=True):
    """Parameters of Block."""

    id: str
    reason: str | None = None
    question: str | None = None
    choices: list[str] | None = None


class QuestReply(Reply, frozen=True, kw_only=True):
    """A quest as it is now."""

    quest: views.Quest


async def reply(ctx: Context, quest: str) -> QuestReply:
    """The quest as it is now. Raises NotFound."""
    row = await ctx.store.quest(quest)
    if row is None:
        raise find.gone(quest)
    return QuestReply(quest=views.quest(row, (await ctx.store.dependencies([quest])).get(quest, ())))


def checked_reason(field: str, reason: str | None) -> str | None:
    """A reason or summary within its bound."""
    if reason is not None:
        check_text(field, reason, empty=True)
        check_size(field, (reason,), REASON_MAX, None)
    return reason or None


def blocked(reason: str | None, question: str | None, choices: list[str] | None) -> Verdict:
    """What keeps a quest for a person, within its bounds."""
    if len(choices or ()) > CHOICES_MAX:
        raise InvalidInput(f"choices: more than {CHOICES_MAX}", hint="offer fewer", field="choices")
    for choice in choices or ():
        check_text("choices", choice)
        checked_reason("choices", choice)
    return Verdict(
        "blocked",
        reason=checked_reason("reason", reason),
        question=checked_reason("question", question),
        choices=json.dumps(choices) if choices else None,
    )


async def cancel(ctx: Context, caller: Caller, request: Cancel) -> QuestReply:
    """Stop a quest. One that runs is stopped at once and cancelled when its last process is dead."""
    token = ctx.token(caller, "Cancel", request)
    row = await find.quest(ctx, caller, request.id)
    reason = checked_reason("reason", request.reason)
    await ctx.store.cancel(Steer(row.id, ctx.clock.wall_ms(), reason=reason, token=token))
    return await reply(ctx, row.id)


async def retry(ctx: Context, caller: Caller, request: Retry) -> QuestReply:
    """Queue a quest again with one more attempt, and what failed only through it."""
    token = ctx.token(caller, "Retry", request)
    row = await find.quest(ctx, caller, request.id)
    await ctx.store.retry(Steer(row.id, ctx.clock.wall_ms(), token=token))
    return await reply(ctx, row.id)


async def block(ctx: Context, caller: Caller, request: Block) -> QuestReply:
    """Keep a quest that waits for a person; of one that the daemon runs, when its process has ended."""
    token = ctx.token(caller, "Block", request)
    row = await find.quest(ctx, caller, request.id)
    said = blocked(request.reason, request.question, request.choices)
    await ctx.store.block(
        StoreBlock(row.id, ctx.clock.wall_ms(), said.reason, said.question, said.choices, token=token)
    )
    return await reply(ctx, row.id)
