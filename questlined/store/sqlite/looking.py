"""A look into a database from outside, which changes nothing and hinders nobody."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from questlined.store.sqlite.statements import Family, value

_sql = Family("health")
_project_paths = _sql.many("project_paths", value)


def project_paths(path: Path) -> list[str]:
    """Where the projects of a queue are; none where it cannot be read."""
    try:
        # Without a log beside it, `immutable` keeps SQLite from making one, in a folder that may be another user's.
        how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
        db = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)
    except (sqlite3.Error, OSError):
        return []
    try:
        return _project_paths(db)
    except sqlite3.Error:
        return []
    finally:
        db.close()
