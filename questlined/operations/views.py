"""Rows as the wire shows them: camelCase, absent keys left out, unknown telemetry null."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

from questlined.core.ids import attempt_id
from questlined.core.quest import NewQuest
from questlined.store import rows

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)
SHORT = 200
CUT = 16 * 1024


class View(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of the wire's types."""


class Quest(View, frozen=True, kw_only=True):
    """io.questline.Quests.Quest"""

    id: str
    project: str
    role: str
    name: str
    task: str
    context: str | UnsetType = UNSET
    state: str
    attempts: int
    refunds: int
    max_attempts: int
    priority: int
    scheduled_at: int
    retry_at: int | UnsetType = UNSET
    dedupe_key: str | UnsetType = UNSET
    depends_on: Sequence[str] = ()
    lane: str | UnsetType = UNSET
    external: bool
    group_id: str | UnsetType = UNSET
    group_step: str | UnsetType = UNSET
    recurrence_id: str | UnsetType = UNSET
    occurrence_at: int | UnsetType = UNSET
    created_at: int
    updated_at: int
    started_at: int | UnsetType = UNSET
    finished_at: int | UnsetType = UNSET
    lease_version: int
    lease_expires_at: int | UnsetType = UNSET
    heartbeat_at: int | UnsetType = UNSET
    owner_session: str | UnsetType = UNSET
    agent_run_id: str | UnsetType = UNSET
    retain_until_consumed: bool
    consumed_at: int | UnsetType = UNSET
    cancel_requested_at: int | UnsetType = UNSET
    timeout_ms: int | UnsetType = UNSET
    result: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    failure_kind: str | UnsetType = UNSET
    failed_dependency_id: str | UnsetType = UNSET
    class_: str | UnsetType = field(default=UNSET, name="class")
    question: str | UnsetType = UNSET
    choices: list[str] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    parent_id: str | UnsetType = UNSET


class Run(View, frozen=True, kw_only=True):
    """io.questline.Quests.Attempt"""

    id: str
    number: int
    quest: str
    attempt: int
    generation: int
    owner: str
    agent: str | UnsetType = UNSET
    started_at: int
    finished_at: int | UnsetType = UNSET
    outcome: str | UnsetType = UNSET
    class_: str | UnsetType = field(default=UNSET, name="class")
    exit_code: int | UnsetType = UNSET
    exit_signal: int | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    commit: str | UnsetType = UNSET
    provider: str | None = None
    model: str | None = None
    turns: int | None = None
    tokens: int | None = None
    tokens_input: int | None = None
    tokens_output: int | None = None
    cost_usd: float | None = None
    last_activity: str | None = None
    last_output_at: int | None = None
    session_id: str | None = None
    peak_memory_bytes: int | None = None
    cpu_ms: int | None = None
    silent_ms: int | None = None
    error: str | UnsetType = UNSET


class Event(View, frozen=True, kw_only=True):
    """io.questline.Quests.Event"""

    seq: int
    quest_id: str
    event: str
    at: int
    data: dict[str, Any]


class Artifact(View, frozen=True, kw_only=True):
    """io.questline.Quests.Artifact"""

    attempt: int
    kind: str
    path: str
    bytes: int
    created_at: int


class Gate(View, frozen=True, kw_only=True):
    """io.questline.Quests.Gate"""

    gate: str
    detail: str
    opens_at: int | UnsetType = UNSET


class Counts(View, frozen=True, kw_only=True):
    """Quests by state."""

    queued: int = 0
    running: int = 0
    interrupted: int = 0
    blocked: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0


def some(value: T | None) -> T | UnsetType:
    """None as an absent key."""
    return UNSET if value is None else value


def _short(text: str | None, limit: int | None) -> str | UnsetType:
    return UNSET if text is None else cut(text, limit)


def cut(text: str, limit: int | None) -> str:
    """A text of at most so many characters."""
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


