"""How the end of a program is judged."""

from __future__ import annotations

import pytest

from questlined.attempts.ending import judged
from questlined.attempts.output import Seal
from questlined.procs.child import Exit

SEAL = Seal((), "", "", None)


@pytest.mark.parametrize(
    ("ended", "klass"),
    [
        (Exit(0, None, None, 1), "ok"),
        (Exit(3, None, None, 1), "failed"),
        (Exit(None, 9, None, 1), "interrupted"),
        (Exit(None, 9, None, 1, oom=True), "oom"),
        (Exit(1, None, None, 1, oom=True), "oom"),
        (Exit(0, None, None, 1, oom=True), "ok"),
        (Exit(127, None, None, 1), "failed"),
        (Exit(127, None, None, 1, not_executed=True), "bad_config"),
        (Exit(None, 15, None, 1, timed_out=True), "timeout"),
        (Exit(0, None, None, 1, timed_out=True), "timeout"),
        (Exit(143, None, None, 1, stopped=True), "interrupted"),
        (Exit(0, None, None, 1, stopped=True), "interrupted"),
        (Exit(None, None, None, 0), "lost"),
    ],
)
def test_an_end_is_what_the_kernel_says_and_a_good_one_has_coped_with_it(ended: Exit, klass: str) -> None:
    assert judged(None, None, 1000, ended, SEAL).klass == klass


def test_what_it_was_stopped_for_stands_whatever_came_of_it() -> None:
    assert judged("cancelled", None, 1000, Exit(None, 9, None, 1, oom=True), SEAL).klass == "cancelled"
