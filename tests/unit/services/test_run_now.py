"""What a person runs: beside what the scheduler runs by itself, and without taking anything from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from questlined.services.scheduler import Scheduler
from questlined.store.protocol import Claimed, Pausing, Token
from questlined.store.rows import Quest, Run
from questlined.wire.errors import LimitReached, StoreFull, Unavailable, WrongState
from tests.integration.store.scene import small_disk, until
from tests.support.evidence import Fifo
from tests.support.parts import Parts, parts

OWNER = "daemon-1"


class Desk:
    """Parts with a serving scheduler. Quests tell their id when they run, and end when a line is put."""

    def __init__(self, made: Parts, started: Fifo, hold: Fifo) -> None:
        self.made, self.started, self.hold = made, started, hold
        self.scheduler = Scheduler(made.runtime, made.changes, OWNER)

    async def add(self, **fields: object) -> str:
        task = f'echo "$QUESTLINE_ID" >"{self.started.path}"; read x <"{self.hold.path}"'
        return await self.made.add(task, **fields)

    async def run(self, quest: str | None = None, *, attended: bool = True, token: Token | None = None) -> Claimed:
        project = None if quest else self.made.project.key
        claimed = await self.scheduler.run_now(quest, project, token, attended=attended)
        assert claimed
        return claimed

    async def begun(self) -> str:
        """The quest that runs next."""
        return await asyncio.to_thread(self.started.next)

    async def comes_to(self, quest: str, *states: str) -> Quest:
        """The quest when it is in one of these."""
        with self.made.changes.watching(quest) as changed:
            while (row := await self.row(quest)).state not in states:
                await changed.wait()
                changed.clear()
        return row

    async def rests(self, quest: str) -> Quest:
        """The quest when its attempt has ended."""
        return await self.comes_to(quest, "interrupted", "done")

    async def row(self, quest: str) -> Quest:
        found = await self.made.bench.store.quest(quest)
        assert found
        return found

    async def last_run(self, quest: str) -> Run:
        return (await self.made.bench.store.runs(quest, 0, 100))[-1]

    async def pause(self) -> None:
        await self.made.bench.store.pause(Pausing(None, True, "", 0))


@pytest.fixture
def fifos(tmp_path: Path) -> Iterator[tuple[Fifo, Fifo]]:
    started, hold = Fifo(tmp_path / "started"), Fifo(tmp_path / "hold")
    yield started, hold
    started.close()
    hold.close()


@asynccontextmanager
async def desk(folder: Path, fifos: tuple[Fifo, Fifo], config: str = "") -> AsyncIterator[Desk]:
    async with parts(folder, config) as made:
        opened = Desk(made, *fifos)
        await made.serve(opened.scheduler)
        yield opened


def test_it_runs_beyond_max_concurrent_and_gives_no_slot_away(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """Its end frees no slot that it never took; the slot's own end does."""

    async def run() -> None:
        async with desk(tmp_path, fifos, "scheduler.max_concurrent = 1\n") as at:
            first = await at.add()
            assert await at.begun() == first
            waits, quest = await at.add(priority=9), await at.add()
            claimed = await at.run(quest)
            assert (claimed.quest.id, await at.begun()) == (quest, quest)
            assert (at.scheduler.running, at.scheduler.in_slots) == (2, 1)
            at.scheduler.interrupt(quest, 1)
            assert (await at.rests(quest)).state == "interrupted"
            await at.made.turn(at.scheduler)
            assert (at.scheduler.running, await at.made.bench.state(waits)) == (1, "queued")
            at.hold.put()
            assert await at.begun() == waits
            assert at.scheduler.in_slots == 1
            at.hold.put()
            assert await at.begun() == quest
            at.hold.put()
            assert (await at.comes_to(quest, "done")).attempts == 2

    asyncio.run(run())


