"""Attempts that are units, under a daemon that comes and goes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from questlined.attempts import output
from questlined.attempts.recovery import recover
from questlined.attempts.runner import Attempt
from questlined.procs import unit_record
from questlined.procs.units import Units
from tests.support.parts import Parts, parts
from tests.support.units import manager

UNIT = 'executor.isolation = "unit"\n'
GATED = "echo before; echo $$ >>pids; read go <gate; echo after"


def units(here: Parts, bus: str | None = None) -> Units:
    """The units of this store, on the manager that this user has."""
    return Units(here.runtime.store_uuid, bus or manager(), os.geteuid())


def directory(here: Parts, attempt: Attempt) -> Path:
    return output.directory_of(here.runtime.artifacts, attempt.claimed.quest.id, 1)


def test_a_unit_that_is_being_started_when_the_daemon_leaves_is_left_to_the_next_one(tmp_path: Path) -> None:
    manager()

    async def play() -> None:
        async with parts(tmp_path, UNIT) as here:
            here.runtime.units = first = units(here)
            gate = Path(here.project.path or "") / "gate"
            os.mkfifo(gate)
            quest = await here.add(GATED)
            attempt = Attempt(here.runtime, await here.claim("daemon-1"), lambda: None)
            running = here.runtime.tasks.create_task(attempt.run())
            while not unit_record.tried(directory(here, attempt)):  # noqa: ASYNC110  made by another thread
                await asyncio.sleep(0)
            attempt.leave()
            await running
            first.close()
            assert await here.bench.state(quest) == "running"

            here.runtime.units = second = units(here)
            found = await recover(here.runtime, "daemon-2", {})
            ((claimed, left),) = found.adopted
            assert claimed.run.owner_session == "daemon-2"
            resumed = here.runtime.tasks.create_task(Attempt(here.runtime, claimed, lambda: None).resume(left))
            await asyncio.to_thread(gate.write_text, "go\n")
            await resumed
            done = await here.runtime.store.quest(quest)
            assert done
            assert (done.state, done.result, done.attempts) == ("done", "before\nafter\n", 1)
            assert len((Path(here.project.path or "") / "pids").read_text().split()) == 1
            second.close()

    asyncio.run(play())


@pytest.mark.parametrize("bus", ["nothing", "no bus"])
def test_without_a_manager_a_quest_is_given_back_and_waits(tmp_path: Path, bus: str) -> None:
    (tmp_path / "no bus").write_text("")

    async def play() -> None:
        async with parts(tmp_path, UNIT) as here:
            here.runtime.units = none = units(here, str(tmp_path / bus))
            quest = await here.add("true")
            await Attempt(here.runtime, await here.claim(), lambda: None).run()
            waits = await here.runtime.store.quest(quest)
            assert waits
            assert (waits.state, waits.class_, waits.attempts - waits.refunds) == ("queued", "released", 0)
            assert waits.retry_at
            assert none.trouble
            assert str(tmp_path / bus) in none.trouble
            assert not (output.directory_of(here.runtime.artifacts, quest, 1) / "variables").exists()

    asyncio.run(play())
