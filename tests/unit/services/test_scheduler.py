"""The scheduler: what wakes it, what it starts, and what it leaves alone."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from questlined.clock import SystemClock
from questlined.services import scheduler as scheduler_module
from questlined.services.heartbeats import Heartbeats
from questlined.services.scheduler import Scheduler
from tests.integration.store.scene import small_disk, until
from tests.support.clock import ManualClock
from tests.support.evidence import Fifo
from tests.support.parts import Parts, parts

OWNER = "daemon-1"


async def ends(made: Parts, quest: str) -> str:
    """The state in which a quest comes to rest."""
    with made.changes.watching(quest) as changed:
        while (state := await made.bench.state(quest)) not in ("done", "failed", "cancelled"):
            await changed.wait()
            changed.clear()
    return state


def test_a_time_gate_opens_by_itself(tmp_path: Path) -> None:
    """Nothing else wakes the scheduler, be it one set before it began to wait, or an earlier one set later."""

    async def run() -> None:
        async with parts(tmp_path) as made:
            clock = SystemClock()
            first = await made.add(scheduled_at=clock.wall_ms() + 150)
            await made.serve(Scheduler(made.runtime, made.changes, OWNER))
            second = await made.add(scheduled_at=clock.wall_ms() + 50)
            far = await made.add(scheduled_at=clock.wall_ms() + 3_600_000)
            assert [await ends(made, quest) for quest in (second, first)] == ["done", "done"]
            assert await made.bench.state(far) == "queued"
            rows = [await made.bench.store.quest(quest) for quest in (first, second)]
            assert all(row and row.started_at and row.started_at >= row.scheduled_at for row in rows)

    asyncio.run(run())


def test_a_retry_waits_for_its_backoff_and_runs_by_itself(tmp_path: Path) -> None:
    async def run() -> None:
        async with parts(tmp_path, "backoff_jitter = 0\n") as made:
            await made.serve(Scheduler(made.runtime, made.changes, OWNER))
            quest = await made.add("exit 1", max_attempts=3, backoff_base_ms=20)
            assert await ends(made, quest) == "failed"
            runs = await made.bench.store.runs(quest, 0, 10)
            pauses = [b.started_at - (a.finished_at or 0) for a, b in pairwise(runs)]
            assert len(runs) == 3
            assert pauses[0] >= 20
            assert pauses[1] >= 40

    asyncio.run(run())


def test_a_gate_is_looked_at_again_when_told_to(tmp_path: Path) -> None:
    """The clock was moved while it slept: the safety net opens what is due."""

    async def run() -> None:
        clock = ManualClock()
        async with parts(tmp_path, "", clock) as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            quest = await made.add(scheduled_at=clock.wall_ms() + 3_600_000)
            await made.serve(scheduler)
            await made.turn(scheduler)
            assert await made.bench.state(quest) == "queued"
            clock.advance(3_600_000)
            scheduler.tick()
            assert await ends(made, quest) == "done"

    asyncio.run(run())


def test_claims_pause_below_the_least_free_space_and_go_on_above_it(tmp_path: Path) -> None:
    """The disk is looked at again at most once a second."""

    async def run(disk: Path) -> None:
        clock = ManualClock()
        async with parts(disk, 'disk.min_free_bytes = "2MiB"\n', clock) as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            filler = disk / "filler"
            filler.write_bytes(b"x" * 6_500_000)
            quest = await made.add()
            await made.serve(scheduler)
            assert scheduler.disk_low
            assert "disk.min_free_bytes" in scheduler.disk_low
            filler.unlink()
            await made.turn(scheduler)
            assert await made.bench.state(quest) == "queued"
            clock.advance(1000)
            await made.turn(scheduler)
            assert scheduler.disk_low is None
            assert await ends(made, quest) == "done"

    with small_disk(tmp_path / "disk", 8000) as disk:
        asyncio.run(run(disk))


def test_who_asks_is_told_how_the_disk_is_now(tmp_path: Path) -> None:
    """Not how it was when it was last looked at, within the same second; what was found counts for claims at once."""

    async def run(disk: Path) -> None:
        async with parts(disk, 'disk.min_free_bytes = "2MiB"\n', ManualClock()) as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            await made.serve(scheduler)
            assert scheduler.shortage() is None
            filler = disk / "filler"
            filler.write_bytes(b"x" * 6_500_000)
            assert "disk.min_free_bytes" in str(scheduler.shortage())
            quest = await made.add()
            await made.turn(scheduler)
            assert await made.bench.state(quest) == "queued"
            filler.unlink()
            assert scheduler.shortage() is None
            assert await ends(made, quest) == "done"

    with small_disk(tmp_path / "disk", 8000) as disk:
        asyncio.run(run(disk))


def test_space_that_is_free_again_is_found_without_being_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit and no end of an attempt wakes the scheduler then."""
    monkeypatch.setattr(scheduler_module, "DISK_AGAIN_S", 0.001)
    monkeypatch.setattr(scheduler_module, "DISK_CHECK_MS", 0)

    async def run(disk: Path) -> None:
        async with parts(disk, 'disk.min_free_bytes = "2MiB"\n') as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            filler = disk / "filler"
            filler.write_bytes(b"x" * 6_500_000)
            quest = await made.add()
            await made.serve(scheduler)
            assert scheduler.disk_low
            filler.unlink()
            assert await ends(made, quest) == "done"

    with small_disk(tmp_path / "disk", 8000) as disk:
        asyncio.run(run(disk))


