"""The journal hears the story of every quest, from what was committed, and none of what a quest says."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from questlined.services import story as story_module
from questlined.services.story import SAID, Story
from questlined.store.protocol import Steer
from questlined.sysd.messages import MESSAGE_IDS
from tests.integration.store.scene import until
from tests.support.parts import Parts, parts

SECRET = "s3cret-s3cret"


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "questlined.services.story")
    return caplog


def records(told: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in told.records if record.name == "questlined.services.story"]


def fields(told: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.__dict__["fields"] for record in records(told)]


async def serving(made: Parts, **more: bool) -> Story:
    """A story that is told from now on."""
    after = await made.runtime.store.last_event()
    story = Story(made.runtime.store, made.changes, after, **({"told": True} | more))
    await made.serve(story)
    return story


def test_an_attempt_is_told_with_whose_it_is(tmp_path: Path, told: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with parts(tmp_path) as made:
            await serving(made)
            quest = await made.add(f"echo {SECRET}", context=SECRET, name=SECRET)
            claimed = await made.claim()
            await made.bench.finish(claimed, "failed", error=SECRET, reason=SECRET, result=SECRET)
            await until(lambda: len(records(told)) == 2)
            begun, ended = fields(told)
            common = {"QUESTLINE_ID": quest, "QUESTLINE_PROJECT": made.project.key, "QUESTLINE_RUN": 1}
            assert begun == {**common, "QUESTLINE_EVENT": "claimed", "QUESTLINE_ATTEMPT": 1, "QUESTLINE_CLASS": None}
            assert ended == {**common, "QUESTLINE_EVENT": "failed", "QUESTLINE_ATTEMPT": 1, "QUESTLINE_CLASS": "failed"}
            assert told.messages == [f"{quest}: attempt 1 begins", f"{quest}: failed: failed"]
            assert [record.levelno for record in records(told)] == [logging.INFO, logging.WARNING]
            assert SECRET not in str([vars(record) for record in told.records])

    asyncio.run(run())


def test_what_a_person_or_a_cascade_does_is_told_too(tmp_path: Path, told: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with parts(tmp_path) as made:
            await serving(made)
            first = await made.add()
            second = await made.add(depends_on=(first,))
            await made.runtime.store.cancel(Steer(first, 1, reason=SECRET))
            await made.runtime.store.retry(Steer(first, 2))
            await until(lambda: len(records(told)) == 4)
            assert {(each["QUESTLINE_ID"], each["QUESTLINE_EVENT"]) for each in fields(told)} == {
                (first, "cancelled"), (second, "dependency_failed"),
                (first, "requeued"), (second, "dependency_requeued"),
            }  # fmt: skip
            assert SECRET not in told.text

    asyncio.run(run())


def test_more_than_a_page_is_told_whole_and_what_was_before_is_not(
    tmp_path: Path, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left at the end is told by `finish`."""
    monkeypatch.setattr(story_module, "WALK", 3)
    monkeypatch.setattr(story_module, "PACE_S", 3600.0)

    async def run() -> None:
        async with parts(tmp_path) as made:
            await made.add()
            await made.bench.finish(await made.claim())
            story = await serving(made)
            quests = [await made.add() for _ in range(10)]
            claimed = [await made.claim() for _ in quests]
            await story.finish()
            assert [each["QUESTLINE_ID"] for each in fields(told)] == [each.quest.id for each in claimed]

    asyncio.run(run())


def test_the_end_tells_nothing_twice(
    tmp_path: Path, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the service reads a page at that moment."""
    monkeypatch.setattr(story_module, "PACE_S", 0.0)

    async def run() -> None:
        async with parts(tmp_path) as made:
            story = await serving(made)
            for _ in range(20):
                quest = await made.add()
                await made.claim()
                await story.finish()
                assert [each["QUESTLINE_ID"] for each in fields(told)].count(quest) == 1

    asyncio.run(run())


def test_where_people_read_the_log_nothing_is_told(tmp_path: Path, told: pytest.LogCaptureFixture) -> None:
    """On a terminal."""

    async def run() -> None:
        async with parts(tmp_path) as made:
            story = await serving(made, told=False)
            await made.add()
            await made.bench.finish(await made.claim())
            await story.finish()
            assert records(told) == []

    asyncio.run(run())


def test_everything_that_is_told_has_a_message_id() -> None:
    assert set(SAID) <= set(MESSAGE_IDS)
