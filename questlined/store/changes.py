"""Who is told of committed changes. Everything here runs on the loop and never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from questlined.store.effects import EVERYWHERE, Effects


class Changes:
    """Fans effects out. A listener is a wake-up, not a message: it reads the store again, so that a lost or doubled
    wake-up costs latency and never work."""

    def __init__(self) -> None:
        self.on_claimable: list[Callable[[], None]] = []
        self.on_leases: list[Callable[[], None]] = []
        self.on_paths: list[Callable[[], None]] = []
        self.on_rules: list[Callable[[], None]] = []
        self.on_due: list[Callable[[int], None]] = []
        self.on_stop: list[Callable[[str], None]] = []
        self.on_changed: list[Callable[[], None]] = []  # a quest's state, or what a gate lets through
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._anyone: set[asyncio.Event] = set()
        self._claimers: dict[str, set[asyncio.Event]] = {}  # by project

    def publish(self, effects: Effects) -> None:
        """Called with each batch's effects after its COMMIT."""
        self._wake_watchers(effects)
        for quest in effects.stop:
            for stop in self.on_stop:
                stop(quest)
        if effects.changed or effects.claimable:
            for look in self.on_changed:
                look()
        if effects.due is not None:
            for due in self.on_due:
                due(effects.due)
        if effects.claimable:
            for wake in self.on_claimable:
                wake()
            self._wake_claimers(effects.claimable)
        for happened, listeners in (
            (effects.leases, self.on_leases),
            (effects.paths, self.on_paths),
            (effects.rules, self.on_rules),
        ):
            for wake in listeners if happened else ():
                wake()

    @contextmanager
    def watching(self, quest: str, event: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
        """An event, the watcher's own or a new one, that is set at each change of the quest's state; the watcher clears
        it."""
        event = event or asyncio.Event()
        self._watchers.setdefault(quest, set()).add(event)
        try:
            yield event
        finally:
            self._watchers[quest].discard(event)
            if not self._watchers[quest]:
                del self._watchers[quest]

    @property
    def watchers(self) -> int:
        """How many watch everything."""
        return len(self._anyone)

    @contextmanager
    def anything(self) -> Iterator[asyncio.Event]:
        """An event that is set at each commit; the watcher clears it."""
        event = asyncio.Event()
        self._anyone.add(event)
        try:
            yield event
        finally:
            self._anyone.discard(event)

    @contextmanager
    def claimable(self, project: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever a quest of the project may have become claimable."""
        event = asyncio.Event()
        self._claimers.setdefault(project, set()).add(event)
        try:
            yield event
        finally:
            self._claimers[project].discard(event)
            if not self._claimers[project]:
                del self._claimers[project]

    def _wake_watchers(self, effects: Effects) -> None:
        for event in self._anyone:
            event.set()
        for quest in effects.changed if self._watchers else ():
            for event in self._watchers.get(quest, ()):
                event.set()

    def _wake_claimers(self, projects: set[str]) -> None:
        for project in self._claimers if EVERYWHERE in projects else projects:
            for event in self._claimers.get(project, ()):
                event.set()
