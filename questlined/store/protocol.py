"""The store: what the queue promises to keep, whatever database keeps it. One method is one transaction.

Requests come complete: ids, the time and chance are in them, so that a transaction can be run again. Where a request
has a `token`, its answer is kept with it for a day, and the same token answers the same again. Every writing method
may raise StoreFull or Unavailable, and then nothing was written.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from questlined.core.limits import NO_LIMITS, Limits
from questlined.core.quest import NewQuest
from questlined.core.retry import Policy
from questlined.store.reading import Reads
from questlined.store.recurrences import Recurrences
from questlined.store.rows import OldRecords, Quest, Run

REQUEST_KEPT_MS = 24 * 3600 * 1000
NOTHING_FRESH = (1, 0)  # an empty stretch of time


@dataclass(frozen=True, slots=True)
class Token:
    """A client's requestId: the same (uid, request_id) with another `body` digest is a Conflict."""

    uid: int
    request_id: str
    body: str


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write about an attempt: refused with StaleLease once another claim or the end has happened."""

    quest: str
    owner: str
    generation: int


@dataclass(frozen=True, slots=True)
class ProjectRef:
    """A project as a request names it; made when it is new."""

    key: str
    name: str | None
    path: str | None


@dataclass(frozen=True, slots=True)
class Add:
    """Quests of one project, all or none. `lane_slots` holds lanes with more than one slot."""

    project: ProjectRef
    quests: tuple[NewQuest, ...]
    now: int
    max_waiting: int
    lane_slots: Mapping[str, int] = field(default_factory=dict)
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Take up to `most` quests, best first. `own`: for the daemon itself, under `limits`; else from outside, where
    `project` is given and `lane` and `role` may narrow it. `role` None takes any."""

    owner: str
    now: int
    lease_ms: int
    own: bool
    most: int = 1
    limits: Limits = NO_LIMITS
    project: str | None = None
    lane: str | None = None
    role: str | None = None
    agent: str | None = None
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class ClaimNow:
    """Take `quest`, or without it the best of `project`, for the daemon itself because a person says so: past pause and
    concurrency, a quest that is named past its time gates, too."""

    owner: str
    now: int
    lease_ms: int
    limits: Limits = NO_LIMITS
    quest: str | None = None
    project: str | None = None
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A quest under its new lease; `again`: as an earlier call with this token was given it, and it may be over."""

    quest: Quest
    run: Run
    path: str | None
    again: bool = False

    @property
    def fence(self) -> Fence:
        return Fence(self.quest.id, self.run.owner_session, self.run.lease_gen)

    @property
    def about(self) -> dict[str, Mapping[str, object]]:
        """The `extra` of a log record: whose it is."""
        quest, run = self.quest, self.run
        own = {"QUESTLINE_ID": quest.id, "QUESTLINE_PROJECT": quest.project}
        return {"fields": own | {"QUESTLINE_ATTEMPT": run.attempt, "QUESTLINE_RUN": run.run_number}}


@dataclass(frozen=True, slots=True)
class Started:
    """The process of an attempt, as soon as it runs."""

    fence: Fence
    now: int
    pid: int
    pid_started: int
    boot_id: str
    cgroup: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Adopt:
    """Attempts of an earlier daemon that go on under `owner`: (quest, attempt, generation) each."""

    owner: str
    now: int
    lease_ms: int
    runs: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Sealed:
    """An artifact at its final size."""

    kind: str
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an attempt. `chance` in [0, 1) jitters the backoff; `retry_at` is when a park ends or, for a release,
    when the quest may be claimed again; `notify` names the states whose coming is written to the outbox."""

    fence: Fence
    now: int
    klass: str
    chance: float
    policy: Policy
    limits: Limits = NO_LIMITS
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    question: str | None = None
    choices: str | None = None
    retry_at: int | None = None
    summary: str | None = None
    commit_id: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    kill_reason: str | None = None
    last_output_at: int | None = None
    peak_memory_bytes: int | None = None
    cpu_ms: int | None = None
    artifacts: tuple[Sealed, ...] = ()
    path_missing: bool = False
    notify: frozenset[str] = frozenset()
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Extended:
    """A heartbeat's answer."""

    lease_expires_at: int
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Steer:
    """A person's cancel or retry of one quest."""

    quest: str
    now: int
    reason: str | None = None
    notify: frozenset[str] = frozenset()
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """New values for a quest that waits; None leaves one as it is. "" clears `context` and `lane`, 0 `not_before` and
    `timeout_ms`. `max_attempts` is as people count, without refunds, 0 for no bound. `check` is given the quest as it
    will be, and raises where that breaks a rule; a pure function, called inside the transaction."""

    quest: str
    now: int
    check: Callable[[Quest], None]
    task: str | None = None
    context: str | None = None
    name: str | None = None
    priority: int | None = None
    not_before: int | None = None
    timeout_ms: int | None = None
    max_attempts: int | None = None
    lane: str | None = None
    lane_slots: Mapping[str, int] = field(default_factory=dict)
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A person keeps a quest out of the queue. `choices` is a JSON array."""

    quest: str
    now: int
    reason: str | None = None
    question: str | None = None
    choices: str | None = None
    notify: frozenset[str] = frozenset()
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Pausing:
    """Pause or resume a project, or with `project` None the whole daemon."""

    project: ProjectRef | None
    paused: bool
    reason: str
    now: int
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Settle leases whose holder is gone. `fail`: an outside holder's quest fails instead of coming back."""

    now: int
    chance: float
    policy: Policy
    limits: Limits = NO_LIMITS
    fail: bool = False
    notify: frozenset[str] = frozenset()


