"""What may be read of a store. Reads see every write that was answered before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from questlined.core.gates import Situation
from questlined.store.rows import Artifact, Event, OldRecords, OpenRun, Project, Quest, Run, Told


@dataclass(frozen=True, slots=True)
class Page:
    """A page of quests, newest first, after the quest `cursor`. Empty filters match everything."""

    limit: int
    project: str | None = None
    states: tuple[str, ...] = ()
    role: str | None = None
    lane: str | None = None
    submitter: int | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a claimer is told: the project's last ended attempts, and what else runs in it."""

    before: tuple[Run, ...]
    running: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class EventPage:
    """A stretch of the journal: `last` is the number it was walked up to, `more` whether rows may follow at once."""

    events: tuple[Event, ...]
    last: int
    more: bool


@dataclass(frozen=True, slots=True)
class StoryPage:
    """The same with what a story needs."""

    told: tuple[Told, ...]
    last: int
    more: bool


class Reads(Protocol):
    """Each method is one snapshot; it waits for no write."""

    async def quest(self, quest: str) -> Quest | None:
        """One quest."""
        ...

    async def matching(self, prefix: str, submitter: int | None = None) -> list[str]:
        """Up to ten ids that begin so; with `submitter` those of this uid only."""
        ...

    async def page(self, request: Page) -> list[Quest]:
        """Quests, newest first. Raises NotFound for an unknown cursor."""
        ...

    async def dependencies(self, quests: Sequence[str]) -> dict[str, list[str]]:
        """What each of these depends on."""
        ...

    async def runs(self, quest: str, after: int, limit: int) -> list[Run]:
        """Attempts with a number above `after`, oldest first."""
        ...

    async def run(self, quest: str, attempt: int) -> Run | None:
        """One attempt."""
        ...

    async def run_numbered(self, project: str, number: int) -> Run | None:
        """The attempt with this run number."""
        ...

    async def surroundings(self, project: str, quest: str) -> Surroundings:
        """Other attempts of the project, for one who claimed `quest`."""
        ...

    async def events(self, *, quest: str | None, project: str | None, before: int | None, limit: int) -> list[Event]:
        """Events with a number below `before`, newest first: of a quest, a project, or all."""
        ...

    async def events_after(self, after: int, *, project: str | None, submitter: int | None, walk: int) -> EventPage:
        """The events of up to `walk` rows above `after`, oldest first; those of other projects and, with `submitter`,
        of other users' quests are passed by."""
        ...

    async def story(self, after: int, events: Sequence[str], walk: int) -> StoryPage:
        """Those of these names among up to `walk` events above `after`, oldest first."""
        ...

    async def last_event(self) -> int:
        """The highest number that an event ever had, 0 before the first."""
        ...

    async def artifacts(self, quest: str) -> list[Artifact]:
        """Files of every attempt, but for the indexes of their records."""
        ...

    async def artifacts_of(self, quest: str, attempt: int) -> list[Artifact]:
        """The same of one attempt."""
        ...

    async def old_records(self, before: int) -> list[OldRecords]:
        """A page of the indexes that were stored before then, oldest first."""
        ...

    async def situation(self, quest: str, now: int) -> Situation | None:
        """All that decides whether a quest may run."""
        ...

    async def counts(self, project: str | None) -> dict[str, int]:
        """Quests by state, all seven, kept and not counted."""
        ...

    async def project(self, key: str) -> Project | None:
        """One project."""
        ...

    async def registered_paths(self) -> list[tuple[str, str]]:
        """(path, key) of projects that capture directories below them."""
        ...

    async def missing_paths(self) -> list[tuple[str, str]]:
        """(key, path) of projects whose path gate is closed and that have a path."""
        ...

    async def daemon_paused(self) -> str | None:
        """The reason, "" without one, None when not paused."""
        ...

    async def next_due(self) -> int | None:
        """When the next time gate opens."""
        ...

    async def next_expiry(self) -> int | None:
        """When the next outside lease runs out."""
        ...

    async def open_runs(self) -> list[OpenRun]:
        """Attempts that a daemon of this store holds."""
        ...

    async def fault(self) -> str | None:
        """What is wrong with the store itself, None where nothing was found."""
        ...
