"""Whose an orphan is, decided from literals."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from questlined.procs.lineage import Kept, Trace, falls_to, surely_of


@dataclass(frozen=True)
class Leader:
    pid: int
    started: int
    marker: str
    cgroup: str | None = None


ENDING = Leader(100, 5000, "store:q-a:1", "/attempts/a")
RUNNING = Leader(200, 5100, "store:q-b:1", "/attempts/b")


@pytest.mark.parametrize(
    ("trace", "falls"),
    [
        pytest.param(Trace(100, 5200, None), True, id="its session, no marker"),
        pytest.param(Trace(300, 5200, "store:q-a:1"), True, id="a session of its own, its marker"),
        pytest.param(Trace(200, 5200, None), False, id="another's session"),
        pytest.param(Trace(200, 5200, "store:q-a:1"), False, id="another's session although its marker"),
        pytest.param(Trace(100, 5200, "store:q-b:1"), True, id="its session although another's marker"),
        pytest.param(Trace(300, 5200, "store:q-b:1"), False, id="another's marker"),
        pytest.param(Trace(300, 5200, None), True, id="nothing known"),
        pytest.param(Trace(300, 5000, None), True, id="nothing known, started in the same tick"),
        pytest.param(Trace(300, 4999, None), False, id="nothing known, but older"),
        pytest.param(Trace(300, 5200, "other:q-a:1"), True, id="another store's, below us: a daemon within an attempt"),
        pytest.param(Trace(300, 4000, "other:q-a:1"), False, id="another store's and older"),
        pytest.param(Trace(300, 4000, "store:q-old:1"), True, id="of an attempt that has ended"),
        pytest.param(Trace(300, 5200, None, "/attempts/a"), True, id="its cgroup and nothing else"),
        pytest.param(Trace(100, 5200, "store:q-a:1", "/attempts/b"), False, id="another's cgroup, whatever else"),
        pytest.param(
            Trace(300, 5200, "store:q-old:1", "/attempts/old"), False, id="in the cgroup of one that has ended"
        ),
    ],
)
def test_cgroup_then_session_then_marker_then_age_decide(trace: Trace, falls: bool) -> None:
    assert falls_to(trace, ENDING, [RUNNING], Kept()) is falls


def test_what_was_kept_on_purpose_falls_to_nobody() -> None:
    kept = Kept(markers={"store:q-k:1"}, sessions={400})
    assert not falls_to(Trace(300, 5200, "store:q-k:1"), ENDING, [], kept)
    assert not falls_to(Trace(400, 5200, None), ENDING, [], kept)
    assert falls_to(Trace(300, 5200, None), ENDING, [], kept)


def test_a_child_without_marker_owns_its_session_only() -> None:
    plain = Leader(100, 5000, "")
    assert surely_of(Trace(100, 5200, None), plain)
    assert not surely_of(Trace(300, 5200, ""), plain)
    assert not surely_of(Trace(300, 5200, None), plain)


def test_who_is_in_a_cgroup_is_surely_of_it_and_of_no_other() -> None:
    assert surely_of(Trace(300, 5200, None, "/attempts/a"), ENDING)
    assert not surely_of(Trace(200, 5200, "store:q-b:1", "/attempts/a"), RUNNING)
    assert surely_of(Trace(200, 5200, None), RUNNING)
