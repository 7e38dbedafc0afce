"""A program that is let go of runs on, and who adopts it sees it to its end."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from questlined.attempts import recovery
from questlined.attempts.execution import Execution, Left, Units
from questlined.attempts.recovery import ask_again, recover
from questlined.attempts.runner import Attempt
from questlined.clock import SystemClock
from questlined.store.protocol import Claimed, Reclaim, Sealed
from questlined.store.rows import OpenRun
from questlined.wire.errors import Unavailable
from tests.support.parts import Parts, parts

GATE = "echo before; echo $$ >> pids; read go < gate; echo after"
FILE = 'executor.output = "file"\n'


class Later(SystemClock):
    """The kernel's clocks, so many milliseconds after boot later."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def boot_ms(self) -> int:
        return super().boot_ms() + self._by_ms


async def _let_go(here: Parts) -> tuple[Attempt, Left]:
    """An attempt that has written its first line, left by a first daemon."""
    os.mkfifo(Path(here.project.path or "") / "gate")
    await here.add(GATE)
    attempt = Attempt(here.runtime, await here.claim("daemon-1"), lambda: None)
    running = here.runtime.tasks.create_task(attempt.run())
    while not (attempt.runs and attempt.last_output_at):  # noqa: ASYNC110  no event tells of the first output
        await asyncio.sleep(0)
    attempt.let_go()
    await running
    assert attempt.left is not None
    attempt.left.execution.exited.clear()  # as the same child is for a family that comes to it anew
    return attempt, attempt.left


class OneUnit:
    """A manager that knows one attempt's program."""

    def __init__(self, quest: str, execution: Execution) -> None:
        self._quest, self._execution = quest, execution

    async def find(self, run: OpenRun, marker: str, directory: Path) -> Execution | None:
        return self._execution if run.quest_id == self._quest else None


async def _adopted(here: Parts, attempt: Attempt, left: Left) -> tuple[Claimed, Left]:
    """It goes on with the next daemon, which it was handed to."""
    quest = attempt.claimed.quest
    (adopted,) = (await recover(here.runtime, "daemon-2", {(quest.id, quest.lease_gen): left})).adopted
    return adopted


async def _open_gate(here: Parts) -> None:
    await asyncio.to_thread((Path(here.project.path or "") / "gate").write_text, "go\n")


def test_who_adopts_an_attempt_sees_it_to_its_end_and_it_runs_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            assert await here.bench.state(quest.id) == "running"
            found = await recover(here.runtime, "daemon-2", {(quest.id, quest.lease_gen): left})
            assert found.ended == []
            ((claimed, same),) = found.adopted
            assert (claimed.run.owner_session, claimed.quest.lease_gen, same) == ("daemon-2", quest.lease_gen, left)
            resumed = here.runtime.tasks.create_task(Attempt(here.runtime, claimed, lambda: None).resume(same))
            await _open_gate(here)
            await resumed
            done = await here.runtime.store.quest(quest.id)
            assert done
            assert (done.state, done.result, done.attempts) == ("done", "before\nafter\n", 1)
            assert len((tmp_path / "project" / "pids").read_text().split()) == 1

    asyncio.run(play())


