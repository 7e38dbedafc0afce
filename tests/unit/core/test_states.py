"""The state machine, as a whole."""

from __future__ import annotations

import typing

import pytest

from questlined.core.classes import CLASSES, OUTCOMES
from questlined.core.retry import Policy, Standing, settle
from questlined.core.states import CLAIMABLE, EDITABLE, FINAL, NEXT, STATES, Event, State, allowed, sources

EVENTS = typing.get_args(Event)


def test_every_state_is_reached_from_queued() -> None:
    """A quest begins queued; no state is there for nothing."""
    reached, before = {"queued"}, set[str]()
    while reached != before:
        before = set(reached)
        reached |= {after for (state, _), after in NEXT.items() if state in before}
    assert reached == set(STATES) == set(typing.get_args(State))


def test_every_state_that_is_not_final_can_end() -> None:
    """From each there is a way to a final one."""
    ending = set(FINAL)
    for _ in STATES:
        ending |= {state for (state, _), after in NEXT.items() if after in ending}
    assert ending == set(STATES)


def test_final_states_are_left_only_by_retry() -> None:
    """And done by nothing at all."""
    leaving = {(state, event) for state, event in NEXT if state in FINAL}
    assert leaving == {("failed", "retry"), ("cancelled", "retry")}


def test_every_event_has_an_edge() -> None:
    """No event is there for nothing."""
    assert {event for _, event in NEXT} == set(EVENTS)


def test_only_claim_and_adopt_lead_to_running() -> None:
    """A running quest has a lease, and only these make or keep one."""
    assert {event for (_, event), after in NEXT.items() if after == "running"} == {"claim", "adopt"}


def test_what_may_be_claimed_is_what_has_a_claim_edge() -> None:
    """The set and the table are one."""
    assert set(sources("claim")) == CLAIMABLE


def test_what_may_be_edited_neither_runs_nor_is_over() -> None:
    """Running quests are as they were claimed."""
    assert set(STATES) - EDITABLE == FINAL | {"running"}


@pytest.mark.parametrize(
    ("event", "states"),
    [
        ("cancel", ("queued", "running", "interrupted", "blocked")),
        ("block", ("queued", "running", "interrupted")),
        ("retry", ("interrupted", "blocked", "failed", "cancelled")),
        ("dependency_failed", ("queued", "interrupted", "blocked")),
        ("answer", ("blocked",)),
        ("succeed", ("running",)),
        ("adopt", ("running",)),
    ],
)
def test_an_event_leaves_these_states_only(event: Event, states: tuple[str, ...]) -> None:
    """In the order of STATES, for messages."""
    assert sources(event) == states
    assert [state for state in STATES if allowed(state, event)] == list(states)


@pytest.mark.parametrize("klass", CLASSES)
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("interruptions", [0, 5])
def test_every_class_settles_along_an_edge(klass: str, attempts: int, interruptions: int) -> None:
    """However an attempt ends, the table has the way."""
    after = settle(Standing(attempts, 3, 0, interruptions, 1000), klass, now=0, chance=0.5, policy=Policy())
    assert NEXT["running", after.event] == after.state
    assert after.state != "running"


def test_every_consequence_has_an_outcome_of_the_journal() -> None:
    """Four values, no more."""
    assert {rule.then for rule in CLASSES.values()} == set(OUTCOMES)
    assert set(OUTCOMES.values()) == {"done", "failed", "interrupted", "cancelled"}
