"""The stream of a quest's records, in the daemon itself."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from questlined.attempts import index, output, pages, records
from questlined.operations import following
from questlined.operations.context import Caller, Context
from questlined.operations.following import Follow, FollowReply, Position
from questlined.store.protocol import Finish, Sealed
from questlined.wire.errors import Unavailable
from tests.support.parts import Parts, parts

ME = Caller(os.geteuid(), os.getegid(), os.getpid(), owner=True)


def play(folder: Path, story: Callable[[Parts, Context], Awaitable[None]], config: str = "") -> None:
    async def run() -> None:
        async with parts(folder, config) as here:
            await story(here, here.context())
            here.runtime.records.close()

    asyncio.run(run())


async def attempted(here: Parts, text: bytes) -> str:
    """A quest that printed something, and was looked at; its id."""
    quest = await here.add()
    claimed = await here.claim()
    directory = here.runtime.records.directory(quest, 1)
    files = output.create(directory, prompt=None, stdin_prompt=False, append=False)
    writing = index.Index(directory, claimed.run.started_at, (files.stdout, files.stderr))
    for byte in text:
        os.write(files.stdout, bytes([byte]))
        writing.observe(claimed.run.started_at)
    sealed = tuple(Sealed(name, str(directory / name), size) for name, size in (("stdout", len(text)), ("stderr", 0)))
    now, policy = here.runtime.clock.wall_ms(), here.runtime.config.policy
    await here.runtime.store.finish(
        Finish(claimed.fence, now, "ok", 0.5, policy, artifacts=(*sealed, *writing.close()))
    )
    files.close()
    return quest


async def one_page(ctx: Context, quest: str, **parameters: Any) -> FollowReply:
    """The answer without `more`."""
    found = [each async for each in following.follow(ctx, ME, Follow(id=quest, **parameters), False)]
    assert [last for _, last in found] == [True]
    return found[0][0]


@pytest.mark.parametrize("after", [None, "1.2", "1.10"])
def test_a_page_that_a_filter_empties_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str | None
) -> None:
    """Who asks without `more` would take it for the end of what there is."""
    monkeypatch.setattr(pages, "SCANNED", 3)

    async def story(here: Parts, ctx: Context) -> None:
        quest = await attempted(here, b"0123456789" * 10)
        found, position = [], after
        while True:
            page = await one_page(ctx, quest, streams=["stderr"], after=position)
            assert page.records
            found += [record.kind for record in page.records]
            position = page.records[-1].id
            if page.quest:
                break
        assert found == (["end"] if after else ["state", "end"])

    play(tmp_path, story)


def test_an_index_is_no_artifact_that_people_are_shown(tmp_path: Path) -> None:
    """It is kept for its deletion."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await attempted(here, b"x")
        assert [file.kind for file in await ctx.store.artifacts(quest)] == ["stderr", "stdout"]
        assert [(old.quest_id, old.attempt) for old in await ctx.store.old_records(2**60)] == [(quest, 1)]

    play(tmp_path, story)


def test_a_stream_that_is_given_up_leaves_no_watcher(tmp_path: Path) -> None:
    """Wherever it stands: while it waits, and while its reader takes its time."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await here.add()
        await here.claim()
        for turns in (1, 2):
            async with aclosing(following.records(ctx, quest, Position(1))) as stream:
                for _ in range(turns):
                    try:
                        async with asyncio.timeout(0.05 if turns == 2 else None):
                            reply, last = await anext(stream)
                    except TimeoutError:
                        break
                    assert (reply.state, last) == ("running", False)
                    assert ctx.records.has_readers(quest)
            assert not ctx.records.has_readers(quest)
            assert not here.changes._watchers

    play(tmp_path, story)


def test_nothing_but_a_position_is_kept_of_what_was_read(tmp_path: Path) -> None:
    """The stream of a reader that does not come back holds neither texts nor the quest."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await attempted(here, b"y" * 300)
        async with aclosing(following.follow(ctx, ME, Follow(id=quest), True)) as stream:
            reply, last = await anext(stream)
            assert (len(reply.records), last) == (pages.RECORDS_MAX, False)
            held = [each for each in gc.get_referrers(reply.records[0]) if each is not reply.records]
            assert [type(each) for each in held if isinstance(each, list | dict | tuple)] == []

    play(tmp_path, story)


