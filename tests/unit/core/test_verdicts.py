"""What an agent says of its own attempt."""

from __future__ import annotations

import pytest

from questlined.core.classes import CLASSES
from questlined.core.verdicts import Verdict, judged

SAID = Verdict("ok", result="r", summary="s", commit="c")
STANDS = {"cancelled", "output_limit", "oom", "bad_config", "released"}


@pytest.mark.parametrize(
    "verdict",
    [SAID, Verdict("failed", reason="ä\n\"'"), Verdict("blocked", question="a or b?", choices='["a", "b"]')],
)
def test_a_verdict_comes_back_from_the_store_as_it_was(verdict: Verdict) -> None:
    """Absent parts stay absent."""
    assert Verdict.parse(verdict.dump()) == verdict


@pytest.mark.parametrize("klass", sorted(set(CLASSES) - STANDS))
def test_what_the_agent_said_outweighs_how_its_process_ended(klass: str) -> None:
    """Exit status, clocks and a daemon that went away included."""
    assert judged(klass, SAID) is SAID


@pytest.mark.parametrize("klass", sorted(STANDS))
def test_it_does_not_outweigh_a_person_or_the_machine(klass: str) -> None:
    """Cancelled stays cancelled."""
    assert judged(klass, SAID) == Verdict(klass)


@pytest.mark.parametrize("klass", sorted(CLASSES))
def test_without_a_verdict_the_process_decides(klass: str) -> None:
    """By its class."""
    assert judged(klass, None) == Verdict(klass)
