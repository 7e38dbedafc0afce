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


ENDING = Leader(100, 5000, "store:q-a:1")
RUNNING = Leader(200, 5100, "store:q-b:1")


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
    ],
)
def test_session_then_marker_then_age_decide(trace: Trace, falls: bool) -> None:
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
