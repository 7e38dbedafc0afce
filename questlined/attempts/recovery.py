"""What an earlier daemon left: its processes are found and killed, its attempts settled, before anything is claimed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator

from questlined.attempts import output
from questlined.attempts.runtime import Runtime
from questlined.core.ids import marker
from questlined.procs.leftovers import Recorded, kill_leftovers
from questlined.store.protocol import Reclaim
from questlined.store.rows import OpenRun

log = logging.getLogger(__name__)


class _AllBut(Collection[str]):
    """Every marker but these few."""

    def __init__(self, few: Collection[str]) -> None:
        self._few = few

    def __contains__(self, mark: object) -> bool:
        return mark not in self._few

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


async def recover(runtime: Runtime) -> list[str]:
    """The quests whose attempts ended with an earlier daemon. Raises Unavailable where that cannot be written."""
    open_runs = await runtime.store.open_runs()
    killed = await asyncio.to_thread(_kill, runtime, open_runs)
    sealed = {
        (run.quest_id, run.attempt): await asyncio.to_thread(
            output.sizes, output.directory_of(runtime.artifacts, run.quest_id, run.attempt)
        )
        for run in open_runs
    }
    reclaim = Reclaim(runtime.clock.wall_ms(), runtime.chance(), runtime.config.policy, runtime.config.limits)
    quests = await runtime.store.recover(reclaim, sealed)
    if quests or killed:
        log.warning("an earlier daemon left %d attempts; %d of their processes were killed", len(quests), len(killed))
    return quests


def _kill(runtime: Runtime, open_runs: list[OpenRun]) -> list[int]:
    recorded = [
        Recorded(run.pid, run.pid_started, run.boot_id)
        for run in open_runs
        if run.pid is not None and run.pid_started is not None and run.boot_id is not None
    ]
    config = runtime.config
    keeps = any(executor.keep_children for executor in (config.executor, *config.executors.values()))
    ours = {marker(runtime.store_uuid, run.quest_id, run.lease_gen) for run in open_runs}
    # Children that an executor keeps on purpose outlive their attempt; all else of an ended one has no right to.
    return kill_leftovers(runtime.store_uuid, recorded, _AllBut(ours) if keeps else ())