def test_only_who_may_see_a_quest_may_follow_it(tmp_path: Path) -> None:
    """To anybody else it is not there."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await here.add(submitter_uid=77)
        for uid, sees in ((77, True), (78, False)):
            caller = Caller(uid, uid, 1, owner=False)
            try:
                found = [each async for each in following.follow(ctx, caller, Follow(id=quest), False)]
            except following.NotFound:
                found = []
            assert bool(found) is sees

    play(tmp_path, story)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO])
def test_an_index_that_cannot_be_opened_now_gives_no_record_another_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Who asks then is told to try again; nothing wrong is remembered."""
    real = os.open

    def short(path: Any, *arguments: Any, **more: Any) -> int:
        if Path(path).name == output.RECORDS:
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **more)

    async def story(here: Parts, ctx: Context) -> None:
        quest = await attempted(here, b"0123456789")
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", short)
            with pytest.raises(Unavailable, match=f"cannot be read: {os.strerror(number)}"):
                await one_page(ctx, quest)
        assert [record.number for record in (await one_page(ctx, quest)).records] == list(range(1, 13))

    play(tmp_path, story)


def test_very_many_attempts_whose_records_are_gone_fit_a_reply(tmp_path: Path) -> None:
    """The last of them are told one by one, a gap tells of those before."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await here.add()
        for _ in range(300):
            claimed = await here.claim()
            await here.runtime.store.finish(Finish(claimed.fence, 1, "released", 0.5, here.runtime.config.policy))
        found = (await one_page(ctx, quest)).records
        assert len(found) <= pages.RECORDS_MAX + 2
        told = next(record.attempt for record in found)
        assert (found[0].kind, found[0].data["reason"]) == ("gap", f"the records of the attempts up to {told} are gone")
        ends = [record.attempt for record in found if record.kind == "end"]
        assert ends == list(range(told + 1, 301))

    play(tmp_path, story)


def test_what_has_grown_is_read_once(tmp_path: Path) -> None:
    """A stream asks the disk when there is more, and not again to find nothing."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await here.add()
        claimed = await here.claim()
        directory, looks = ctx.records.directory(quest, 1), list[int]()
        files = output.create(directory, prompt=None, stdin_prompt=False, append=False)
        writing = index.Index(directory, claimed.run.started_at, (files.stdout, files.stderr))
        read = ctx.records.read

        async def counted(work: Callable[[], Any]) -> Any:
            looks.append(1)
            return await read(work)

        ctx.records.read = counted  # type: ignore[method-assign]
        replies = list[FollowReply]()

        async def reading() -> None:
            async for reply, _ in following.records(ctx, quest, Position(1)):
                replies.append(reply)

        task = here.runtime.tasks.create_task(reading())
        for turn in range(1, 6):
            while len(replies) < turn:  # noqa: ASYNC110  the reader's own event is not ours
                await asyncio.sleep(0)
            os.write(files.stdout, b"x")
            writing.observe(claimed.run.started_at)
            ctx.records.tell(quest)
        task.cancel()
        await asyncio.wait([task])
        assert sum(len(reply.records) for reply in replies) == 5
        assert len(looks) <= 6
        writing.close()
        files.close()

    play(tmp_path, story)


def test_the_last_replys_state_is_its_quests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though somebody retries it between the last record and that reply."""

    async def story(here: Parts, ctx: Context) -> None:
        quest = await attempted(here, b"x")
        real = following.reply

        async def moved_on(ctx: Context, quest: str) -> Any:
            answer = await real(ctx, quest)
            return msgspec.structs.replace(answer, quest=msgspec.structs.replace(answer.quest, state="queued"))

        monkeypatch.setattr(following, "reply", moved_on)
        page = await one_page(ctx, quest)
        assert page.quest
        assert (page.state, page.quest.state) == ("queued", "queued")

    play(tmp_path, story)


def test_an_attempt_that_is_asked_for_often_drives_no_other_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of an index is forgotten for another's sake only."""
    monkeypatch.setattr(records, "SURVEYED_MAX", 2)

    async def story(here: Parts, ctx: Context) -> None:
        quests = [await attempted(here, b"x") for _ in range(2)]
        for quest in (*quests, quests[1], quests[1]):
            await one_page(ctx, quest)
        assert all(ctx.records.surveyed(quest, 1) for quest in quests)

    play(tmp_path, story)