def test_a_stop_before_the_spawn_starts_nothing(tmp_path: Path) -> None:
    """What was claimed is interrupted, uncharged, and nothing more is claimed."""

    async def run() -> None:
        async with parts(tmp_path) as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            quest = await made.add(f"echo >{tmp_path}/ran")
            made.serving.append(made.runtime.tasks.create_task(scheduler.run(lambda: None)))
            await until(lambda: bool(scheduler.running))
            await scheduler.stop()
            await made.add()
            row = await made.bench.store.quest(quest)
            assert row
            assert (row.state, row.attempts, row.refunds) == ("interrupted", 1, 1)
            assert (await made.bench.store.counts(None))["running"] == 0
            assert not (tmp_path / "ran").exists()

    asyncio.run(run())


def test_a_program_that_has_ended_keeps_its_end(tmp_path: Path) -> None:
    """A stop that comes while its outcome is being written interrupts nothing."""

    async def run() -> None:
        async with parts(tmp_path) as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            quest = await made.add("true")
            await made.serve(scheduler)
            await until(lambda: bool(scheduler.running))
            attempt = next(iter(scheduler._attempts.values()))
            await until(lambda: attempt._execution is not None)
            assert attempt._execution
            await attempt._execution.exited.wait()
            await scheduler.stop()
            assert await made.bench.state(quest) == "done"

    asyncio.run(run())


def test_heartbeats_extend_what_runs_and_only_that(tmp_path: Path) -> None:
    """And sleep while nothing does."""

    async def run() -> None:
        clock, running = ManualClock(), 0
        async with parts(tmp_path, "", clock) as made:
            heartbeats = Heartbeats(made.runtime, OWNER, lambda: running)
            await made.serve(heartbeats)
            quest = await made.add()
            await made.claim(OWNER)
            row = await made.bench.store.quest(quest)
            assert row
            clock.advance(30_000)
            await made.turn(heartbeats)
            assert await made.bench.store.quest(quest) == row
            running = 1
            heartbeats.busy()
            await made.turn(heartbeats)
            extended = await made.bench.store.quest(quest)
            assert extended
            assert extended.heartbeat_at == clock.wall_ms()
            assert extended.lease_expires_at == clock.wall_ms() + made.runtime.config.lease_ttl_ms

    asyncio.run(run())


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_run_than_max_concurrent(tmp_path: Path, limit: int) -> None:
    """Best first: by priority, then by age."""

    async def run() -> None:
        hold, started = Fifo(tmp_path / "hold"), Fifo(tmp_path / "started")
        async with parts(tmp_path, f"scheduler.max_concurrent = {limit}\n") as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            task = f'echo "$QUESTLINE_ID" >"{started.path}"; read x <"{hold.path}"'
            quests = [await made.add(task, priority=number // 4) for number in range(8)]
            await made.serve(scheduler)
            begun = []
            for number in range(8):
                begun.append(await asyncio.to_thread(started.next))
                assert scheduler.running <= limit
                if number >= limit - 1:
                    hold.put()
            hold.put(limit)
            assert [await ends(made, quest) for quest in quests] == ["done"] * 8
            assert set(begun[:4]) == set(quests[4:])
            if limit == 1:
                assert begun == quests[4:] + quests[:4]
        hold.close()
        started.close()

    asyncio.run(run())


@pytest.mark.parametrize("step", [86_400_000, -86_400_000])
def test_a_step_of_the_wall_clock_does_no_harm_to_timeouts(tmp_path: Path, step: int) -> None:
    """One that is far off does not strike, one that is near strikes in time."""

    async def run() -> None:
        clock, started, hold = ManualClock(), Fifo(tmp_path / "started"), Fifo(tmp_path / "hold")
        async with parts(tmp_path, "scheduler.max_concurrent = 2\n", clock) as made:
            scheduler = Scheduler(made.runtime, made.changes, OWNER)
            task = f'echo up >"{started.path}"; read x <"{hold.path}"'
            patient = await made.add(task, timeout_ms=3_600_000)
            await made.serve(scheduler)
            assert await asyncio.to_thread(started.next) == "up"
            hasty = await made.add(f'echo up >"{started.path}"; sleep 1000', timeout_ms=300)
            assert await asyncio.to_thread(started.next) == "up"
            clock.step(step)
            await made.turn(scheduler)
            assert await ends(made, hasty) == "failed"
            assert [run.class_ for run in await made.bench.store.runs(hasty, 0, 10)] == ["timeout"]
            assert await made.bench.state(patient) == "running"
            hold.put()
            assert await ends(made, patient) == "done"
        hold.close()
        started.close()

    asyncio.run(run())
