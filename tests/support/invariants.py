"""What must hold of every questline database at rest, read past all of the product's code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

# name → a query that finds what contradicts the rows it is derived from; none in a sound database.
QUERIES = {
    "a reference to nothing": "SELECT * FROM pragma_foreign_key_check",
    "a count that is not the number of quests": """
        SELECT project, state, sum(kept), sum(real) FROM (
          SELECT project, state, quests AS kept, 0 AS real FROM counts
          UNION ALL SELECT project, state, 0, count(*) FROM quests GROUP BY project, state)
        GROUP BY project, state HAVING sum(kept) <> sum(real)""",
    "unmet is not the number of dependencies that are not done": """
        SELECT id, state, unmet FROM quests q WHERE unmet <> (
          SELECT count(*) FROM quest_deps d LEFT JOIN quests o ON o.id = d.depends_on
           WHERE d.quest_id = q.id AND ifnull(o.state, '') <> 'done')""",
    "a waiting quest whose dependency is dead": """
        SELECT q.id, o.id, o.state FROM quests q JOIN quest_deps d ON d.quest_id = q.id
          JOIN quests o ON o.id = d.depends_on
         WHERE q.state IN ('queued', 'interrupted', 'blocked') AND o.state IN ('failed', 'cancelled')""",
    "lanes.running is not the number that runs": """
        SELECT project, lane, running FROM lanes l WHERE running <> (
          SELECT count(*) FROM quests q WHERE q.project = l.project AND q.lane = l.lane AND state = 'running')""",
    "a lane that is over-full": "SELECT project, lane, running, slots FROM lanes WHERE running > slots",
    "a quest with a lane that no lane row knows": """
        SELECT id, lane FROM quests q WHERE lane IS NOT NULL AND state = 'running' AND NOT EXISTS (
          SELECT 1 FROM lanes l WHERE l.project = q.project AND l.lane = q.lane)""",
    "a quest in the wrong bucket": """
        SELECT id FROM quests q LEFT JOIN buckets b ON b.bucket = q.bucket
         WHERE (b.project, b.lane, b.role, b.external) IS NOT (q.project, ifnull(q.lane, ''), q.role, q.external)""",
    "a bucket whose head is not its best claimable quest": """
        SELECT bucket, head_priority, head_created, head_row FROM buckets b
         WHERE (head_priority, head_created, head_row) IS NOT (
          SELECT priority, created_at, rowid FROM quests q
           WHERE q.bucket = b.bucket AND state IN ('queued', 'interrupted') AND unmet = 0 AND waiting = 0
           ORDER BY priority DESC, created_at, rowid LIMIT 1)""",
    "a lane gate that is wrong": """
        SELECT bucket, closed FROM buckets b WHERE (closed & 1) <> ifnull((
          SELECT running >= slots FROM lanes l WHERE l.project = b.project AND l.lane = b.lane), 0)""",
    "a pause gate that is wrong": """
        SELECT bucket, closed FROM buckets b WHERE (closed & 2) <> 2 * EXISTS (
          SELECT 1 FROM project_controls c WHERE c.project = b.project AND paused_at IS NOT NULL)""",
    "a path gate that is wrong": """
        SELECT bucket, closed_daemon FROM buckets b JOIN projects p ON p.key = b.project
         WHERE (closed_daemon & 4) <> 4 * (path IS NULL OR path_missing)""",
    "a lease without a running quest, or the reverse": """
        SELECT id, state FROM quests WHERE (state = 'running') <> (lease_expires_at IS NOT NULL)
            OR (state = 'running' AND owner_session IS NULL) OR (own = 1 AND state <> 'running')""",
    "attempts that were not counted": """
        SELECT id, attempts, lease_gen FROM quests q WHERE attempts <> lease_gen
            OR attempts <> (SELECT count(*) FROM quest_runs r WHERE r.quest_id = q.id)
            OR attempts <> (SELECT ifnull(max(attempt), 0) FROM quest_runs r WHERE r.quest_id = q.id)""",
    "refunds that are not the uncharged ends": """
        SELECT id, attempts, refunds FROM quests q WHERE refunds <> (
          SELECT count(*) FROM quest_runs r WHERE r.quest_id = q.id AND class IN (
            'budget', 'blocked', 'limit', 'auth', 'billing', 'bad_config', 'cancelled', 'interrupted', 'lost',
            'released'))""",
    "an open attempt that is not the running one, or the reverse": """
        SELECT q.id, q.state, r.attempt FROM quests q LEFT JOIN quest_runs r
            ON r.quest_id = q.id AND r.finished_at IS NULL
         WHERE (q.state = 'running') <> (r.attempt IS NOT NULL)
            OR (r.attempt IS NOT NULL AND (r.attempt, r.lease_gen) <> (q.attempts, q.lease_gen))""",
    "two open attempts of one quest": """
        SELECT quest_id FROM quest_runs WHERE finished_at IS NULL GROUP BY quest_id HAVING count(*) > 1""",
    "a done quest whose last attempt was not": """
        SELECT q.id, r.outcome FROM quests q LEFT JOIN quest_runs r ON r.quest_id = q.id AND r.attempt = q.attempts
         WHERE q.state = 'done' AND ifnull(r.outcome, '') <> 'done'""",
    "an artifact of no attempt": """
        SELECT quest_id, attempt FROM quest_artifacts a WHERE NOT EXISTS (
          SELECT 1 FROM quest_runs r
           WHERE (r.quest_id, r.attempt, r.lease_gen) = (a.quest_id, a.attempt, a.lease_gen))""",
}


def _gaps(db: sqlite3.Connection) -> Iterator[str]:
    started = dict(db.execute("SELECT key, runs_started FROM projects"))
    numbers: dict[str, list[int]] = {}
    for project, number in db.execute("SELECT project, run_number FROM quest_runs ORDER BY project, run_number"):
        numbers.setdefault(project, []).append(number)
    for project, total in started.items():
        found = numbers.pop(project, [])
        if found != list(range(1, total + 1)):
            odd = [(a, b) for a, b in pairwise([0, *found]) if b != a + 1]
            yield f"run numbers of {project} are not 1 to {total}: {odd[:3]}, {len(found)} in all"
    yield from (f"runs of a project that is not there: {project}" for project in numbers)


def _full(db: sqlite3.Connection, bit: int, column: str, bounds: Mapping[str, int]) -> Iterator[str]:
    """A role's or project's gate is closed exactly where as many of the daemon's own run as it may."""
    query = f"SELECT {column}, count(*) FROM quests WHERE state = 'running' AND own = 1 GROUP BY 1"
    running = dict(db.execute(query))
    for bucket, value, closed in db.execute(f"SELECT bucket, {column}, closed_daemon FROM buckets"):
        full = value in bounds and running.get(value, 0) >= bounds[value]
        if bool(closed & bit) != full:
            yield f"bucket {bucket}: the {column} gate is {closed & bit}, {running.get(value, 0)} run"


def contradictions(
    db: sqlite3.Connection, *, role: Mapping[str, int] | None = None, project: int | None = None
) -> Iterator[str]:
    """What rows say against each other, in one snapshot of an open connection: fast enough to ask after every step."""
    for name, query in QUERIES.items():
        yield from (f"{name}: {row}" for row in db.execute(query).fetchmany(3))
    yield from _gaps(db)
    yield from _full(db, 1, "role", role or {})
    keys = [key for (key,) in db.execute("SELECT key FROM projects")]
    yield from _full(db, 2, "project", dict.fromkeys(keys, project) if project is not None else {})


def broken(database: Path, *, role: Mapping[str, int] | None = None, project: int | None = None) -> list[str]:
    """Everything that is wrong with a database file. `role` and `project` are the daemon's concurrency limits."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        db.execute("BEGIN")
        found = [f"quick_check: {row[0]}" for row in db.execute("PRAGMA quick_check") if row[0] != "ok"]
        return found + list(contradictions(db, role=role, project=project))
    finally:
        db.close()
