"""Signals as something to wait for beside sockets, so that the demo ends at a place of its own choosing."""

from __future__ import annotations

import os
import select
import signal
from types import TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """A signal asked the demo to end; `number` is which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """While entered, signals interrupt `until_readable` and nothing else; one that was ignored (nohup) stays so."""

    def __enter__(self) -> Signals:
        self._read, write = os.pipe()
        self._write = write
        os.set_blocking(write, False)
        self._wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        wanted = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, lambda *_: None) for number in wanted}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._read)
        os.close(self._write)

    def until_readable(self, fds: list[int], timeout_s: float | None = None) -> list[int]:
        """Those of `fds` that can be read, none when the time is over. Raises Stopped."""
        ready, _, _ = select.select([self._read, *fds], [], [], timeout_s)
        if self._read in ready:
            numbers = [number for number in os.read(self._read, 64) if number in self._before]
            if numbers:
                raise Stopped(numbers[0])
        return [fd for fd in ready if fd != self._read]
