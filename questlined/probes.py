"""Named points in the code, for tests: where to crash, and what to wait for. Unarmed, a point costs one `if`.

`QUESTLINED_CRASH_AT=name` or `name:N` kills the daemon with SIGKILL the Nth time (default: first) it reaches
that point, which is how the fault suite interrupts every multi-step path at every step. `QUESTLINED_HANG_AT`, written
the same way, stops there for good the thread that reaches it (the loop, or the writer), or at one of ROUNDS that
service alone: the watchdog has to find it. An unknown name is refused at start.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading

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
    "reexec.checked": "the new program was examined, nothing has come to rest",
    "reexec.rested": "everything is at rest, and nothing let go of",
    "reexec.written": "everything is let go of, just before the exec",
    "reexec.taken": "the new program has what it was given, and has adopted nothing",
    "adopt.before": "attempts that go on are adopted but not committed",
    "adopt.after": "attempts that go on are adopted, nobody follows them",
    "fire.before": "what a recurrence has due is written but not committed",
    "fire.after": "what a recurrence has due is committed",
    "recover.before": "what an earlier daemon left is settled but not committed",
    "recover.after": "what an earlier daemon left is settled",
}

ROUNDS = {
    "scheduler.round": "the scheduler begins a round",
    "heartbeats.round": "the heartbeats begin a round",
    "rescuer.round": "the rescuer begins a round",
    "calendar.round": "the calendar begins a round",
}

armed = False
_target = ""
_remaining = 0
_hangs = False
_never = threading.Event()


def arm(spec: str) -> None:
    """Crash at a `name` or `name:N`. Raises ValueError for an unknown point."""
    _arm(spec, POINTS, hangs=False)


def arm_hang(spec: str) -> None:
    """Hang there instead. Raises ValueError for an unknown point."""
    _arm(spec, POINTS | ROUNDS, hangs=True)


def _arm(spec: str, known: dict[str, str], *, hangs: bool) -> None:
    global armed, _target, _remaining, _hangs
    name, _, count = spec.partition(":")
    if name not in known:
        raise ValueError(f"unknown point {name!r}; known: {', '.join(sorted(known))}")
    armed, _target, _remaining, _hangs = True, name, int(count or "1"), hangs


def reached(name: str) -> None:
    """Call as `if probes.armed: probes.reached("…")`."""
    if not _is_time(name):
        return
    if _hangs:
        _never.wait()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


async def round_begins(name: str) -> None:
    """The same for a service, which alone hangs: `if probes.armed: await probes.round_begins("…")`."""
    if _is_time(name):
        await asyncio.Event().wait()


def _is_time(name: str) -> bool:
    global _remaining  # noqa: PLW0603
    if name == _target:
        _remaining -= 1
    return name == _target and _remaining == 0
