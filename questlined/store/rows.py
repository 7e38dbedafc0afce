"""Rows as the rest of the program sees them. Field names are column names; times are epoch milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quest:
    """A quest, whole."""

    id: str
    project: str
    role: str
    name: str
    task: str
    context: str | None
    state: str
    attempts: int
    max_attempts: int
    backoff_base_ms: int
    priority: int
    scheduled_at: int
    retry_at: int | None
    dedupe_key: str | None
    retain_until_consumed: int
    consumed_at: int | None
    lease_gen: int
    lease_expires_at: int | None
    heartbeat_at: int | None
    created_at: int
    updated_at: int
    started_at: int | None
    finished_at: int | None
    agent_run_id: str | None
    owner_session: str | None
    result: str | None
    error: str | None
    failure_kind: str | None
    failed_dependency_id: str | None
    group_id: str | None
    group_step: str | None
    recurrence_id: str | None
    occurrence_at: int | None
    class_: str | None
    lane: str | None
    lane_slot: int | None
    external: int
    own: int
    refunds: int
    interruptions: int
    cancel_requested_at: int | None
    unmet: int
    submitter_uid: int | None
    submitter_path: str | None
    parent_id: str | None
    depth: int
    question: str | None
    choices: str | None
    reason: str | None
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt. `usage` None means that turns, tokens and cost are unknown."""

    quest_id: str
    attempt: int
    run_number: int
    lease_gen: int
    owner_session: str
    agent: str | None
    started_at: int
    finished_at: int | None
    outcome: str | None
    class_: str | None
    exit_code: int | None
    exit_signal: int | None
    kill_reason: str | None
    summary: str | None
    commit_id: str | None
    provider: str | None
    model: str | None
    usage: str | None
    turns: int
    tokens: int
    tokens_input: int | None
    tokens_output: int | None
    cost_usd: float
    last_activity: str | None
    last_output_at: int | None
    session_id: str | None
    peak_memory_bytes: int | None
    cpu_ms: int | None
    error: str | None
    verdict: str | None
    project: str


@dataclass(frozen=True, slots=True)
class OpenRun:
    """What is known of an attempt's process, for finding what an earlier daemon left."""

    quest_id: str
    attempt: int
    lease_gen: int
    owner_session: str
    pid: int | None
    pid_started: int | None
    boot_id: str | None
    cgroup: str | None
    unit: str | None

    @property
    def about(self) -> dict[str, dict[str, object]]:
        """The `extra` of a log record: whose it is."""
        return {"fields": {"QUESTLINE_ID": self.quest_id, "QUESTLINE_ATTEMPT": self.attempt}}


@dataclass(frozen=True, slots=True)
class Event:
    """A state change in the journal. `data` is JSON."""

    seq: int
    quest_id: str
    event: str
    at: int
    data: str


@dataclass(frozen=True, slots=True)
class Told:
    """A state change with what tells whose it is. The last three are None where no attempt is concerned."""

    quest_id: str
    event: str
    project: str
    attempt: int | None
    class_: str | None
    run_number: int | None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file of an attempt, with its sealed size."""

    attempt: int
    kind: str
    path: str
    bytes: int
    created_at: int


@dataclass(frozen=True, slots=True)
class OldRecords:
    """The index of an attempt's records, which is to be deleted."""

    quest_id: str
    attempt: int
    path: str


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The rule of a recurrence, and what each of its quests gets. `next_run_at`: the first of its times that was not
    dealt with."""

    id: str
    project: str
    name: str
    cron: str
    timezone: str
    role: str
    task: str
    context: str | None
    priority: int
    max_attempts: int
    backoff_base_ms: int
    catch_up: str
    enabled: int
    next_run_at: int
    last_enqueued_at: int | None
    created_at: int
    updated_at: int
    lane: str | None
    timeout_ms: int | None
    external: int
    submitter_uid: int | None


@dataclass(frozen=True, slots=True)
class DueRecurrence:
    """A rule that has something due."""

    next_run_at: int
    id: str
    name: str
    cron: str
    timezone: str


@dataclass(frozen=True, slots=True)
class Project:
    """A project. `paused_reason` is None when it is not paused, "" when it is without a reason."""

    key: str
    name: str | None
    path: str | None
    archived: int
    runs_started: int
    registered: int
    path_missing: int
    paused_reason: str | None
