"""Failure and revival of dependents: recursive statements, never recursion."""

from __future__ import annotations

import sqlite3

from questlined.store.effects import Effects
from questlined.store.sqlite.statements import Family, value

_sql = Family("steering")
_clear = _sql.count("cascade_clear")
_failed = _sql.count("cascade_failed")
_fail = _sql.count("cascade_fail")
_fail_events = _sql.count("cascade_fail_events")
_candidates = _sql.count("revive_candidates")
_keep_dead = _sql.count("revive_keep")
_revive = _sql.count("revive")
_revive_events = _sql.count("revive_events")
_touched = _sql.many("touched", value)
_outbox = _sql.count("touched_outbox")


def fail(db: sqlite3.Connection, root: str, state: str, now: int, notify: frozenset[str], effects: Effects) -> None:
    """All that waits for `root`, which has just become failed or cancelled, fails by it."""
    _clear(db)
    if _failed(db, root=root) <= 0:
        return
    _fail(db, root=root, state=state, now=now)
    _fail_events(db, root=root, state=state, now=now)
    if "failed" in notify:
        _outbox(db, now=now)
    effects.changed.update(dict.fromkeys(_touched(db), "failed"))


def revive(db: sqlite3.Connection, root: str, now: int, effects: Effects) -> None:
    """What failed only through `root`, which is queued again, is queued again with it."""
    _clear(db)
    if _candidates(db, root=root) <= 0:
        return
    _keep_dead(db)
    _revive(db, now=now)
    _revive_events(db, now=now)
    effects.changed.update(dict.fromkeys(_touched(db), "queued"))
