"""Deliberate faults of the store, one at a time: what the histories must find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from questlined.store.rows import Quest
from questlined.store.sqlite import cascade, finish, leases, requests, steering
from questlined.store.sqlite.statements import Family, columns


def _altered(family: str, statement: str, old: str, new: str) -> Family:
    """A family of statements with one of them changed."""
    changed = Family(family)
    suffix, sql = changed._statements[statement]
    assert sql.count(old) == 1, f"{family}.{statement} has {old!r} no more: change the fault with it"
    changed._statements[statement] = (suffix, sql.replace(old, new))
    return changed


def _unfenced() -> dict[tuple[Any, str], Any]:
    held = _altered("leases", "held", "AND owner_session = :owner AND lease_gen = :generation", "")
    return {(leases, "_held"): held.one("held", Quest)}


def _lane_ignored() -> dict[tuple[Any, str], Any]:
    heads = _altered("leases", "head_for_outside", "closed = 0", "closed & ~1 = 0")
    return {(leases, "_head_outside"): heads.one("head_for_outside", columns), (leases, "_free_slot"): _any_slot}


def _any_slot(db: Any, project: str, lane: str) -> int:
    return 1 + max(leases._lane_taken(db, project=project, lane=lane), default=0)


def _interruptions_kept() -> dict[tuple[Any, str], Any]:
    return {(steering, "_retry"): _altered("steering", "retry", "interruptions = 0,", "").count("retry")}


def _one_level() -> dict[tuple[Any, str], Any]:
    deeper = "JOIN quest_deps d ON d.depends_on = down.id\n"
    failed = _altered("steering", "cascade_failed", deeper, "JOIN quest_deps d ON false\n")
    return {(cascade, "_failed"): failed.count("cascade_failed")}


def _all_revived() -> dict[tuple[Any, str], Any]:
    return {(cascade, "_keep_dead"): lambda db: 0}


def _answers_not_kept() -> dict[tuple[Any, str], Any]:
    return {(requests, "keep"): lambda db, token, answer, now: None}


def _own_shifted_only() -> dict[tuple[Any, str], Any]:
    shift = _altered("leases", "shift_leases", "WHERE state = 'running'", "WHERE state = 'running' AND own = 1")
    return {(leases, "_shift"): shift.count("shift_leases")}


def _age_by_row() -> dict[tuple[Any, str], Any]:
    heads = _altered(
        "leases", "head_for_daemon", "head_priority DESC, head_created, head_row", "head_priority DESC, head_row"
    )
    return {(leases, "_head_daemon"): heads.one("head_for_daemon", columns)}


def _notified_by_attempt() -> dict[tuple[Any, str], Any]:
    """Delivery ids by attempt: two changes of one quest between two attempts get the same."""
    outbox = _altered(
        "steering", "outbox", "(SELECT max(seq) FROM quest_events WHERE quest_id = :quest)", "ifnull(:attempt, 0)"
    )
    return {(steering, "_outbox"): outbox.count("outbox"), (finish, "_outbox"): outbox.count("outbox")}


FAULTS = {
    "an end is not fenced": _unfenced,
    "a claim from outside ignores the lane": _lane_ignored,
    "retry forgets to reset interruptions": _interruptions_kept,
    "a failure stops at the first level of dependents": _one_level,
    "a revival takes what another dead dependency holds": _all_revived,
    "an answer is not kept for its requestId": _answers_not_kept,
    "a suspend moves the daemon's own leases only": _own_shifted_only,
    "age goes by the row, not by time": _age_by_row,
    "notifications of one attempt share an id": _notified_by_attempt,
}


@contextmanager
def faulty(name: str) -> Iterator[None]:
    """A store with this fault."""
    patches = [mock.patch.object(owner, attribute, new) for (owner, attribute), new in FAULTS[name]().items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()
