"""Signals to the daemon: the one that ends it, any further one, and SIGHUP."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

STOP = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """The first signal that ends the daemon, any further one, and those that ask for a reload."""

    def __init__(self, *, in_terminal: bool) -> None:
        self.first, self.second = asyncio.Event(), asyncio.Event()
        self.turn = asyncio.Event()  # the first, or another reason for the end of this program
        loop = asyncio.get_running_loop()
        for number in STOP:
            loop.add_signal_handler(number, self._came)
        self.hangup = asyncio.Event()  # kept until there is what can reload: a start may take longer than an edit
        loop.add_signal_handler(signal.SIGHUP, self._came if in_terminal else self.hangup.set)

    def _came(self) -> None:
        (self.second if self.first.is_set() else self.first).set()
        self.turn.set()


def in_terminal(environ: Mapping[str, str]) -> bool:
    """Whether SIGHUP says that the terminal has been closed. A service has none, nor what `nohup` started."""
    if "NOTIFY_SOCKET" in environ or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
