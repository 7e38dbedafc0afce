"""Protocol `text`: stdout is the result, exit 0 is done."""

from __future__ import annotations

import signal
from dataclasses import dataclass

# A program that died of one of these without our doing was ended by somebody else: shutdown, `kill`, a slice's stop.
_FROM_OUTSIDE = frozenset({signal.SIGTERM, signal.SIGKILL})


@dataclass(frozen=True, slots=True)
class Judgement:
    """An attempt's class, and the line that says why; None for a good end."""

    klass: str
    reason: str | None


def judge(code: int | None, by_signal: int | None) -> Judgement:
    """The class of a program that ended by itself: its exit code, or the signal that killed it."""
    if code == 0:
        return Judgement("ok", None)
    if code is not None:
        return Judgement("failed", f"exit code {code}")
    if by_signal is None:
        return Judgement("lost", "how it ended is unknown")
    name = signal_name(by_signal)
    if by_signal in _FROM_OUTSIDE:
        return Judgement("interrupted", f"killed from outside by {name}")
    return Judgement("failed", f"killed by {name}")


def signal_name(number: int) -> str:
    """SIGTERM for 15."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
