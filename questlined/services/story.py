"""The story of every quest, told to the journal: what `journalctl QUESTLINE_ID=...` shows.

It reads the queue's own events after they are committed, in pages and beside the work, so that nothing waits for it
and none is forgotten: a cascade of failures is told as well as an attempt's end. Only a daemon that is killed leaves
the last of them untold; `qlctl events` has all. Task texts, output, errors and reasons stay in the queue; of a quest
it tells the id, the project, the attempt and the class of its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from questlined.services.service import Looks
from questlined.store.changes import Changes
from questlined.store.protocol import Store
from questlined.store.rows import Told
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)
PACE_S = 0.1
WALK = 500  # rows of the queue's events that are looked at for one page

_GOES_ON, _NEEDS_A_LOOK = logging.INFO, logging.WARNING
# What is told, by the queue's own words for it. That a quest was added is not: many are, at once, and nothing happened.
SAID: Final = {
    "claimed": (_GOES_ON, "attempt {attempt} begins"),
    "adopted": (_GOES_ON, "attempt {attempt} goes on under a new daemon"),
    "completed": (_GOES_ON, "done by attempt {attempt}"),
    "retry_scheduled": (_GOES_ON, "attempt {attempt} ended: {class_}; another one follows"),
    "failed": (_NEEDS_A_LOOK, "failed: {class_}"),
    "dependency_failed": (_NEEDS_A_LOOK, "failed by a quest that it depends on"),
    "blocked": (_NEEDS_A_LOOK, "blocked: it waits for a person"),
    "interrupted": (_GOES_ON, "attempt {attempt} was interrupted; it is claimed again"),
    "recovered": (_NEEDS_A_LOOK, "attempt {attempt} was lost with an earlier daemon; it is claimed again"),
    "lease_expired": (_NEEDS_A_LOOK, "the holder of attempt {attempt} is lost"),
    "released": (_GOES_ON, "attempt {attempt} was given back"),
    "parked": (_GOES_ON, "attempt {attempt} met its provider's limit; it waits for the reset"),
    "cancel_requested": (_GOES_ON, "its cancellation was asked for"),
    "cancelled": (_GOES_ON, "cancelled"),
    "requeued": (_GOES_ON, "queued again by a person"),
    "dependency_requeued": (_GOES_ON, "queued again with a quest that it depends on"),
}


def tell(told: Told) -> None:
    """Log one event with its fields."""
    level, said = SAID[told.event]
    text = said.format(attempt=told.attempt, class_=told.class_)
    fields = {
        "QUESTLINE_EVENT": told.event,
        "QUESTLINE_ID": told.quest_id,
        "QUESTLINE_PROJECT": told.project,
        "QUESTLINE_ATTEMPT": told.attempt,
        "QUESTLINE_RUN": told.run_number,
        "QUESTLINE_CLASS": told.class_,
    }
    log.log(level, "%s: %s", told.quest_id, text, extra={"fields": fields})


class Story:
    """Tells what comes after the event `after`; with `told` False, where records go to people's eyes, nothing."""

    def __init__(self, store: Store, changes: Changes, after: int, *, told: bool) -> None:
        self._store, self._after, self._told = store, after, told
        self._one_at_a_time = asyncio.Lock()
        self._looks = Looks(PACE_S)
        self.wake = self._looks.wake
        if told:
            changes.on_changed.append(self._looks.changed)

    async def run(self, started: Callable[[], None]) -> None:
        """Tell until cancelled."""
        started()
        while True:
            await self._looks.due()
            if await self._page():
                self._looks.hurry()

    async def finish(self) -> None:
        """Tell what is left. For the daemon's end, when nothing is written any more."""
        while await self._page():
            pass

    async def _page(self) -> bool:
        """Tell the next events; whether more may follow at once."""
        if not self._told:
            return False
        async with self._one_at_a_time:
            try:
                page = await self._store.story(self._after, tuple(SAID), WALK)
            except (StoreFull, Unavailable):
                return False  # it is where it was, and the next change is another chance
            self._after = page.last
            for told in page.told:
                tell(told)
            return page.more
