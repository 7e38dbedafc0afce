"""Reads: each a function of a connection, on one snapshot of the reader thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from questlined.core.gates import Situation
from questlined.core.states import STATES
from questlined.store.reading import EventPage, StoryPage, Surroundings
from questlined.store.rows import Artifact, Event, OldRecords, OpenRun, Project, Quest, Run, Told
from questlined.store.sqlite.statements import Family, columns, value

_sql = Family("reads")
quest = _sql.one("quest", Quest)
run = _sql.one("run", Run)
run_numbered = _sql.one("run_numbered", Run)
runs = _sql.many("runs", Run)
artifacts = _sql.many("artifacts", Artifact)
artifacts_of = _sql.many("artifacts_of", Artifact)
old_records = _sql.many("old_records", OldRecords)
project = _sql.one("project", Project)
registered_paths = _sql.many("registered_paths", columns)
missing_paths = _sql.many("missing_paths", columns)
daemon_paused = _sql.one("daemon_paused", value)
next_due = _sql.one("next_due", value)
next_expiry = _sql.one("next_expiry", value)
open_runs = _sql.many("open_runs", OpenRun)
_matching = _sql.many("matching", value)
_dependencies = _sql.many("dependencies", columns)
_runs_before = _sql.many("runs_before", Run)
_runs_open = _sql.many("runs_open", Run)
_events_quest = _sql.many("events_quest", Event)
_events_all = _sql.many("events_all", Event)
_last_event = _sql.one("last_event", value)
_events_walked = _sql.one("events_walked", columns)
_events_between = _sql.many("events_between", Event)
_told_between = _sql.many("told_between", Told)
_situation = _sql.one("situation", columns)
_unmet_first = _sql.many("unmet_first", columns)
_lane_holders = _sql.many("lane_holders", value)
_own_running = _sql.one("own_running", value)
_counts_project = _sql.many("counts_project", columns)
_counts_all = _sql.many("counts_all", columns)
_health = Family("health")
_file_size = _health.one("page_size", value)
_quick_check = _health.one("quick_check", value)
_stranded = _health.one("stranded", value)

_LAST = 2**63 - 1
_CHECKED_BYTES = 64 * 1024 * 1024  # a check reads the whole file; above this it is left to the doctor


def matching(db: sqlite3.Connection, prefix: str, submitter: int | None) -> list[str]:
    """Up to ten ids that begin with `prefix`."""
    return _matching(db, prefix=prefix, end=prefix + "\U0010ffff", submitter=submitter)


def dependencies(db: sqlite3.Connection, quests: Sequence[str]) -> dict[str, list[str]]:
    """quest → what it depends on, for each of `quests` that has any."""
    found: dict[str, list[str]] = {}
    for dependent, dependency in _dependencies(db, quests=json.dumps(list(quests))):
        found.setdefault(dependent, []).append(dependency)
    return found


def surroundings(db: sqlite3.Connection, project_key: str, quest_id: str) -> Surroundings:
    """The last ended attempts of the project, newest first, and what else runs in it."""
    before = tuple(_runs_before(db, project=project_key))
    return Surroundings(before, tuple(_runs_open(db, project=project_key, quest=quest_id)))


def events(db: sqlite3.Connection, *, quest_id: str | None, before: int | None, limit: int) -> list[Event]:
    """Events below `before`, newest first: of a quest, or all."""
    last = _LAST if before is None else before
    if quest_id is not None:
        return _events_quest(db, quest=quest_id, before=last, limit=limit)
    return _events_all(db, before=last, limit=limit)


def last_event(db: sqlite3.Connection) -> int:
    """The highest number that an event ever had."""
    return _last_event(db) or 0


def events_after(
    db: sqlite3.Connection, *, after: int, project_key: str | None, submitter: int | None, walk: int
) -> EventPage:
    """Events above `after`. The journal is walked and not searched, so that no page costs more than its `walk`."""
    last, walked = _events_walked(db, after=after, walk=walk) or (None, 0)
    if last is None:
        return EventPage((), after, False)
    found = _events_between(db, after=after, last=last, project=project_key, submitter=submitter)
    return EventPage(tuple(found), last, walked == walk)


def story(db: sqlite3.Connection, *, after: int, events: Sequence[str], walk: int) -> StoryPage:
    """The same, of these names only, each with its project and run."""
    last, walked = _events_walked(db, after=after, walk=walk) or (None, 0)
    if last is None:
        return StoryPage((), after, False)
    told = _told_between(db, after=after, last=last, events=json.dumps(list(events)))
    return StoryPage(tuple(told), last, walked == walk)


def situation(db: sqlite3.Connection, quest_id: str, now: int) -> Situation | None:
    """What the store knows of why a quest waits; the daemon adds its own limits."""
    found = _situation(db, quest=quest_id)
    if found is None:
        return None
    scheduled_at, retry_at, external, lane, role, key, path, closed, closed_daemon, daemon, paused, unmet = found
    return Situation(
        now=now,
        scheduled_at=scheduled_at,
        retry_at=retry_at,
        external=bool(external),
        lane=lane,
        role=role,
        project=key,
        path=path,
        closed=closed or 0,
        closed_daemon=closed_daemon or 0,
        daemon_paused=daemon,
        project_paused=paused,
        waiting_for=tuple(_unmet_first(db, quest=quest_id)) if unmet else (),
        unmet=unmet,
        lane_holders=tuple(_lane_holders(db, project=key, lane=lane)) if lane else (),
        running_here=_own_running(db) or 0,
    )


def counts(db: sqlite3.Connection, project_key: str | None) -> dict[str, int]:
    """Quests by state, zeros included."""
    found = _counts_all(db) if project_key is None else _counts_project(db, project=project_key)
    zeros: dict[str, int] = dict.fromkeys(STATES, 0)
    return zeros | dict(found)


def fault(db: sqlite3.Connection) -> str | None:
    """What is wrong with the database, None where nothing was found. A large file is not read through."""
    if (_file_size(db) or 0) > _CHECKED_BYTES:
        return None
    found = _quick_check(db)
    if found != "ok":
        return f"the database is damaged: {found}"
    if _stranded(db):
        return "a waiting quest's count of unfinished dependencies is wrong"
    return None
