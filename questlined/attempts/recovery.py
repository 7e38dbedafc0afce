"""What an earlier daemon left: what runs on is adopted, the rest is killed and settled, before anything is claimed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from questlined.attempts import index, output
from questlined.attempts.execution import Left
from questlined.attempts.runtime import Runtime
from questlined.core.ids import attempt_name, marker
from questlined.procs.leftovers import Recorded, kill_leftovers, marked, outlast
from questlined.procs.procfs import Stat
from questlined.store.protocol import Adopt, Claimed, Reclaim, Sealed
from questlined.store.rows import OpenRun
from questlined.wire.errors import StoreFull, Unavailable

log = logging.getLogger(__name__)
AGAIN_S = 5.0

Handed = Mapping[tuple[str, int], Left]  # by quest and generation


class _AllBut(Collection[str]):
    """Every name but these few."""

    def __init__(self, few: Collection[str]) -> None:
        self._few = few

    def __contains__(self, mark: object) -> bool:
        return mark not in self._few

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Recovered(NamedTuple):
    """What goes on under this daemon, the quests whose attempts ended with an earlier one, what `ask_again` is for."""

    adopted: list[tuple[Claimed, Left]]
    ended: list[str]
    unknown: list[OpenRun]


async def recover(runtime: Runtime, owner: str, handed: Handed) -> Recovered:
    """Adopt what runs on, end what an earlier daemon left besides, and settle what ended with it. Raises Unavailable
    where that cannot be written. `handed` is what the daemon before this one handed over itself.

    An attempt of which something cannot be killed, or whose unit cannot be asked for now, stays as it is, its lane and
    its quest held, until that is over."""
    open_runs = await runtime.store.open_runs()
    found, unknown = await _find(runtime, open_runs, handed)
    adopted = await _adopt(runtime, owner, found)
    goes_on = {_mark(runtime, run) for run in (*(run for run, _ in found), *unknown)}
    over = [run for run in open_runs if _mark(runtime, run) not in goes_on]
    killed = await asyncio.to_thread(_kill, runtime, over, goes_on)
    killed += await runtime.family.clear_groups(_kept_groups(runtime, over))
    stopped = await _stop_strays(runtime, goes_on)
    living = await asyncio.to_thread(marked, runtime.store_uuid)
    held = {run.quest_id: living[mark] for run in over if (mark := _mark(runtime, run)) in living}
    quests = await _settle(runtime, [run for run in over if run.quest_id not in held])
    if adopted:
        log.info("attempts that go on: %d", len(adopted))
    if quests or killed or stopped:
        ended = len(killed) + len(stopped)
        said = "an earlier daemon left %d attempts; %d of their processes and units were ended"
        log.warning(said, len(quests), ended, extra={"fields": {"QUESTLINE_EVENT": "attempts_recovered"}})
    for run in over:
        if run.quest_id in held:
            runtime.aside(_outlast(runtime, run, held[run.quest_id]))
    return Recovered(adopted, quests, unknown)


async def ask_again(
    runtime: Runtime, owner: str, unknown: list[OpenRun], adopt: Callable[[Claimed, Left], None]
) -> None:
    """What could not be told at the start: returns when it is known of each, and done."""
    while unknown:
        await asyncio.sleep(AGAIN_S)
        found, still = await _find(runtime, unknown, {})
        lives = {run.quest_id for run, _ in found}
        over = [run for run in unknown if run not in still and run.quest_id not in lives]
        try:
            for claimed, left in await _adopt(runtime, owner, found):
                adopt(claimed, left)
            unknown = [*still, *over]  # nobody is adopted twice
            await _settle(runtime, over)
            unknown = still
        except (StoreFull, Unavailable) as error:
            log.warning("%d attempts cannot be settled yet: %s", len(unknown), error)


async def _find(
    runtime: Runtime, open_runs: list[OpenRun], handed: Handed
) -> tuple[list[tuple[OpenRun, Left]], list[OpenRun]]:
    """The attempts that go on, with what is left of each, and those of which that cannot be told now. All are asked for
    at once: a bus that does not answer is waited for once."""
    asked = await asyncio.gather(*(_left_of(runtime, run, handed) for run in open_runs))
    found, unknown = [], []
    for run, left in zip(open_runs, asked, strict=True):
        if isinstance(left, Unavailable):
            log.error("%s is not settled: %s", run.quest_id, left, extra=run.about)
            unknown.append(run)
        elif left is not None:
            found.append((run, left))
    return found, unknown


async def _left_of(runtime: Runtime, run: OpenRun, handed: Handed) -> Left | Unavailable | None:
    left = handed.get((run.quest_id, run.lease_gen))
    if left is not None or runtime.units is None:
        return left
    directory = output.directory_of(runtime.artifacts, run.quest_id, run.attempt)
    try:
        execution = await runtime.units.find(run, _mark(runtime, run), directory)
    except Unavailable as error:
        return error
    return Left(execution) if execution else None


async def _adopt(runtime: Runtime, owner: str, found: list[tuple[OpenRun, Left]]) -> list[tuple[Claimed, Left]]:
    if not found:
        return []
    runs = tuple((run.quest_id, run.attempt, run.lease_gen) for run, _ in found)
    request = Adopt(owner, runtime.clock.wall_ms(), runtime.config.lease_ttl_ms, runs)
    left = {(run.quest_id, run.attempt): left for run, left in found}
    return [(each, left[each.quest.id, each.run.attempt]) for each in await runtime.store.adopt(request)]


async def _stop_strays(runtime: Runtime, goes_on: Collection[str]) -> list[str]:
    if runtime.units is None:
        return []
    try:
        return await runtime.units.stop_strays(goes_on)
    except Unavailable as error:
        log.warning("units of earlier attempts cannot be looked for: %s, ignoring", error)
        return []


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
    said = "%s cannot run again before its earlier processes are gone: %s"
    log.error(said, run.quest_id, pids, extra=run.about)
    runtime.undying[run.quest_id] = pids
    await outlast(processes)
    del runtime.undying[run.quest_id]
    while True:
        try:
            await _settle(runtime, [run])
        except (StoreFull, Unavailable) as error:
            log.warning("%s cannot be settled yet: %s", run.quest_id, error, extra=run.about)
            await asyncio.sleep(AGAIN_S)
        else:
            return


def _mark(runtime: Runtime, run: OpenRun) -> str:
    return marker(runtime.store_uuid, run.quest_id, run.lease_gen)


def _kill(runtime: Runtime, over: list[OpenRun], goes_on: Collection[str]) -> list[int]:
    recorded = [
        Recorded(run.pid, run.pid_started, run.boot_id, run.cgroup)
        for run in over
        if run.pid is not None and run.pid_started is not None and run.boot_id is not None
    ]
    spared = _AllBut({_mark(runtime, run) for run in over}) if _keeps(runtime) else goes_on
    return kill_leftovers(runtime.store_uuid, recorded, spared)


def _kept_groups(runtime: Runtime, over: list[OpenRun]) -> Collection[str]:
    return _AllBut({attempt_name(run.quest_id, run.lease_gen) for run in over}) if _keeps(runtime) else ()


def _keeps(runtime: Runtime) -> bool:
    """Whether children that an executor keeps on purpose outlive their attempt; all else of an ended one has no right
    to."""
    config = runtime.config
    return any(executor.keep_children for executor in (config.executor, *config.executors.values()))
