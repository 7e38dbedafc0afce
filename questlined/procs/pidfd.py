"""Signals to one process, through a descriptor that cannot come to mean another one, and to a whole group."""

from __future__ import annotations

import os
import signal

from questlined.procs import procfs


def open_same(seen: procfs.Stat) -> int | None:
    """A pidfd for exactly the process that was seen; None when that one is gone. Raises OSError (EMFILE, ENFILE)."""
    try:
        pidfd = os.pidfd_open(seen.pid)
    except ProcessLookupError:
        return None
    # The pid may have been reused before the descriptor was opened; from here on it cannot be.
    if procfs.start_ticks(seen.pid) == seen.started:
        return pidfd
    os.close(pidfd)
    return None


def send(pidfd: int, number: signal.Signals) -> None:
    """Signal the process; one that is gone, or that may not be signalled, is left alone."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        pass


def send_same(seen: procfs.Stat, number: signal.Signals) -> None:
    """Signal exactly the process that was seen, if it is still there."""
    try:
        pidfd = open_same(seen)
    except OSError:  # no descriptor to be had: the sweep finds it again
        return
    if pidfd is not None:
        send(pidfd, number)
        os.close(pidfd)


def send_group(group: int, number: signal.Signals) -> None:
    """Signal a group whose leader is our child and not yet reaped: only so long can its number mean no other."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass
