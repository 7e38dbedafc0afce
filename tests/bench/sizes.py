"""What a claim, an end, an add and a page cost among many quests of a kind, beside the same among 1,000.

At the store, without sockets, on a disk, with fsync. The few and the many are two stores that are asked in turn.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Iterator, Sequence

from questlined.store.protocol import ProjectRef
from questlined.store.reading import Page
from tests.bench import crowds
from tests.bench.crowds import MANY
from tests.bench.figures import Figure
from tests.bench.rig import folder, now_ms
from tests.support.stores import Bench

FEW = 1000
BARS = {"claim": 1.5, "completion": 1.2, "add": 1.1, "list": 1.2}
LIVE = ProjectRef("/live", None, "/live")  # its quests are claimed where none of the crowd can be
WARM = 10  # rounds that do not count
Costs = dict[str, list[float]]


def sized(sizes: Sequence[int], rounds: int, kind: str) -> Iterator[Figure]:
    """Figures for each size."""
    for size in sizes:
        few, many = asyncio.run(_measured(kind, size, rounds))
        for what, bar in BARS.items():
            name = f"{what} among {size:,} {kind}"
            yield Figure(name, "ms", many[what], bar, base=few[what], base_name=f"among {FEW:,}")


async def _measured(kind: str, size: int, rounds: int) -> list[Costs]:
    places = [folder() for _ in range(2)]
    costs: list[Costs] = [{what: [] for what in BARS} for _ in places]
    try:
        benches = []
        for place, number in zip(places, (FEW, size), strict=True):
            await crowds.make(place / "quests.sqlite", kind, number)
            benches.append(bench := await crowds.opened(place / "quests.sqlite"))
            live = [bench.quest(project=LIVE.key, id=f"q-live{one}") for one in range(rounds + WARM)]
            await bench.store.add(bench.request(*live, project=LIVE))
        for number in range(rounds + WARM):
            for bench, cost in zip(benches, costs, strict=True):
                await _once(bench, f"q-new{number}", cost if number >= WARM else {what: [] for what in BARS})
        for bench in benches:
            await bench.store.close()
    finally:
        for place in places:
            shutil.rmtree(place)
    return costs


async def _once(bench: Bench, new: str, cost: Costs) -> None:
    """One of each; the quest that is added is `new`."""

    async def timed(what: str, done: Awaitable[object]) -> object:
        began = now_ms()
        answer = await done
        cost[what].append(now_ms() - began)
        return answer

    claimed = await timed("claim", bench.claim_own())
    assert isinstance(claimed, list)
    await timed("completion", bench.finish(claimed[0]))
    await timed("add", bench.add(MANY, id=new))
    page = await timed("list", bench.store.page(Page(31, project=MANY.key)))
    assert isinstance(page, list)
    assert len(page) == 31