class Store(Reads, Recurrences, Protocol):
    """See the module's docstring."""

    def add(self, request: Add) -> Future[list[str]]:
        """The ids, in order. Taken at once: of two that are asked for, the first is stored first, and they may share
        a transaction. A quest with a failed or cancelled dependency is stored as failed by it. Raises
        DependencyInvalid (not_found, cross_project), LimitReached (bounds.max_waiting)."""
        ...

    async def claim(self, request: Claim) -> list[Claimed]:
        """Up to `most` quests, best first: priority, then age; none where every gate is closed."""
        ...

    async def claim_now(self, request: ClaimNow) -> Claimed | None:
        """The quest under its lease; None where the project has none to claim. Raises NotFound, and WrongState that
        names the gate which holds a quest that is named."""
        ...

    async def started(self, request: Started) -> bool:
        """Keep the process of an attempt; whether it has been asked to stop meanwhile. May be written a moment later,
        together with something else, but before what is asked for after it. Raises StaleLease."""
        ...

    async def finish(self, request: Finish) -> str:
        """The quest's new state: its attempt, dependents, events and outbox in one step. Raises StaleLease."""
        ...

    async def heartbeat(self, fence: Fence, now: int, lease_ms: int) -> Extended:
        """Push a lease out. Raises StaleLease."""
        ...

    async def verdict(self, fence: Fence, verdict: str, token: Token | None) -> str:
        """Keep what an agent says of its own attempt (JSON), for its finish; the quest's id. Raises StaleLease."""
        ...

    async def extend_own(self, owner: str, now: int, lease_ms: int) -> int:
        """Push out every lease of this daemon; how many."""
        ...

    async def cancel(self, request: Steer) -> str:
        """The quest's id; it is cancelled, or asked to stop. Raises NotFound, WrongState."""
        ...

    async def retry(self, request: Steer) -> str:
        """The quest's id; queued again, with what failed only through it. Raises NotFound, WrongState,
        DedupeConflict."""
        ...

    async def edit(self, request: Edit) -> str:
        """The quest's id. Raises NotFound, WrongState, and what `check` raises."""
        ...

    async def block(self, request: Block) -> str:
        """The quest's id; it is blocked, or will be when the attempt ends that this store's daemon runs. Raises
        NotFound, WrongState."""
        ...

    async def pause(self, request: Pausing) -> None:
        """Close or open the gate of a project or of the daemon."""
        ...

    async def expire(self, request: Reclaim) -> int:
        """Settle up to a page of outside leases that ran out; how many. Call again until 0."""
        ...

    async def recover(self, request: Reclaim, sealed: Mapping[tuple[str, int], tuple[Sealed, ...]]) -> list[str]:
        """Settle leases that an earlier daemon of this store held: the attempts in `sealed`, with their files; the
        quests."""
        ...

    async def adopt(self, request: Adopt) -> list[Claimed]:
        """Make these attempts, which this store's daemon held, the owner's at the same generation, under fresh leases.
        Those that have ended or were claimed again meanwhile are not among what is given."""
        ...

    async def promote(self, now: int) -> int:
        """Open time gates that are due; how many."""
        ...

    async def shift_leases(self, delta_ms: int, fresh: tuple[int, int] = NOTHING_FRESH) -> None:
        """Move every lease by a suspend's length or a step of the wall clock; none that was made or extended in
        `fresh` (from, to), after that had happened."""
        ...

    async def shift_retries(self, delta_ms: int, fresh: tuple[int, int] = NOTHING_FRESH) -> None:
        """Move the end of every backoff by a step of the wall clock, but for those that began in `fresh`. What somebody
        set, as not-before, stays."""
        ...

    async def path_missing(self, project: str, missing: bool) -> None:
        """Close or open a project's path gate."""
        ...

    async def configure(self, limits: Limits, lane_slots: Mapping[str, int]) -> None:
        """Apply concurrency and lane slots from the configuration to what is stored."""
        ...

    async def forget_requests(self, before: int) -> int:
        """Drop kept answers older than `before`; how many."""
        ...

    async def forget_records(self, records: Sequence[OldRecords]) -> int:
        """Drop what is known of these indexes, whose files are gone; how many."""
        ...

    async def backup(self, target: Path, reserve: int) -> int:
        """Copy all that is committed into the new file `target`, of which nothing is seen until it is whole; its size.
        Writes go on meanwhile. On the store's own disk `reserve` bytes stay free. Raises Busy where a copy is being
        made, InvalidInput for a file that exists, StoreFull, Unavailable."""
        ...

    async def touch(self) -> None:
        """Returns when the writer has come round; writes nothing, but to see whether it can after it could not.

        Raises Unavailable, StoreFull."""
        ...