def test_time_that_has_passed_before_the_adoption_counts(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            claimed, same = await _adopted(here, attempt, left)
            passed = dataclasses.replace(claimed, quest=dataclasses.replace(claimed.quest, timeout_ms=60_000))
            trace = same.execution.trace
            begun = round(here.runtime.clock.boot_ms() - trace.started * 1000 / os.sysconf("SC_CLK_TCK"))
            assert 0 <= begun < 60_000
            here.runtime.clock = Later(60_000)
            await Attempt(here.runtime, passed, lambda: None).resume(same)
            run = await here.runtime.store.run(quest.id, 1)
            assert run
            assert run.class_ == "timeout"

    asyncio.run(play())


def test_silence_before_the_adoption_counts(tmp_path: Path) -> None:
    """As long as its last output is old, by its file."""

    async def play() -> None:
        async with parts(tmp_path, FILE + 'executor.idle_timeout = "60s"\n') as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            claimed, same = await _adopted(here, attempt, left)
            assert left.files
            written_s = here.runtime.clock.wall_ms() / 1000 - 61
            for descriptor in (left.files.stdout, left.files.stderr):
                os.utime(descriptor, (written_s, written_s))
            adopted = Attempt(here.runtime, claimed, lambda: None)
            await adopted.resume(same)
            run = await here.runtime.store.run(quest.id, 1)
            assert run
            assert run.class_ == "idle"
            assert adopted.last_output_at is not None
            assert abs(adopted.last_output_at - written_s * 1000) < 2

    asyncio.run(play())


def test_what_of_its_output_was_lost_is_known_to_who_adopts_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            claimed, _ = await _adopted(here, attempt, left)
            known = dataclasses.replace(left, unkept=OSError("[Errno 28] No space left on device"))
            resumed = here.runtime.tasks.create_task(Attempt(here.runtime, claimed, lambda: None).resume(known))
            await _open_gate(here)
            await resumed
            run = await here.runtime.store.run(quest.id, 1)
            assert run
            assert run.class_ == "interrupted"
            assert run.error == "its output could not be kept: [Errno 28] No space left on device"

    asyncio.run(play())


def test_a_cancel_that_an_earlier_daemon_did_not_carry_out_is_carried_out(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            await here.runtime.store.cancel(here.bench.steer(quest.id))
            claimed, same = await _adopted(here, attempt, left)
            await Attempt(here.runtime, claimed, lambda: None).resume(same)
            assert await here.bench.state(quest.id) == "cancelled"

    asyncio.run(play())


def test_what_writes_where_nobody_may_read_is_ended_and_its_quest_runs_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            assert left.files
            left.files.close()
            (left.files.directory / "stdout").unlink()
            (left.files.directory / "stdout").symlink_to("/etc/passwd")
            claimed, same = await _adopted(here, attempt, Left(left.execution))
            await Attempt(here.runtime, claimed, lambda: None).resume(same)
            run = await here.runtime.store.run(quest.id, 1)
            assert run
            assert run.class_ == "interrupted"
            assert run.error
            assert "its output cannot be read" in run.error
            assert await here.bench.state(quest.id) == "interrupted"

    asyncio.run(play())


def test_why_an_earlier_daemon_stopped_it_counts_though_it_has_ended_meanwhile(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            os.kill(left.execution.trace.pid, signal.SIGTERM)
            os.waitid(os.P_PID, left.execution.trace.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222  at once
            left.execution.exited.set()
            claimed, _ = await _adopted(here, attempt, left)
            asked = dataclasses.replace(left, stopped="timeout")
            await Attempt(here.runtime, claimed, lambda: None).resume(asked)
            run = await here.runtime.store.run(quest.id, 1)
            assert run
            assert (run.class_, run.exit_signal) == ("timeout", signal.SIGTERM)

    asyncio.run(play())


def test_what_nobody_hands_over_is_ended_and_settled(tmp_path: Path) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            found = await recover(here.runtime, "daemon-2", {})
            assert (found.adopted, found.ended) == ([], [attempt.claimed.quest.id])
            await left.execution.sweep(keep=False)
            assert (await left.execution.reap()).signal == 9
            assert await here.bench.state(attempt.claimed.quest.id) == "interrupted"
            assert left.files
            left.files.close()

    asyncio.run(play())


def test_a_store_that_is_away_for_a_moment_costs_no_second_adoption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with parts(tmp_path, FILE) as here:
            attempt, left = await _let_go(here)
            quest = attempt.claimed.quest
            lost = await here.add()
            await here.claim("daemon-1")
            settle, refused = here.runtime.store.recover, []

            async def away_once(reclaim: Reclaim, sealed: Mapping[tuple[str, int], tuple[Sealed, ...]]) -> list[str]:
                if not refused:
                    refused.append(True)
                    raise Unavailable("another program holds the database")
                return await settle(reclaim, sealed)

            monkeypatch.setattr(here.runtime.store, "recover", away_once)
            monkeypatch.setattr(recovery, "AGAIN_S", 0)
            here.runtime.units = cast(Units, OneUnit(quest.id, left.execution))
            adopted: list[Claimed] = []
            unknown = await here.runtime.store.open_runs()
            await ask_again(here.runtime, "daemon-2", unknown, lambda claimed, _: adopted.append(claimed))
            assert refused
            assert [claimed.quest.id for claimed in adopted] == [quest.id]
            assert await here.bench.state(lost) == "interrupted"
            here.runtime.units = None
            resumed = Attempt(here.runtime, adopted[0], lambda: None).resume(left)
            await asyncio.gather(_open_gate(here), resumed)

    asyncio.run(play())
