"""Gates that are kept as bits of buckets: role and project concurrency, pause, paths, lane slots."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from questlined.core.limits import Limits
from questlined.store.effects import EVERYWHERE, Effects
from questlined.store.protocol import Pausing
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.statements import Family, value

_sql = Family("gates")
_own_role = _sql.one("own_running_role", value)
_own_project = _sql.one("own_running_project", value)
_role_gate = _sql.count("role_gate")
_project_gate = _sql.count("project_gate")
_path_gate = _sql.count("path_gate")
_path_flag = _sql.count("path_flag")
_pause_gate = _sql.count("pause_gate")
_pause_project = _sql.count("pause_project")
_project_event = _sql.count("project_event")
_meta_set = _sql.count("meta_set")
_meta_clear = _sql.count("meta_clear")
_reset = _sql.count("reset_daemon_gates")
_meta_get = _sql.one("meta_get", value)
_roles = _sql.many("roles", value)
_projects = _sql.many("running_projects", value)
_slots_default = _sql.count("lane_slots_default")
_slots_set = _sql.count("lane_slots_set")
_lane_gates = _sql.count("lane_gates")
_project_ensure = Family("adds").count("project_ensure")


def meta(db: sqlite3.Connection, key: str) -> str | None:
    """A value of the table meta."""
    return _meta_get(db, key=key)


def refresh(db: sqlite3.Connection, limits: Limits, role: str, project: str) -> None:
    """Open or close the daemon's concurrency gates that one quest's start or end may have moved."""
    bound = limits.role.get(role)
    if bound is not None:
        _role_gate(db, role=role, full=int((_own_role(db, role=role) or 0) >= bound))
    if limits.project is not None:
        _project_gate(db, project=project, full=int((_own_project(db, project=project) or 0) >= limits.project))


def set_path_missing(db: sqlite3.Connection, project: str, missing: bool) -> None:
    """Close or open a project's path gate."""
    _path_flag(db, project=project, missing=int(missing))
    _path_gate(db, project=project, missing=int(missing))


def _path(db: sqlite3.Connection, request: tuple[str, bool], effects: Effects) -> None:
    set_path_missing(db, *request)
    effects.claimable.add(request[0])


def _pause(db: sqlite3.Connection, request: Pausing, effects: Effects) -> None:
    if request.project is None:
        if request.paused:
            _meta_set(db, key="paused", value=request.reason)
        else:
            _meta_clear(db, key="paused")
    else:
        key = request.project.key
        _project_ensure(db, key=key, name=request.project.name, path=request.project.path, now=request.now)
        _pause_project(
            db,
            project=key,
            at=request.now if request.paused else None,
            reason=request.reason if request.paused else None,
            now=request.now,
        )
        _pause_gate(db, project=key, paused=int(request.paused))
        _project_event(
            db,
            project=key,
            event="paused" if request.paused else "resumed",
            now=request.now,
            data=json.dumps({"reason": request.reason} if request.reason else {}),
        )
    effects.claimable.add(EVERYWHERE if request.project is None else request.project.key)
    effects.rules = True


def _configure(db: sqlite3.Connection, request: tuple[Limits, Mapping[str, int]], effects: Effects) -> None:
    limits, slots = request
    _reset(db)
    for role in _roles(db):
        refresh(db, Limits(role=limits.role), role, "")
    for project in _projects(db):
        refresh(db, Limits(project=limits.project), "", project)
    _slots_default(db)
    for lane, number in slots.items():
        _slots_set(db, lane=lane, slots=number)
    _lane_gates(db)
    effects.claimable.add(EVERYWHERE)


PATH = Operation("path_missing", _path)
PAUSE = Operation("pause", _pause)
CONFIGURE = Operation("configure", _configure)
