"""What a store promises of recurrences: the rules, and that each time of a rule becomes one quest at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from questlined.store.rows import DueRecurrence, Recurrence

if TYPE_CHECKING:  # it is made of this, too
    from questlined.store.protocol import ProjectRef, Token


@dataclass(frozen=True, slots=True)
class AddRecurrence:
    """A new rule, complete. `most`: how many there may be in the store."""

    project: ProjectRef
    rule: Recurrence
    most: int
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class SteerRecurrence:
    """Pause, resume or removal of a rule by its id."""

    id: str
    now: int
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Fire:
    """Enqueue what a rule has due. The quests' ids are made of `seed`, which is random."""

    id: str
    now: int
    seed: bytes
    max_waiting: int
    lane_slots: Mapping[str, int] = field(default_factory=dict)
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """The quests that were added, and what holds the rule where one does."""

    quests: tuple[str, ...] = ()
    held: str | None = None


class Recurrences(Protocol):
    """Each method is one transaction, or for a reading one snapshot."""

    async def add_recurrence(self, request: AddRecurrence) -> str:
        """The id. Raises InvalidInput for a name that the project has, LimitReached."""
        ...

    async def switch_recurrence(self, request: SteerRecurrence, enabled: bool) -> str:
        """Pause or resume; the id. Raises NotFound."""
        ...

    async def remove_recurrence(self, request: SteerRecurrence) -> Recurrence:
        """The rule as it was. Its quests stay. Raises NotFound."""
        ...

    async def fire(self, request: Fire) -> Fired:
        """Add the quests of the times since the last one, by the rule's catch-up, and set the next time, all or
        nothing. Nothing while the rule, its project or the daemon is paused, or the project archived.
        Raises NotFound, InvalidInput for a rule that is none, LimitReached (bounds.max_waiting)."""
        ...

    async def rewind_recurrences(self, now: int) -> int:
        """Set the next time right of rules that would sleep past their next one: the clock was set back. How many."""
        ...

    async def recurrence(self, rule: str) -> Recurrence | None:
        """One rule by its id."""
        ...

    async def recurrences_named(self, project: str, name: str) -> list[Recurrence]:
        """The project's rules of that name: one, but for those that other programs wrote."""
        ...

    async def recurrences_matching(self, prefix: str) -> list[str]:
        """Up to ten ids that begin so."""
        ...

    async def recurrences(self, project: str | None, cursor: str | None, limit: int) -> list[Recurrence]:
        """Rules by project and name, of one project or all, behind the rule `cursor`; long texts cut."""
        ...

    async def enabled_recurrences(self) -> list[tuple[str, str, str, str]]:
        """(id, name, cron, timezone) of all that are not paused."""
        ...

    async def due_recurrences(self, now: int, after: tuple[int, str]) -> list[DueRecurrence]:
        """A page of those that are due and not held, by time and id, behind `after`."""
        ...

    async def next_occurrence(self, now: int) -> int | None:
        """When the next rule is due after `now`."""
        ...