def quest(row: rows.Quest, depends_on: Iterable[str] = (), *, shorten: int | None = None) -> Quest:
    """A quest; `shorten` cuts its long texts to so many characters."""
    return Quest(
        id=row.id,
        project=row.project,
        role=row.role,
        name=row.name,
        task=_short(row.task, shorten) or "",
        context=_short(row.context, shorten),
        state=row.state,
        attempts=row.attempts,
        refunds=row.refunds,
        max_attempts=row.max_attempts,
        priority=row.priority,
        scheduled_at=row.scheduled_at,
        retry_at=some(row.retry_at),
        dedupe_key=some(row.dedupe_key),
        depends_on=list(depends_on),
        lane=some(row.lane),
        external=bool(row.external),
        group_id=some(row.group_id),
        group_step=some(row.group_step),
        recurrence_id=some(row.recurrence_id),
        occurrence_at=some(row.occurrence_at),
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=some(row.started_at),
        finished_at=some(row.finished_at),
        lease_version=row.lease_gen,
        lease_expires_at=some(row.lease_expires_at),
        heartbeat_at=some(row.heartbeat_at),
        owner_session=some(row.owner_session),
        agent_run_id=some(row.agent_run_id),
        retain_until_consumed=bool(row.retain_until_consumed),
        consumed_at=some(row.consumed_at),
        cancel_requested_at=some(row.cancel_requested_at),
        timeout_ms=some(row.timeout_ms),
        result=_short(row.result, shorten),
        error=_short(row.error, shorten),
        failure_kind=some(row.failure_kind),
        failed_dependency_id=some(row.failed_dependency_id),
        class_=some(row.class_),
        question=_short(row.question, shorten),
        choices=UNSET if row.choices is None else json.loads(row.choices),
        reason=some(row.reason),
        parent_id=some(row.parent_id),
    )


def new(fresh: NewQuest) -> Quest:
    """A quest that has just been stored and waits for no other, without asking for its row."""
    return Quest(
        id=fresh.id,
        project=fresh.project,
        role=fresh.role,
        name=fresh.name,
        task=fresh.task,
        context=some(fresh.context),
        state="queued",
        attempts=0,
        refunds=0,
        max_attempts=fresh.max_attempts,
        priority=fresh.priority,
        scheduled_at=fresh.scheduled_at,
        lane=some(fresh.lane),
        external=fresh.external,
        created_at=fresh.created_at,
        updated_at=fresh.created_at,
        lease_version=0,
        retain_until_consumed=False,
        timeout_ms=some(fresh.timeout_ms),
        parent_id=some(fresh.parent_id),
    )


def run(row: rows.Run, *, now: int, last_output_at: int | None = None) -> Run:
    """An attempt; `last_output_at` is what the daemon knows of one that runs."""
    known = row.usage is not None
    last = row.last_output_at if last_output_at is None else last_output_at
    return Run(
        id=attempt_id(row.quest_id, row.attempt),
        number=row.run_number,
        quest=row.quest_id,
        attempt=row.attempt,
        generation=row.lease_gen,
        owner=row.owner_session,
        agent=some(row.agent),
        started_at=row.started_at,
        finished_at=some(row.finished_at),
        outcome=some(row.outcome),
        class_=some(row.class_),
        exit_code=some(row.exit_code),
        exit_signal=some(row.exit_signal),
        summary=some(row.summary),
        commit=some(row.commit_id),
        provider=row.provider,
        model=row.model,
        turns=row.turns if known else None,
        tokens=row.tokens if known else None,
        tokens_input=row.tokens_input,
        tokens_output=row.tokens_output,
        cost_usd=row.cost_usd if known else None,
        last_activity=row.last_activity,
        last_output_at=last,
        session_id=row.session_id,
        peak_memory_bytes=row.peak_memory_bytes,
        cpu_ms=row.cpu_ms,
        silent_ms=max(0, now - (last or row.started_at)) if row.finished_at is None else None,
        error=_short(row.error, SHORT),
    )


def shortened(reply: R) -> R:
    """The reply with its quest's long texts cut, for one that fits no frame; they are whole in the artifacts."""
    whole = getattr(reply, "quest", None)
    if not isinstance(whole, Quest):
        return reply
    texts = {name: getattr(whole, name) for name in ("task", "context", "result", "error")}
    cut = {name: _short(text, CUT) for name, text in texts.items() if isinstance(text, str)}
    return msgspec.structs.replace(reply, quest=msgspec.structs.replace(whole, **cut))


def event(row: rows.Event) -> Event:
    """A state change."""
    return Event(seq=row.seq, quest_id=row.quest_id, event=row.event, at=row.at, data=json.loads(row.data))


def artifact(row: rows.Artifact) -> Artifact:
    """A file."""
    return Artifact(attempt=row.attempt, kind=row.kind, path=row.path, bytes=row.bytes, created_at=row.created_at)