def test_a_paused_daemon_runs_what_a_person_wants(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """The best quest where none is named; and nothing else."""

    async def run() -> None:
        async with desk(tmp_path, fifos) as at:
            await at.pause()
            other, best = await at.add(), await at.add(priority=1)
            assert (await at.run()).quest.id == best
            assert await at.begun() == best
            at.hold.put()
            assert (await at.rests(best)).state == "done"
            assert await at.made.bench.state(other) == "queued"
            assert await at.scheduler.run_now(None, "/nowhere", None, attended=True) is None

    asyncio.run(run())


def test_so_many_run_beside_and_no_more(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """The refusal names the bound; when one has ended, there is room."""

    async def run() -> None:
        async with desk(tmp_path, fifos, "bounds.max_streams = 1\n") as at:
            await at.pause()
            one, other = await at.add(), await at.add()
            await at.run(one)
            with pytest.raises(LimitReached, match="1 quests are run beside") as caught:
                await at.run(other)
            assert caught.value.details["setting"] == "bounds.max_streams"
            assert await at.begun() == one
            at.hold.put()
            assert (await at.rests(one)).state == "done"
            await at.made.turn(at.scheduler)
            await at.run(other)
            assert await at.begun() == other
            at.hold.put()
            assert (await at.rests(other)).state == "done"

    asyncio.run(run())


def test_nothing_is_started_while_the_daemon_stops(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """What a person runs ends with the daemon like everything else."""

    async def run() -> None:
        async with desk(tmp_path, fifos) as at:
            await at.pause()
            running, other = await at.add(), await at.add()
            await at.run(running)
            assert await at.begun() == running
            await at.scheduler.stop()
            row, ended = await at.row(running), await at.last_run(running)
            assert (row.state, row.refunds, ended.error) == ("interrupted", 1, "the daemon was stopped")
            with pytest.raises(Unavailable, match="stopping"):
                await at.run(other)
            assert await at.made.bench.state(other) == "queued"

    asyncio.run(run())


def test_a_stop_waits_for_a_claim_that_is_under_way(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """And interrupts what it gives."""

    async def run() -> None:
        async with parts(tmp_path) as made:
            at = Desk(made, *fifos)  # which claims nothing by itself, for a stop to wait for
            quest = await at.add()
            running = asyncio.ensure_future(at.run(quest))
            while not at.scheduler._claims:  # noqa: ASYNC110  no event tells
                await asyncio.sleep(0)
            await at.scheduler.stop()
            assert (running.done(), at.scheduler.running) == (True, 0)
            assert (await at.row(quest)).state == "interrupted"

    asyncio.run(run())


def test_a_stop_waits_for_a_claim_that_was_only_asked_for(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """The call came in the same turn of the loop as the signal: its claim has not begun, and is not forgotten."""

    async def run() -> None:
        async with parts(tmp_path) as made:
            at = Desk(made, *fifos)
            quest = await at.add()
            running = asyncio.ensure_future(at.run(quest))
            await asyncio.sleep(0)
            await at.scheduler.stop()
            assert (running.done(), at.scheduler.running) == (True, 0)
            assert (await at.row(quest)).state == "interrupted"

    asyncio.run(run())


def test_nothing_is_started_while_the_disk_is_low(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    async def run(disk: Path) -> None:
        async with desk(disk, fifos, 'disk.min_free_bytes = "2MiB"\n') as at:
            await at.pause()
            quest = await at.add()
            (disk / "filler").write_bytes(b"x" * 6_500_000)
            at.scheduler._disk_checked_ms = None
            with pytest.raises(StoreFull) as caught:
                await at.run(quest)
            assert caught.value.details["setting"] == "disk.min_free_bytes"
            assert caught.value.hint
            assert await at.made.bench.state(quest) == "queued"

    with small_disk(tmp_path / "disk", 8000) as disk:
        asyncio.run(run(disk))


@pytest.mark.parametrize("attended", [True, False])
def test_a_caller_who_goes_before_the_claim_is_answered(
    tmp_path: Path, fifos: tuple[Fifo, Fifo], attended: bool
) -> None:
    """What was claimed for him is interrupted, or where he does not attend it runs on; a lease is never left alone."""

    async def run() -> None:
        async with desk(tmp_path, fifos) as at:
            await at.pause()
            quest = await at.add()
            running = asyncio.ensure_future(at.run(quest, attended=attended))
            await asyncio.sleep(0)
            assert at.scheduler.running == 0
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            if not attended:
                assert await at.begun() == quest
                at.hold.put()
            row, ended = await at.rests(quest), await at.last_run(quest)
            assert (row.state, ended.class_) == (("interrupted", "interrupted") if attended else ("done", "ok"))

    asyncio.run(run())


def test_a_client_that_went_away_interrupts_its_own_attempt_only(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """Uncharged, with the reason in its error, and claimable again; another attempt or quest is let alone."""

    async def run() -> None:
        async with desk(tmp_path, fifos) as at:
            await at.pause()
            quest = await at.add()
            claimed = await at.run(quest)
            assert await at.begun() == quest
            for other in ((quest, 2), ("q-000000000bad", 1)):
                at.scheduler.interrupt(*other)
            assert at.scheduler.running == 1
            at.scheduler.interrupt(quest, claimed.run.attempt)
            row, ended = await at.rests(quest), await at.last_run(quest)
            assert (row.state, row.attempts, row.refunds) == ("interrupted", 1, 1)
            assert (ended.class_, ended.error, ended.kill_reason) == (
                "interrupted",
                "the client that ran it went away",
                "client_gone",
            )
            second = await at.run(quest)
            assert await at.begun() == quest
            at.scheduler.interrupt(quest, 1)
            assert (second.run.attempt, at.scheduler.running) == (2, 1)
            at.hold.put()
            assert (await at.comes_to(quest, "done")).attempts == 2

    asyncio.run(run())


def test_a_repeated_call_starts_nothing_twice(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    async def run() -> None:
        async with desk(tmp_path, fifos) as at:
            await at.pause()
            quest, token = await at.add(), Token(0, "r", "b")
            first = await at.run(quest, token=token)
            assert await at.begun() == quest
            again = await at.run(quest, token=token)
            assert (again.fence, again.again, at.scheduler.running) == (first.fence, True, 1)
            at.hold.put()
            assert (await at.rests(quest)).attempts == 1

    asyncio.run(run())


def test_a_wish_and_the_schedulers_own_claim_do_not_both_win(tmp_path: Path, fifos: tuple[Fifo, Fifo]) -> None:
    """Twenty quests that a person wants the moment they are there: each runs once, whoever was first."""

    async def wanted(at: Desk, quest: str) -> bool:
        try:
            await at.run(quest)
        except WrongState:
            return False
        return True

    async def run() -> None:
        async with desk(tmp_path, fifos, "scheduler.max_concurrent = 20\n") as at:
            quests, won = [], []
            for _ in range(20):
                quest = await at.made.add("true")
                quests.append(quest)
                won.append(asyncio.ensure_future(wanted(at, quest)))
            await asyncio.gather(*won)
            rows = [await at.rests(quest) for quest in quests]
            assert {(row.state, row.attempts) for row in rows} == {("done", 1)}
            await until(lambda: at.scheduler.running == at.scheduler._taken == 0)
            assert at.scheduler.in_slots == 0

    asyncio.run(run())
