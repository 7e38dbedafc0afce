"""The store follows its model through random histories, whatever is done to it in whatever order.

Each history is 100 to 300 steps of several daemons, outside claimers and people on one store with a manual clock: adds,
claims, heartbeats, ends, retries, cancels, blocks, edits, pauses, suspends, clock steps, several calls in one
transaction, and crashes between any two steps and around any commit. Every answer is foretold by a model of plain
dictionaries (model.py), and after each step the whole file is held against the model and against itself.

The usual run is the same every time: 100,000 steps of one seed. Others, and one history alone:

    QUESTLINE_HISTORIES_SEED=any-text QUESTLINE_HISTORIES_STEPS=1000000 pytest tests/property/test_histories.py
    QUESTLINE_HISTORIES_SEED=any-text QUESTLINE_HISTORIES_ONLY=17 pytest tests/property/test_histories.py

A failure tells its seed and number, and the shortest history found that fails, too: what was called, and its steps,
which `Field.play` takes as they are printed.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import count

from tests.property.conftest import a_field
from tests.property.search import Field, history, shrink
from tests.support.processes import PROCESSES, shared_out

SEED, STEPS, ONLY = (
    os.environ.get(f"QUESTLINE_HISTORIES_{name}", usual)
    for name, usual in (("SEED", "questline"), ("STEPS", "100000"), ("ONLY", ""))
)
LENGTHS = (100, 200, 300)


def _replayed(field: Field, number: int) -> int:
    """Play a history; its steps."""
    steps = history(f"{SEED}:{number}", LENGTHS[number % len(LENGTHS)])
    if field.play(steps) is not None:
        broken = shrink(steps, field.play)
        told = "\n".join(["", *broken.what, "", *broken.story, "", *map(repr, broken.steps)])
        raise AssertionError(f"history {number} of seed {SEED!r} went wrong; shrunk:{told}")
    return len(steps)


def _share(share: int) -> tuple[int, Counter[str]]:
    """Every PROCESSES-th history: how many steps it were, and what was met in them."""
    numbers, played = count(share, PROCESSES), 0
    with a_field() as field:
        while played < int(STEPS) / PROCESSES:
            played += _replayed(field, next(numbers))
        return played, field.met


def test_the_store_follows_its_model(field: Field) -> None:
    if ONLY:
        _replayed(field, int(ONLY))
        return
    shares = shared_out(_share)
    _assert_varied(sum((met for _, met in shares), Counter()), sum(played for played, _ in shares))


def _assert_varied(met: Counter[str], steps: int) -> None:
    """Every call is made, and succeeds, often enough to have meant something; so are the usual refusals."""
    rare = {what: met[what] for what in OFTEN if met[what] < steps / 2500}
    assert not rare, f"of {steps} steps too few were {rare}; all: {dict(met)}"


OFTEN = (
    *("add: done", "claim: done", "claim_now: done", "heartbeat: done", "extend_own: done", "verdict: done"),
    *("started: done", "cancel: done", "retry: done", "block: done", "edit: done", "pause: done", "configure: done"),
    *("expire: done", "recover: done", "promote: done", "shift_leases: done", "forget_requests: done"),
    *(f"finish: {state}" for state in ("done", "failed", "queued", "blocked", "cancelled", "interrupted")),
    *("finish: StaleLease", "heartbeat: StaleLease", "verdict: StaleLease", "retry: WrongState", "edit: WrongState"),
    *("a dependent failed", "a dependent came back", "calls that share a transaction", "a daemon was killed"),
)
