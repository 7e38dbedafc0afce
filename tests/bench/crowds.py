"""Databases with many quests of one kind, made by a few statements: what a claim, an end, an add or a page meets."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

from questlined.clock import SystemClock
from questlined.store.protocol import Pausing, ProjectRef
from questlined.store.sqlite.store import SqliteStore
from tests.support.stores import Bench

MANY = ProjectRef("/many", None, "/many")
LANES = 100_000  # at most so many, ten quests or more in each
FAR = 4_000_000_000_000


async def _queued(bench: Bench) -> str:
    return await bench.add(MANY)


async def _finished(bench: Bench) -> str:
    quest = await bench.add(MANY)
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed, result="x")
    return quest


async def _dependent(bench: Bench) -> str:
    root = await bench.add(MANY, external=True)
    return await bench.add(MANY, depends_on=(root,), priority=9)


async def _lane(bench: Bench) -> str:
    await bench.add(MANY, lane="l")
    await bench.claim_own()
    return await bench.add(MANY, lane="l", priority=9)


async def _not_before(bench: Bench) -> str:
    return await bench.add(MANY, scheduled_at=FAR, priority=9)


async def _paused(bench: Bench) -> str:
    quest = await bench.add(MANY, priority=9)
    await bench.store.pause(Pausing(MANY, True, "bench", bench.clock.wall_ms()))
    return quest


async def _external(bench: Bench) -> str:
    return await bench.add(MANY, external=True, priority=9)


KINDS: dict[str, Callable[[Bench], Awaitable[str]]] = {
    "queued": _queued,
    "finished": _finished,
    "dependent": _dependent,
    "one-lane": _lane,
    "busy-lanes": _lane,
    "not-before": _not_before,
    "paused": _paused,
    "external": _external,
}


async def opened(path: Path) -> Bench:
    """A store with the kernel's clocks."""
    clock = SystemClock()
    return Bench(await SqliteStore.open(path, clock), clock, [])  # type: ignore[arg-type]


async def make(path: Path, kind: str, number: int) -> None:
    """A database with so many quests of a kind: one made as the daemon makes it, and its copies."""
    bench = await opened(path)
    quest = await KINDS[kind](bench)
    await bench.store.close()
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = off", "synchronous = off", "cache_size = -400000", "temp_store = memory"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("BEGIN")
    _Copies(db, quest).make(number - 1, min(LANES, number // 10) if kind == "busy-lanes" else 0)
    db.execute("COMMIT")
    db.close()


class _Copies:
    """Copies of all that is about one quest; and what is derived of them, as the triggers would keep it."""

    def __init__(self, db: sqlite3.Connection, quest: str) -> None:
        self._db, self._quest = db, quest

    def make(self, number: int, lanes: int) -> None:
        """So many, with `lanes` spread over so many lanes that each have a running quest."""
        self._db.execute("CREATE TEMP TABLE ids(n INTEGER PRIMARY KEY, id TEXT)")
        self._db.execute(
            """INSERT INTO ids WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
               SELECT n, 'q-' || lower(hex(randomblob(6))) FROM n""",
            (number,),
        )
        spread = self._spread(lanes) if lanes else {}
        self._copy("quests", "id", {"id": "c.id", "created_at": "t.created_at + c.n", **spread})
        self._copy("quest_deps", "quest_id", {"quest_id": "c.id"})
        self._copy("quest_events", "quest_id", {"quest_id": "c.id", "seq": "NULL"})
        self._copy("quest_runs", "quest_id", {"quest_id": "c.id", "run_number": "t.run_number + c.n"})
        self._derive()

    def _copy(self, table: str, key: str, other: dict[str, str], of: str = "", where: str = "true") -> None:
        """A row of `table` for each id, with `other` values than the quest's."""
        names = [name for _, name, *_ in self._db.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(other.get(name, f"t.{name}") for name in names)
        self._db.execute(
            f"""INSERT INTO {table}({", ".join(names)}) SELECT {values} FROM temp.ids c, {table} t
                 WHERE t.{key} = ? AND {where} ORDER BY c.n""",
            (of or self._quest,),
        )

    def _spread(self, lanes: int) -> dict[str, str]:
        """Lanes with their buckets and holders; where the copies go."""
        db = self._db
        (holder,) = db.execute("SELECT id FROM quests WHERE state = 'running'").fetchone()
        (first,) = db.execute("SELECT bucket FROM quests WHERE id = ?", (self._quest,)).fetchone()
        lane = {"lane": f"'l' || (c.n % {lanes})", "bucket": f"{first + 1} + c.n % {lanes}"}
        once = f"c.n <= {lanes}"
        self._copy("lanes", "lane", lane, "l", once)
        self._copy("buckets", "bucket", lane, first, once)
        self._copy("quests", "id", {"id": "'q-holder' || c.n", **lane}, holder, once)
        run = {"quest_id": "'q-holder' || c.n", "run_number": "t.run_number + c.n"}
        self._copy("quest_runs", "quest_id", run, holder, once)
        return lane

    def _derive(self) -> None:
        self._db.execute("DELETE FROM counts")
        self._db.execute("INSERT INTO counts SELECT project, state, count(*) FROM quests GROUP BY project, state")
        self._db.execute(
            """UPDATE projects SET runs_started = (
                 SELECT ifnull(max(run_number), 0) FROM quest_runs r WHERE r.project = projects.key)"""
        )
        self._db.execute(
            """UPDATE buckets SET (head_priority, head_created, head_row) = (
                 SELECT priority, created_at, rowid FROM quests
                  WHERE bucket = buckets.bucket AND state IN ('queued', 'interrupted') AND unmet = 0 AND waiting = 0
                  ORDER BY priority DESC, created_at, rowid LIMIT 1)"""
        )
