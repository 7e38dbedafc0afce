"""What a committed transaction means to the rest of the daemon."""

from __future__ import annotations

from dataclasses import dataclass, field

EVERYWHERE = ""


@dataclass(slots=True)
class Effects:
    """Collected while an operation runs, published after its COMMIT, dropped with its rollback.

    `changed` maps quests to their new state; `claimable`: projects where a quest may have become claimable (EVERYWHERE:
    in all); `due`: the earliest time gate that was set (epoch ms); `stop`: quests whose running attempt should stop;
    `leases`: an outside lease was made or moved; `paths`: a project's path was found gone; `rules`: a recurrence, or
    what holds some, has changed."""

    changed: dict[str, str] = field(default_factory=dict)
    claimable: set[str] = field(default_factory=set)
    stop: list[str] = field(default_factory=list)
    leases: bool = False
    paths: bool = False
    rules: bool = False
    due: int | None = None

    def merge(self, other: Effects) -> None:
        """Add what a later operation of the same batch meant."""
        self.changed.update(other.changed)
        self.claimable |= other.claimable
        self.leases = self.leases or other.leases
        self.rules = self.rules or other.rules
        self.paths = self.paths or other.paths
        if other.due is not None:
            self.until(other.due)
        self.stop.extend(other.stop)

    def until(self, moment: int) -> None:
        """A time gate opens at `moment`."""
        self.due = moment if self.due is None else min(self.due, moment)
