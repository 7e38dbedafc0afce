"""What an earlier daemon left: its processes are found and killed, its attempts settled, before anything is claimed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from pathlib import Path

from questlined.attempts import index, output
from questlined.attempts.runtime import Runtime
from questlined.core.ids import marker
from questlined.procs.leftovers import Recorded, kill_leftovers, marked, outlast
from questlined.procs.procfs import Stat
from questlined.store.protocol import Reclaim, Sealed
from questlined.store.rows import OpenRun
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)
AGAIN_S = 5.0


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
    """The quests whose attempts ended with an earlier daemon. Raises Unavailable where that cannot be written.

    An attempt of which something cannot be killed stays as it is, its lane and its quest held, until that is gone."""
    open_runs = await runtime.store.open_runs()
    killed = await asyncio.to_thread(_kill, runtime, open_runs)
    living = await asyncio.to_thread(marked, runtime.store_uuid)
    held = {run.quest_id: living[mark] for run in open_runs if (mark := _mark(runtime, run)) in living}
    quests = await _settle(runtime, [run for run in open_runs if run.quest_id not in held])
    if quests or killed:
        log.warning("an earlier daemon left %d attempts; %d of their processes were killed", len(quests), len(killed))
    for run in open_runs:
        if run.quest_id in held:
            runtime.aside(_outlast(runtime, run, held[run.quest_id]))
    return quests


async def _settle(runtime: Runtime, runs: list[OpenRun]) -> list[str]:
    sealed = {}
    for run in runs:
        directory = output.directory_of(runtime.artifacts, run.quest_id, run.attempt)
        sealed[run.quest_id, run.attempt] = await asyncio.to_thread(_left, directory)
    reclaim = Reclaim(runtime.clock.wall_ms(), runtime.chance(), runtime.config.policy, runtime.config.limits)
    return await runtime.store.recover(reclaim, sealed)


def _left(directory: Path) -> tuple[Sealed, ...]:
    return (*output.sizes(directory), *index.stored(directory))


async def _outlast(runtime: Runtime, run: OpenRun, processes: list[Stat]) -> None:
    pids = [seen.pid for seen in processes]
    log.error("%s cannot run again before its earlier processes are gone: %s", run.quest_id, pids)
    runtime.undying[run.quest_id] = pids
    await outlast(processes)
    del runtime.undying[run.quest_id]
    while True:
        try:
            await _settle(runtime, [run])
        except (StoreFull, Unavailable) as error:
            log.warning("%s cannot be settled yet: %s", run.quest_id, error)
            await asyncio.sleep(AGAIN_S)
        else:
            return


def _mark(runtime: Runtime, run: OpenRun) -> str:
    return marker(runtime.store_uuid, run.quest_id, run.lease_gen)


def _kill(runtime: Runtime, open_runs: list[OpenRun]) -> list[int]:
    recorded = [
        Recorded(run.pid, run.pid_started, run.boot_id)
        for run in open_runs
        if run.pid is not None and run.pid_started is not None and run.boot_id is not None
    ]
    config = runtime.config
    keeps = any(executor.keep_children for executor in (config.executor, *config.executors.values()))
    ours = {_mark(runtime, run) for run in open_runs}
    # Children that an executor keeps on purpose outlive their attempt; all else of an ended one has no right to.
    return kill_leftovers(runtime.store_uuid, recorded, _AllBut(ours) if keeps else ())
