"""Dependencies: they hold back, fail and revive. Every store passes these as they are."""

from __future__ import annotations

import pytest

from questlined.store.protocol import ProjectRef
from questlined.wire.errors import DependencyInvalid, WrongState
from tests.support.stores import Bench, scenario


@scenario
async def test_an_unfinished_dependency_holds_a_quest_back_even_when_its_lane_is_free(bench: Bench) -> None:
    root = await bench.add(lane="a")
    child = await bench.add(lane="b", depends_on=(root,), priority=9)
    (claimed,) = await bench.claim_own(most=5)
    assert claimed.quest.id == root
    await bench.finish(claimed)
    (claimed,) = await bench.claim_own(most=5)
    assert claimed.quest.id == child


@scenario
async def test_failure_cascades_and_retry_revives_only_what_failed_through_it(bench: Bench) -> None:
    """root → a → b, other → c, and d depends on both: d stays failed until both are back."""
    root, other = await bench.add(priority=9), await bench.add(priority=8)
    a = await bench.add(depends_on=(root,))
    b = await bench.add(depends_on=(a,))
    c = await bench.add(depends_on=(other,))
    d = await bench.add(depends_on=(root, other))
    for claimed in await bench.claim_own(most=2):
        assert await bench.finish(claimed, "failed") == "failed"
    assert [await bench.state(q) for q in (a, b, c, d)] == ["failed"] * 4
    found = await bench.store.quest(b)
    assert found
    assert (found.failure_kind, found.failed_dependency_id) == ("dependency", a)
    await bench.store.retry(bench.steer(root))
    assert [await bench.state(q) for q in (root, a, b, c, d)] == ["queued", "queued", "queued", "failed", "failed"]
    with pytest.raises(WrongState):
        await bench.store.retry(bench.steer(d))
    await bench.store.retry(bench.steer(other))
    assert [await bench.state(q) for q in (other, c, d)] == ["queued"] * 3


@scenario
async def test_a_chain_of_5000_fails_and_comes_back(bench: Bench) -> None:
    quests = [bench.quest()]
    for _ in range(4999):
        quests.append(bench.quest(depends_on=(quests[-1].id,)))
    await bench.store.add(bench.request(*quests))
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed, "failed")
    assert (await bench.store.counts("/p"))["failed"] == 5000
    await bench.store.retry(bench.steer(quests[0].id))
    assert (await bench.store.counts("/p"))["queued"] == 5000
    assert [c.quest.id for c in await bench.claim_own(most=5)] == [quests[0].id]


@scenario
async def test_a_quest_added_on_a_dead_dependency_is_failed_by_it(bench: Bench) -> None:
    root = await bench.add()
    await bench.store.cancel(bench.steer(root))
    child = await bench.add(depends_on=(root,))
    assert await bench.state(child) == "failed"
    await bench.store.retry(bench.steer(root))
    assert await bench.state(child) == "queued"


@scenario
async def test_dependencies_must_exist_in_the_same_project(bench: Bench) -> None:
    far = await bench.add(ProjectRef("/q", None, "/q"))
    for wrong, reason in (("q-nothing", "not_found"), (far, "cross_project")):
        with pytest.raises(DependencyInvalid) as refused:
            await bench.add(depends_on=(wrong,))
        assert refused.value.details["reason"] == reason
    assert sum((await bench.store.counts("/p")).values()) == 0


@scenario
async def test_add_many_is_all_or_nothing(bench: Bench) -> None:
    good, bad = bench.quest(), bench.quest(depends_on=("q-nothing",))
    with pytest.raises(DependencyInvalid):
        await bench.store.add(bench.request(good, bad))
    assert await bench.store.quest(good.id) is None
