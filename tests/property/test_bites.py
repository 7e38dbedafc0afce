"""Random histories find deliberate faults of the store, and tell each by a few steps."""

from __future__ import annotations

import pytest

from tests.property.faults import FAULTS, faulty
from tests.property.play import Broken
from tests.property.search import Field, History, history, shrink

HISTORIES = 60
LENGTH = 200
SHORT = 10  # steps; any of these can be shown by seven


def _found(field: Field) -> History:
    for number in range(HISTORIES):
        steps = history(f"bites:{number}", LENGTH)
        if field.play(steps) is not None:
            return steps
    raise AssertionError(f"not found in {HISTORIES * LENGTH} steps")


def _told(broken: Broken | None) -> str:
    assert broken is not None, "a history that fails fails again"
    return "\n".join(broken.what)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_told_shortly(field: Field, fault: str) -> None:
    with faulty(fault):
        broken = shrink(_found(field), field.play)
        assert len(broken.steps) <= SHORT
        assert _told(field.play(broken.steps)) == _told(broken)
    assert field.play(broken.steps) is None


def test_a_history_is_the_same_for_the_same_seed(field: Field) -> None:
    assert history("a", 150) == history("a", 150) != history("b", 150)
    with faulty("an end is not fenced"):
        steps = _found(field)
        assert _told(field.play(steps)) == _told(field.play(steps))
