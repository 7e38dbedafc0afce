"""Pages of quests: order, filters, cursors and cost. Every store passes these as they are."""

from __future__ import annotations

import pytest

from questlined.store.reading import Page
from questlined.wire.errors import NotFound
from tests.support.stores import Bench, scenario


@scenario
async def test_a_page_is_newest_first_and_goes_on_behind_its_cursor(bench: Bench) -> None:
    ids = [await bench.add() for _ in range(5)]
    first = await bench.store.page(Page(2, project="/p"))
    assert [row.id for row in first] == [ids[4], ids[3]]
    second = await bench.store.page(Page(9, project="/p", cursor=first[-1].id))
    assert [row.id for row in second] == [ids[2], ids[1], ids[0]]
    with pytest.raises(NotFound):
        await bench.store.page(Page(9, cursor="q-nothing"))


@scenario
async def test_filters_hold_alone_and_together(bench: Bench) -> None:
    one = await bench.add(role="review", lane="a", submitter_uid=7)
    two = await bench.add(role="build", lane="a")
    await bench.store.cancel(bench.steer(two))
    assert [row.id for row in await bench.store.page(Page(9, project="/p", lane="a"))] == [two, one]
    assert [row.id for row in await bench.store.page(Page(9, project="/p", states=("cancelled",)))] == [two]
    assert [row.id for row in await bench.store.page(Page(9, states=("queued", "cancelled"), role="build"))] == [two]
    assert [row.id for row in await bench.store.page(Page(9, submitter=7))] == [one]
    assert await bench.store.page(Page(9, project="/q")) == []


@scenario
async def test_a_page_holds_no_more_of_a_text_than_it_shows(bench: Bench) -> None:
    """A thousand large tasks cost a thousand lines. One character more than is shown tells that there is more."""
    await bench.add(task="x" * 500_000, context="y" * 300)
    for page in (Page(9, project="/p"), Page(9, project="/p", states=("queued",)), Page(9)):
        (row,) = await bench.store.page(page)
        assert (len(row.task), len(row.context or "")) == (201, 201)
