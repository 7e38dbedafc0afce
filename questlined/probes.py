"""Named points in the code, for tests: where to crash, and what to wait for. Unarmed, a point costs one `if`.

`QUESTLINED_CRASH_AT=name` or `name:N` kills the daemon with SIGKILL the Nth time (default: first) it reaches
that point, which is how the fault suite interrupts every multi-step path at every step. POINTS lists them all; an
unknown name is refused at start.
"""

from __future__ import annotations

import os
import signal

POINTS = {
    "commit.before": "a batch of writes is complete but not committed",
    "commit.after": "a batch is committed, nobody has been told",
    "add.before": "the rows of an add are written but not committed",
    "add.after": "an add is committed but not answered",
    "claim.before": "a claim is written but not committed",
    "claim.after": "a claim is committed, nothing was spawned",
    "attempt.prepared": "directory, files and argv are ready",
    "attempt.spawned": "the child runs, its pid is recorded nowhere",
    "started.before": "the pid's row is written but not committed",
    "started.after": "the pid is recorded",
    "attempt.exited": "the exit was seen, nothing is reaped",
    "attempt.swept": "no process of the attempt is left but its zombie",
    "attempt.reaped": "the exit status is taken",
    "attempt.sealed": "artifact sizes and previews are read",
    "finish.before": "the outcome is written but not committed",
    "finish.after": "the outcome is committed, nobody has been told",
    "cancel.before": "a cancel is written but not committed",
    "cancel.after": "a cancel is committed, nothing was signalled",
    "retry.before": "a retry is written but not committed",
    "retry.after": "a retry is committed, nobody has been told",
    "recover.before": "what an earlier daemon left is settled but not committed",
    "recover.after": "what an earlier daemon left is settled",
}

armed = False
_target = ""
_remaining = 0


def arm(spec: str) -> None:
    """Take a `name` or `name:N`. Raises ValueError for an unknown point."""
    global armed, _target, _remaining
    name, _, count = spec.partition(":")
    if name not in POINTS:
        raise ValueError(f"unknown crash point {name!r}; known: {', '.join(sorted(POINTS))}")
    armed, _target, _remaining = True, name, int(count or "1")


def reached(name: str) -> None:
    """Call as `if probes.armed: probes.reached("…")`."""
    global _remaining  # noqa: PLW0603
    if name == _target:
        _remaining -= 1
        if _remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)
