"""What `systemctl status` shows in its line: the queue's figures, told when they change, once a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from questlined.services.service import Looks
from questlined.store.changes import Changes
from questlined.store.protocol import Store
from questlined.sysd.notify import Notifier
from questlined.wire.errors import StoreFull, Unavailable

PACE_S = 1.0
EXTEND_MS = 30_000


def line(counts: Mapping[str, int], *, paused: bool, trouble: str | None) -> str:
    """The figures of what is not over yet, and what holds the queue back."""
    shown = [f"{counts[state]} {state}" for state in ("running", "queued")]
    shown += [f"{counts[state]} {state}" for state in ("interrupted", "blocked") if counts[state]]
    held = [*(["paused"] if paused else []), *([trouble] if trouble else [])]
    return "; ".join([", ".join(shown), *held])


def counted(number: int) -> str:
    """So many attempts, in words."""
    return "1 attempt" if number == 1 else f"{number} attempts"


class Status:
    """`running` counts the daemon's own attempts, `trouble` is why nothing is claimed or written, if so."""

    def __init__(
        self,
        notifier: Notifier,
        store: Store,
        changes: Changes,
        running: Callable[[], int],
        trouble: Callable[[], str | None],
    ) -> None:
        self._notifier, self._store, self._running, self._trouble = notifier, store, running, trouble
        self._looks = Looks(PACE_S)
        self.wake = self._looks.wake
        self._stopping = False
        if notifier.there:
            changes.on_changed.append(self._looks.changed)

    def stopping(self) -> None:
        """From now on only what still runs counts."""
        self._stopping = True
        self._looks.hurry()

    async def run(self, started: Callable[[], None]) -> None:
        """Tell until cancelled; where nobody listens, nothing is looked up."""
        started()
        said = None
        while True:
            await self._looks.due()
            text = await self._text() if self._notifier.there else None
            if text is not None:
                said = text
                self._notifier.status(said)

    async def _text(self) -> str | None:
        """What to say, None where it cannot be told now: the next change is another chance."""
        if self._stopping:
            return f"stopping: {counted(self._running())} under way"
        try:
            paused, counts = await asyncio.gather(self._store.daemon_paused(), self._store.counts(None))
        except (StoreFull, Unavailable):
            return None
        return line(counts, paused=paused is not None, trouble=self._trouble())


async def extend(notifier: Notifier, bound_s: float) -> None:
    """Ask systemd for more time, again and again, for at most `bound_s` in all: TimeoutStopSec= knows nothing of the
    grace that an executor gives, and a process that does not die at all is not waited for without end."""
    loop = asyncio.get_running_loop()
    end = loop.time() + bound_s
    while (left_s := end - loop.time()) > 0:
        notifier.extend_timeout(min(EXTEND_MS, int(left_s * 1000) + 1))
        await asyncio.sleep(min(EXTEND_MS / 3000, left_s))
