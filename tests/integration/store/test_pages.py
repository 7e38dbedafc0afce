"""Filtered pages are found in steps that look at so many rows each, and are the same as if it were one."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import closing
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from questlined.store.protocol import ProjectRef
from questlined.store.reading import Page
from questlined.store.rows import Event, Quest
from questlined.store.sqlite import connection
from questlined.store.sqlite.pages import EventWalk, QuestWalk
from questlined.store.sqlite.statements import parse
from tests.integration.store.scene import another, on_bench
from tests.support.stores import Bench

PAGES = [
    Page(7, project="/p", role="rare"),
    Page(7, project="/p", states=("queued", "failed"), role="rare"),
    Page(7, project="/p", states=("queued",), lane="l"),
    Page(7, project="/p", states=("cancelled", "done")),
    Page(7, project="/p"),
    Page(7, project="/p", submitter=7),
    Page(7, role="rare"),
    Page(7, states=("cancelled",)),
    Page(7, submitter=7, lane="l"),
    Page(7, project="/none", role="rare"),
]


async def crowd(bench: Bench) -> None:
    """400 quests of two projects, several of one moment each, some of a rare role, some cancelled."""
    chance = random.Random(1)
    made, adding = [], []
    for number in range(400):
        project = chance.choice(["/p", "/q"])
        rare = chance.random() < 0.05
        quest = bench.quest(
            project=project,
            created_at=bench.clock.wall_ms() + number // 5,
            role="rare" if rare else "default",
            lane="l" if rare else None,
            submitter_uid=7 if rare else 8,
        )
        made.append(quest)
        adding.append(bench.store.add(bench.request(quest, project=ProjectRef(project, None, project))))
    await asyncio.gather(*adding)
    await asyncio.gather(*(bench.store.cancel(bench.steer(quest.id)) for quest in chance.sample(made, 40)))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    on_bench(folder, crowd)
    with another(folder / "quests.sqlite") as db:  # a gap in the rows, and an event far behind the others
        db.execute("UPDATE quests SET rowid = rowid + 1000000 WHERE rowid > 200")
        db.execute("UPDATE quest_events SET seq = seq + 1000000 WHERE seq > 300")
    return folder / "quests.sqlite"


def fits(quest: Quest, page: Page) -> bool:
    asked = (page.project, page.role, page.lane, page.submitter)
    has = (quest.project, quest.role, quest.lane, quest.submitter_uid)
    every = all(want is None or want == value for want, value in zip(asked, has, strict=True))
    return every and (not page.states or quest.state in page.states)


def walked(database: Path, walk: QuestWalk | EventWalk) -> int:
    """Steps to its end."""
    with closing(connection.open_reader(database)) as db:
        steps = 1
        while walk.step(db):
            steps += 1
    return steps


@pytest.mark.parametrize("walk", [1, 3, 50, 5000])
@pytest.mark.parametrize("page", PAGES, ids=range(len(PAGES)))
def test_pages_give_every_quest_once_newest_first(database: Path, page: Page, walk: int) -> None:
    """However short the steps are; the next page begins behind the last quest of this one."""
    whole = QuestWalk(Page(1000), 10**9)
    walked(database, whole)
    wanted = [quest for quest in whole.found if fits(quest, page)]
    if page.project is not None:
        rows = {quest.id: place for place, quest in enumerate(whole.found)}
        wanted.sort(key=lambda quest: (-quest.created_at, rows[quest.id]))
    found: list[Quest] = []
    while True:
        one = QuestWalk(replace(page, cursor=found[-1].id if found else None), walk)
        walked(database, one)
        found += one.found
        if len(one.found) < page.limit:
            break
    assert [quest.id for quest in found] == [quest.id for quest in wanted]


def test_a_step_looks_at_no_more_rows_than_it_may(database: Path) -> None:
    """What needs no search is found in one, gaps are leapt over."""
    assert walked(database, QuestWalk(Page(1000, role="rare"), 50)) in (8, 9, 10)
    assert walked(database, QuestWalk(Page(1000, project="/p", lane="l"), 50)) in (4, 5)
    assert walked(database, QuestWalk(Page(1000, project="/p"), 1)) == 1
    assert walked(database, QuestWalk(Page(1000, project="/p", states=("queued",)), 1)) == 1
    assert walked(database, QuestWalk(Page(1000), 1)) == 1


@pytest.mark.parametrize("walk", [1, 50, 5000])
def test_a_projects_events_are_all_there_newest_first(database: Path, walk: int) -> None:
    """Page by page."""
    with another(database) as db:
        wanted = [seq for (seq,) in db.execute(
            "SELECT seq FROM quest_events e JOIN quests q ON q.id = e.quest_id WHERE project = '/p' ORDER BY seq DESC"
        )]  # fmt: skip
    found: list[Event] = []
    while True:
        one = EventWalk("/p", found[-1].seq if found else None, 30, walk)
        walked(database, one)
        found += one.found
        if len(one.found) < 30:
            break
    assert [event.seq for event in found] == wanted


@pytest.mark.parametrize("name", ["page_project", "page_project_state"])
def test_a_step_ends_where_its_rows_end(database: Path, name: str) -> None:
    """Both bounds are those of the index, whose order is that of the page: nothing behind the lower one is read."""
    _, sql = parse(resources.files("questlined.store.sqlite").joinpath("sql", "pages.sql").read_text("utf-8"))[name]
    with another(database) as db:
        names = dict.fromkeys(re.findall(r":([a-z_]+)", sql))
        plan = [text for *_, text in db.execute(f"EXPLAIN QUERY PLAN {sql}", names)]
    assert not [text for text in plan if "TEMP B-TREE" in text], plan
    assert any("created_at>? AND created_at<?" in text for text in plan), plan
