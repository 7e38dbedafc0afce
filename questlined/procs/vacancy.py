"""Tells when cgroups become empty, by inotify on their cgroup.events: nobody looks again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from questlined.procs import cgroup
from questlined.procs.watch import Watch

log = logging.getLogger(__name__)

# Between two looks where the kernel gives no watch, so that there is no event to wait for.
_NO_WATCH_PAUSE_S = 0.5


class Vacancy:
    """For the loop's thread. Of one group either its emptiness is waited for, or its removal."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watch: Watch | None = None  # made when it is first needed: most attempts leave nothing

    async def of(self, group: str) -> None:
        """Returns when nothing lives in the group. Raises OSError where that cannot be looked at."""
        changed = asyncio.Event()
        watched = self._add(group, changed.set)
        try:
            while cgroup.populated(group):
                changed.clear()
                if watched:
                    await changed.wait()
                else:
                    await asyncio.sleep(_NO_WATCH_PAUSE_S)
        finally:
            self._drop(group)

    def remove(self, group: str) -> None:
        """Remove the group, now or as soon as nothing lives in it; where neither can be, the next start does it."""
        if not self._removed(group) and self._add(group, lambda: self._look(group)):
            self._look(group)  # perhaps it became empty before it was watched

    def close(self) -> None:
        """Wait for nothing any more. What lives on is left alone, and its group stays."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _look(self, group: str) -> None:
        if self._removed(group):
            self._drop(group)

    def _removed(self, group: str) -> bool:
        try:
            return cgroup.remove(group)
        except OSError as error:  # out of descriptors
            log.debug("%s stays: %s", group, error.strerror)
            return False

    def _add(self, group: str, callback: Callable[[], None]) -> bool:
        try:
            if self._watch is None:
                self._watch = Watch(self._loop, interval_s=0)
            self._watch.add(f"{group}/cgroup.events", callback)
        except OSError as error:
            log.debug("%s cannot be watched: %s", group, error.strerror)
            return False
        return True

    def _drop(self, group: str) -> None:
        if self._watch is not None:
            self._watch.remove(f"{group}/cgroup.events")
