"""The queue as plain dictionaries, and the questions that can be asked of it: the model's ground (model.py).

Slow and simple on purpose: every question walks all quests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from questlined.core.limits import NO_LIMITS, Limits
from questlined.core.quest import NewQuest

WAITING = ("queued", "interrupted", "blocked")
CLAIMABLE = ("queued", "interrupted")
DEAD = ("failed", "cancelled")
FINAL = ("done", "failed", "cancelled")
# class → (charged, what then, what the journal's own column calls it)
CLASSES = {
    "ok": (True, "done", "done"),
    "failed": (True, "retry", "failed"),
    "timeout": (True, "retry", "failed"),
    "transient": (True, "retry", "failed"),
    "max_turns": (True, "block", "interrupted"),
    "budget": (False, "block", "interrupted"),
    "blocked": (False, "block", "interrupted"),
    "limit": (False, "park", "interrupted"),
    "bad_config": (False, "fail", "failed"),
    "cancelled": (False, "cancel", "cancelled"),
    "interrupted": (False, "interrupt", "interrupted"),
    "lost": (False, "interrupt", "interrupted"),
    "released": (False, "release", "interrupted"),
}
OUTRANKS_A_VERDICT = ("cancelled", "bad_config", "released")


@dataclass(unsafe_hash=True)
class Refused(Exception):
    """An error of the store: its name, and the one detail of it that is foretold."""

    name: str
    detail: object = None


@dataclass(slots=True)
class Quest:
    """A quest. `held`: a time gate was set and has not been opened."""

    new: NewQuest
    max_attempts: int
    held: bool
    state: str = "queued"
    attempts: int = 0
    refunds: int = 0
    interruptions: int = 0
    retry_at: int | None = None
    klass: str | None = None
    kind: str | None = None
    finished_at: int | None = None
    owner: str | None = None
    own: bool = False
    slot: int | None = None
    expires: int | None = None
    cancel_at: int | None = None

    @property
    def due(self) -> int:
        """When its time gate opens."""
        return max(self.new.scheduled_at, self.retry_at or 0)


@dataclass(slots=True)
class Run:
    """An attempt."""

    project: str
    number: int
    owner: str
    started_at: int
    finished_at: int | None = None
    klass: str | None = None
    verdict: str | None = None


@dataclass(slots=True)
class Project:
    """A project with the gates that are its own."""

    path: str | None
    runs: int = 0
    paused: bool = False
    missing: bool = False


Got = tuple[str, int, int]  # quest, attempt, run number
Kept = tuple[str, Any, int]  # body, answer or refusal, when


@dataclass(slots=True)
class Queue:
    """All there is, and questions about it. `told` and `outbox` hold what the last step should have written there."""

    quests: dict[str, Quest] = field(default_factory=dict)
    runs: dict[tuple[str, int], Run] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    kept: dict[tuple[int, str], Kept] = field(default_factory=dict)
    paused: bool = False
    limits: Limits = NO_LIMITS
    told: list[tuple[str, str, int]] = field(default_factory=list)
    outbox: list[tuple[str, str]] = field(default_factory=list)

    def unmet(self, quest: Quest) -> int:
        """How many of its dependencies are not done."""
        return sum(self.quests[dependency].state != "done" for dependency in quest.new.depends_on)

    def running(self) -> Iterator[Quest]:
        """What runs now."""
        return (quest for quest in self.quests.values() if quest.state == "running")

    def in_lane(self, project: str, lane: str) -> list[Quest]:
        """What runs in a lane."""
        return [quest for quest in self.running() if (quest.new.project, quest.new.lane) == (project, lane)]

    def lane_full(self, project: str, lane: str | None) -> bool:
        """Whether a lane has no free slot."""
        return lane is not None and len(self.in_lane(project, lane)) >= self.lanes[project, lane]

    def overfull(self) -> bool:
        """Whether a lane holds more than its slots, since those were taken away."""
        return any(len(self.in_lane(*lane)) > slots for lane, slots in self.lanes.items())

    def role_full(self, role: str) -> bool:
        """Whether as many of the daemon's own run in a role as may."""
        running = sum(quest.own and quest.new.role == role for quest in self.running())
        return role in self.limits.role and running >= self.limits.role[role]

    def project_full(self, project: str) -> bool:
        """Whether as many of the daemon's own run in a project as may."""
        running = sum(quest.own and quest.new.project == project for quest in self.running())
        return self.limits.project is not None and running >= self.limits.project

    def gates(self, key: str, now: int) -> set[str] | None:
        """The names of all gates that are closed for a quest."""
        if key not in self.quests:
            return None
        quest = self.quests[key]
        new, project = quest.new, self.projects[quest.new.project]
        no_path = project.path is None or project.missing
        closed = {
            "dependency": self.unmet(quest) > 0,
            "not-before": new.scheduled_at > now,
            "backoff": (quest.retry_at or 0) > now,
            "external": new.external,
            "lane": self.lane_full(new.project, new.lane),
            "paused": self.paused or project.paused,
            "path": not new.external and no_path,
            "role-concurrency": not new.external and self.role_full(new.role),
            "project-concurrency": not new.external and self.project_full(new.project),
        }
        return {name for name, is_closed in closed.items() if is_closed}

    @staticmethod
    def timed(quest: Quest) -> bool:
        """Whether a time gate holds it."""
        return quest.held and quest.state in CLAIMABLE

    @staticmethod
    def first(quests: Iterable[Quest]) -> Quest | None:
        # Of equals the older row comes first, which is the order they stand in here.
        return min(quests, key=lambda quest: (-quest.new.priority, quest.new.created_at), default=None)
