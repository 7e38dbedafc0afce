"""What an attempt's end makes of its quest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from questlined.core.classes import CLASSES
from questlined.core.retry import Policy, Settlement, Standing, backoff_ms, settle

STEADY = Policy(backoff_cap_ms=3_600_000, backoff_jitter=0.0, max_interruptions=2)
FIRST = Standing(attempts=1, max_attempts=3, refunds=0, interruptions=0, backoff_base_ms=30_000)
NOW = 1_000_000


def settled(standing: Standing, klass: str, **more: int | None) -> Settlement:
    return settle(standing, klass, now=NOW, chance=0.5, policy=STEADY, **more)


@pytest.mark.parametrize(("charged", "seconds"), [(1, 30), (2, 60), (3, 120), (7, 1920), (8, 3600), (1000, 3600)])
def test_the_wait_doubles_up_to_the_cap(charged: int, seconds: int) -> None:
    """A thousandth attempt makes no giant number."""
    assert backoff_ms(30_000, charged, STEADY, 0.5) == seconds * 1000


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.9), (0.5, 1.0), (0.999999, 1.1)])
def test_jitter_is_a_share_either_way(chance: float, factor: float) -> None:
    """Chance comes in, so that this is no gamble."""
    assert backoff_ms(10_000, 1, Policy(backoff_jitter=0.1), chance) == pytest.approx(10_000 * factor, abs=1)


def test_a_wait_is_never_negative() -> None:
    """Full jitter at its lowest is no wait."""
    assert backoff_ms(10_000, 1, Policy(backoff_jitter=1.0), 0.0) == 0
    assert backoff_ms(0, 5, STEADY, 0.5) == 0


def test_a_failure_with_attempts_left_waits_and_is_queued() -> None:
    """It is charged, so that nothing is refunded."""
    assert settled(FIRST, "failed") == Settlement("requeue", "queued", 3, 0, 0, NOW + 30_000, "execution")


def test_the_last_failure_fails_the_quest() -> None:
    """Without a time to try again."""
    after = settled(replace(FIRST, attempts=3), "failed")
    assert after == Settlement("fail", "failed", 3, 0, 0, None, "execution")


def test_refunded_attempts_do_not_lengthen_the_wait() -> None:
    """The wait counts charged attempts: four claims of which two were interrupted are two."""
    after = settled(replace(FIRST, attempts=4, max_attempts=5, refunds=2), "failed")
    assert after.retry_at == NOW + 60_000


def test_without_a_bound_a_quest_is_always_queued_again() -> None:
    """0 is no limit, and is never raised by a refund."""
    boundless = replace(FIRST, attempts=900, max_attempts=0)
    assert settled(boundless, "failed").state == "queued"
    assert settled(boundless, "interrupted").max_attempts == 0


@pytest.mark.parametrize("klass", [klass for klass, rule in CLASSES.items() if not rule.charged])
def test_an_uncharged_end_raises_the_bound_by_one(klass: str) -> None:
    """So that attempts − refunds of max_attempts − refunds stays what people are shown."""
    after = settled(FIRST, klass)
    assert (after.max_attempts, after.refunds) == (4, 1)
    assert after.max_attempts - after.refunds == FIRST.max_attempts


@pytest.mark.parametrize("klass", [klass for klass, rule in CLASSES.items() if rule.charged])
def test_a_charged_end_leaves_the_bound(klass: str) -> None:
    """Nothing is given back."""
    assert (settled(FIRST, klass).max_attempts, settled(FIRST, klass).refunds) == (3, 0)


@pytest.mark.parametrize("klass", ["interrupted", "lost"])
def test_interruptions_have_a_bound_of_their_own(klass: str) -> None:
    """The third of two allowed fails, whatever attempts are left."""
    assert settled(replace(FIRST, interruptions=1), klass).state == "interrupted"
    after = settled(replace(FIRST, interruptions=2), klass)
    assert (after.event, after.state, after.failure_kind) == ("exhaust", "failed", "interrupted")


def test_an_interruption_is_claimable_at_once() -> None:
    """Nothing is wrong with the quest: there is no wait."""
    after = settled(FIRST, "interrupted")
    assert (after.state, after.retry_at, after.interruptions) == ("interrupted", None, 1)


def test_what_can_never_work_fails_with_attempts_left() -> None:
    """Uncharged, and not retried."""
    after = settled(FIRST, "bad_config")
    assert (after.event, after.state, after.failure_kind, after.retry_at) == ("reject", "failed", "execution", None)


def test_a_park_lasts_until_its_moment() -> None:
    """The provider said when."""
    assert settled(FIRST, "limit", until=NOW + 7).retry_at == NOW + 7


@pytest.mark.parametrize("klass", ["blocked", "auth", "billing", "budget", "max_turns", "refused"])
def test_what_a_person_must_look_at_is_blocked(klass: str) -> None:
    """No timer brings it back."""
    assert (settled(FIRST, klass).state, settled(FIRST, klass).retry_at) == ("blocked", None)


@pytest.mark.parametrize(("attempts", "bound", "exhausted"), [(1, 1, True), (1, 2, False), (5, 0, False), (3, 2, True)])
def test_exhausted_is_when_no_charged_attempt_is_left(attempts: int, bound: int, exhausted: bool) -> None:
    """With 0 never."""
    assert replace(FIRST, attempts=attempts, max_attempts=bound).exhausted is exhausted
