"""The store's file, read past the product's code and held against the model."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.property.model import Model
from tests.property.queue import CLASSES
from tests.property.world import World
from tests.support.invariants import broken, contradictions

_QUESTS = """
  SELECT id, state, attempts, max_attempts, refunds, interruptions, lease_gen, retry_at, lease_expires_at,
         CASE WHEN state = 'running' THEN owner_session END, own, lane_slot, cancel_requested_at, class,
         CASE WHEN state = 'failed' THEN failure_kind END, finished_at,
         CASE WHEN state IN ('queued', 'interrupted') THEN waiting ELSE 0 END
    FROM quests ORDER BY rowid"""
_NAMES = (
    *("id", "state", "attempts", "max_attempts", "refunds", "interruptions", "generation", "retry_at"),
    *("lease_expires_at", "owner", "own", "lane_slot", "cancel_requested_at", "class", "failure_kind", "finished_at"),
    "waiting",
)
_RUNS = """
  SELECT quest_id, attempt, lease_gen, project, run_number, owner_session, started_at, finished_at, outcome, class
    FROM quest_runs ORDER BY rowid"""
_EVENTS = "SELECT quest_id, event, at FROM quest_events WHERE seq > ? ORDER BY seq"
_OUTBOX = "SELECT quest_id, payload ->> 'state' FROM outbox WHERE seq > ? ORDER BY seq"
_PROJECTS = """
  SELECT key, path, runs_started, path_missing,
         EXISTS (SELECT 1 FROM project_controls c WHERE c.project = key AND paused_at IS NOT NULL)
    FROM projects ORDER BY key"""
_FAILED_BY = """
  SELECT id, failed_dependency_id FROM quests q
   WHERE failure_kind = 'dependency' AND state = 'failed'
     AND NOT EXISTS (SELECT 1 FROM quest_deps d WHERE d.quest_id = q.id AND d.depends_on = q.failed_dependency_id)"""
Row = tuple[Any, ...]
_OVERFULL = "a lane that is over-full"  # right where slots were taken away from a lane in use


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is read after a write."""

    quests: list[Row]
    runs: list[Row]
    projects: list[Row]
    events: list[Row]
    posted: list[Row]


class Watch:
    """One connection to the file of a history, kept open. `events` and `posted` are what was seen there so far."""

    def __init__(self, path: Path, events: int, posted: int) -> None:
        self.path = path
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        self.events, self.posted = events, posted
        self._version: int | None = None

    def close(self) -> None:
        self._db.close()

    def differences(self, world: World) -> list[str]:
        """All that is not as the model has it, or contradicts itself. The model's news are taken from it."""
        found: list[str] = []
        self._db.execute("BEGIN")
        try:
            version = self._db.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:
                self._version = version
                self._rows = self._read()
                found += self._inside(world)
            else:  # nothing was written since the last look
                self._rows = replace(self._rows, events=[], posted=[])
        finally:
            self._db.execute("COMMIT")
        found += _against(self._rows, world)
        self.events += len(self._rows.events)
        self.posted += len(self._rows.posted)
        return found

    def last(self, world: World) -> list[str]:
        """What is wrong with the whole file, its pages too."""
        found = broken(self.path, role=world.limits.role, project=world.limits.project)
        return [line for line in found if not line.startswith(_OVERFULL)]

    def _read(self) -> _Rows:
        read = self._db.execute
        return _Rows(
            read(_QUESTS).fetchall(),
            read(_RUNS).fetchall(),
            read(_PROJECTS).fetchall(),
            read(_EVENTS, (self.events,)).fetchall(),
            read(_OUTBOX, (self.posted,)).fetchall(),
        )

    def _inside(self, world: World) -> Iterator[str]:
        for line in contradictions(self._db, role=world.limits.role, project=world.limits.project):
            if not line.startswith(_OVERFULL) or not world.model.overfull():
                yield line
        yield from (f"failed by what it does not depend on: {row}" for row in self._db.execute(_FAILED_BY))


def _against(rows: _Rows, world: World) -> Iterator[str]:
    model, met = world.model, world.met
    should = _quests(model)
    yield from _unlike("quests", [row[:1] for row in rows.quests], [row[:1] for row in should])
    for real, foretold in zip(rows.quests, should, strict=False):
        if real != foretold:
            pairs = zip(_NAMES, real, foretold, strict=True)
            yield from (f"{real[0]}: {name} is {a!r}, should be {b!r}" for name, a, b in pairs if a != b)
    yield from _unlike("attempts", rows.runs, _runs(model))
    yield from _unlike("projects", rows.projects, _projects(model))
    # Of what one step wrote, no order is promised.
    yield from _unlike("events", sorted(rows.events), sorted(model.told))
    yield from _unlike("outbox", sorted(rows.posted), sorted(model.outbox))
    told = {event for _, event, _ in model.told}
    met["a dependent failed"] += "dependency_failed" in told
    met["a dependent came back"] += "dependency_requeued" in told
    model.told.clear()
    model.outbox.clear()


def _unlike(what: str, real: list[Row], foretold: list[Row]) -> Iterator[str]:
    if real == foretold:
        return
    surplus, missing = Counter(real) - Counter(foretold), Counter(foretold) - Counter(real)
    yield from (f"{what}: {row} should not be there" for row in surplus.elements())
    yield from (f"{what}: {row} is missing" for row in missing.elements())
    if not surplus and not missing:
        yield f"{what}: they are in another order than they came: {real}"


def _quests(model: Model) -> list[Row]:
    return [
        (
            key,
            quest.state,
            quest.attempts,
            quest.max_attempts,
            quest.refunds,
            quest.interruptions,
            quest.attempts,
            quest.retry_at,
            quest.expires,
            quest.owner,
            int(quest.own),
            quest.slot,
            quest.cancel_at,
            quest.klass,
            quest.kind if quest.state == "failed" else None,
            quest.finished_at,
            int(model.timed(quest)),
        )
        for key, quest in model.quests.items()
    ]


def _runs(model: Model) -> list[Row]:
    return [
        (quest, attempt, attempt, run.project, run.number, run.owner, run.started_at, run.finished_at)
        + ((None, None) if run.klass is None else (CLASSES[run.klass][2], run.klass))
        for (quest, attempt), run in model.runs.items()
    ]


def _projects(model: Model) -> list[Row]:
    return sorted(
        (key, project.path, project.runs, int(project.missing), int(project.paused))
        for key, project in model.projects.items()
    )
