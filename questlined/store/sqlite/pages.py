"""Pages that a filter narrows: found in steps of so many rows, so that no page keeps the reader from everybody else.

A walk is given to the reader step by step, each on a snapshot of its own, until `step` says that this was the last.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from questlined.store.reading import Page
from questlined.store.rows import Event, Quest
from questlined.store.sqlite.statements import Family, columns, value
from questlined.wire.errors import NotFound

_sql = Family("pages")
_position = _sql.one("position", columns)
_page_project = _sql.many("page_project", Quest)
_down_project = _sql.one("down_project", columns)
_page_project_state = _sql.many("page_project_state", Quest)
_down_project_state = _sql.one("down_project_state", columns)
_page_all = _sql.many("page_all", Quest)
_down_all = _sql.one("down_all", columns)
_events_project = _sql.many("events_project", Event)
_down_events = _sql.one("down_events", value)

WALK = 5000  # rows that one step looks at
EVENTS_WALK = 1000  # each of which has its quest looked up
_FIRST, _LAST = -(2**63), 2**63 - 1
_Place = tuple[int, int]  # created_at and rowid


class QuestWalk:
    """The quests of a page, newest first. One state in one project has an index of its own, and is no filter."""

    def __init__(self, request: Page, walk: int = WALK) -> None:
        self._request, self._walk = request, walk
        self._place: _Place | None = None  # above it, all has been looked at
        by_index = len(request.states) == (1 if request.project is not None else 0)
        self._narrow = not (by_index or not request.states) or (request.role, request.lane, request.submitter) != (
            None,
            None,
            None,
        )
        self.found: list[Quest] = []

    def step(self, db: sqlite3.Connection) -> bool:
        """Look at the next rows; whether there may be more. Raises NotFound for an unknown cursor."""
        created, row = self._place or self._begin(db)
        where = {"project": self._request.project, "created": created, "row": row}
        down = self._down(db, where) if self._narrow else None
        self.found += self._some(db, where, down or (_FIRST, _FIRST))
        self._place = down
        return down is not None and len(self.found) < self._request.limit

    def _begin(self, db: sqlite3.Connection) -> _Place:
        cursor = self._request.cursor
        if cursor is None:
            return _LAST, _LAST
        found = _position(db, id=cursor)
        if found is None:
            raise NotFound(f"there is no quest {cursor}", hint="begin without a cursor", id=cursor)
        return found[0], found[1]

    def _down(self, db: sqlite3.Connection, where: dict[str, Any]) -> _Place | None:
        """The last row that this step looks at, None where it looks at all that are left."""
        request = self._request
        if request.project is None:
            found = _down_all(db, row=where["row"], walk=self._walk)
            return None if found is None or found[1] is None or found[1] <= 0 else (0, found[1])
        if len(request.states) == 1:
            found = _down_project_state(db, state=request.states[0], walk=self._walk - 1, **where)
        else:
            found = _down_project(db, walk=self._walk - 1, **where)
        return None if found is None else (found[0], found[1])

    def _some(self, db: sqlite3.Connection, where: dict[str, Any], down: _Place) -> list[Quest]:
        request = self._request
        left = request.limit - len(self.found)
        more = {"role": request.role, "lane": request.lane, "submitter": request.submitter, "limit": left}
        states = json.dumps(request.states) if request.states else None
        if request.project is None:
            return _page_all(db, row=where["row"], down_row=down[1], states=states, **more)
        more |= where | {"down_created": down[0], "down_row": down[1]}
        if len(request.states) == 1:
            return _page_project_state(db, state=request.states[0], **more)
        return _page_project(db, states=states, **more)


class EventWalk:
    """A project's events below `before`, newest first. The journal has no order by project."""

    def __init__(self, project: str, before: int | None, limit: int, walk: int = EVENTS_WALK) -> None:
        self._project, self._limit, self._walk = project, limit, walk
        self._before = _LAST if before is None else before
        self.found: list[Event] = []

    def step(self, db: sqlite3.Connection) -> bool:
        """Look at the next events; whether there may be more."""
        down = _down_events(db, before=self._before, walk=self._walk)
        if down is None:
            return False
        left = self._limit - len(self.found)
        self.found += _events_project(db, project=self._project, before=self._before, down=down, limit=left)
        self._before = down
        return down > 0 and len(self.found) < self._limit
