"""Transient units on the manager that this user has: found again, told apart, and ended whatever comes between."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from questlined.procs import unit_order, unit_record
from questlined.procs.child import Exit
from questlined.procs.unit import Unit
from questlined.procs.units import Unfit, Units
from questlined.store.rows import OpenRun
from questlined.wire.errors import Unavailable
from tests.conformance.executors import STORE, Stage, Started, alive, opened
from tests.support.units import AsUnits, manager

GATED = 'echo $$ >"$TELL"; read go <go; exit 7'
Scene = Callable[[Stage], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scene], None]:
    """Plays a scene on a stage where programs are units."""

    def run(scene: Scene) -> None:
        async def main() -> None:
            async with opened("unit", tmp_path) as stage:
                os.mkfifo(tmp_path / "go")
                await scene(stage)

        asyncio.run(main())

    return run


def units(stage: Stage) -> Units:
    assert isinstance(stage.way, AsUnits)
    return stage.way.units


def unit_of(started: Started) -> Unit:
    assert isinstance(started.execution, Unit)
    return started.execution


def open_run(unit: Unit, *, recorded: bool = True) -> OpenRun:
    """The attempt as the store knows it, `recorded` or only claimed."""
    quest, _, generation = unit.name.removeprefix("questline-attempt-").removesuffix(".service").rpartition("-")
    known = (unit.pid, unit.started, None, unit.cgroup, unit.name) if recorded else (None, None, None, None, None)
    return OpenRun(quest, 1, int(generation), "daemon-1", *known)


def marker(unit: Unit) -> str:
    return f"{STORE}:{open_run(unit).quest_id}:1"


def directory(stage: Stage, unit: Unit) -> Path:
    return stage.folder / unit.name.removeprefix("questline-attempt-").removesuffix(".service")


async def find(by: Units, stage: Stage, unit: Unit, *, recorded: bool = True) -> Unit | None:
    return await by.find(open_run(unit, recorded=recorded), marker(unit), directory(stage, unit))


async def ended(unit: Unit) -> Exit:
    await unit.exited.wait()
    await unit.sweep()
    return await unit.reap()


def systemctl(*arguments: str) -> str:
    whose = [] if os.geteuid() == 0 else ["--user"]
    return subprocess.run(["systemctl", *whose, *arguments], check=True, capture_output=True, text=True).stdout


def loaded(unit: Unit) -> bool:
    """Whether systemd keeps it. It forgets a unit when it has nothing else to do."""
    for _ in range(100):
        if "LoadState=not-found" in systemctl("show", "--property=LoadState", unit.name):
            return False
    print(systemctl("show", unit.name))
    return True


def test_a_unit_of_a_name_that_is_taken_is_refused_and_the_first_runs_on(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        started = await stage.sh(GATED)
        pid = stage.told.pid()
        stage._count -= 1  # the same quest once more
        with pytest.raises(Unavailable, match="already"):
            await stage.sh("exit 0")
        assert alive(pid)
        (stage.folder / "go").write_text("\n")
        assert (await stage.end(started)).code == 7

    play(scene)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_later_daemon_finds_a_unit_that_runs(play: Callable[[Scene], None], recorded: bool) -> None:
    async def scene(stage: Stage) -> None:
        first = unit_of(await stage.sh(GATED))
        pid = stage.told.pid()
        first.let_go()
        units(stage).close()
        later = Units(STORE, manager(), os.geteuid())
        found = await find(later, stage, first, recorded=recorded)
        assert found is not None
        assert found.trace == first.trace
        assert found.pid == pid
        (stage.folder / "go").write_text("\n")
        assert (await ended(found)).code == 7
        assert not loaded(found)
        later.close()

    play(scene)


@pytest.mark.parametrize(("line", "code", "by"), [("exit 0", 0, None), ("exit 9", 9, None), ("kill -9 $$", None, 9)])
def test_a_later_daemon_learns_how_a_unit_ended_meanwhile(
    play: Callable[[Scene], None], line: str, code: int | None, by: int | None
) -> None:
    async def scene(stage: Stage) -> None:
        first = unit_of(await stage.sh(f'read go <go; echo $$ >"$TELL"; {line}'))
        first.let_go()
        units(stage).close()
        (stage.folder / "go").write_text("\n")
        pid = stage.told.pid()
        systemctl("daemon-reload")
        await _until_recorded(directory(stage, first))
        found = await find(units(stage), stage, first)
        assert found is not None
        assert found.exited.is_set()
        ends = await ended(found)
        assert (ends.code, ends.signal, ends.timed_out) == (code, by, False)
        assert not alive(pid)
        assert not loaded(found)

    play(scene)


async def _until_recorded(directory: Path) -> None:
    while unit_record.read(directory) is None:  # noqa: ASYNC110  written by another program
        await asyncio.sleep(0)


def test_a_manager_that_executes_itself_anew_loses_no_unit(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        unit = unit_of(await stage.sh(GATED))
        stage.told.pid()
        systemctl("daemon-reexec")
        other = await stage.sh("exit 3")
        assert (await stage.end(other)).code == 3
        (stage.folder / "go").write_text("\n")
        assert (await ended(unit)).code == 7
        assert not loaded(unit)

    play(scene)


def test_a_unit_that_was_staged_and_never_started_is_lost(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        unit = unit_of(await stage.sh("exit 0"))
        await ended(unit)
        unit_record.prepare(directory(stage, unit))
        assert await find(units(stage), stage, unit, recorded=False) is None

    play(scene)


def test_how_it_ended_is_known_where_no_record_could_be_written(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        unit = unit_of(await stage.sh(GATED))
        stage.told.pid()
        directory(stage, unit).rename(stage.folder / "elsewhere")
        (stage.folder / "go").write_text("\n")
        assert (await ended(unit)).code == 7
        assert not loaded(unit)

    play(scene)


def test_only_strays_of_this_store_are_stopped(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        current = unit_of(await stage.sh(GATED))
        stray = unit_of(await stage.sh(f"trap '' TERM; {GATED}"))
        pids = [stage.told.pid(), stage.told.pid()]
        assert await units(stage).stop_strays({marker(current), marker(stray)}) == []
        other = Units("99999999-9999-9999-9999-999999999999", manager(), os.geteuid())
        assert await other.stop_strays(set()) == []
        other.close()
        assert all(alive(pid) for pid in pids)
        mine = Units(STORE, manager(), os.geteuid())
        assert stray.name in await mine.stop_strays({marker(current)})
        mine.close()
        assert alive(current.pid)
        assert not alive(stray.pid)

    play(scene)


def test_while_the_slice_is_being_stopped_no_unit_can_be_had_yet(play: Callable[[Scene], None]) -> None:
    """As at a shutdown: that says nothing about the quest."""

    async def scene(stage: Stage) -> None:
        deaf = await stage.sh(f"trap '' TERM; {GATED}")
        stage.told.pid()
        systemctl("stop", "--no-block", "questline.slice")
        with pytest.raises(Unavailable, match="destructive"):
            await stage.sh("exit 0")
        await stage.kill(deaf)
        systemctl("stop", "questline.slice")  # until it is
        assert (await stage.end(await stage.sh("exit 0"))).code == 0

    play(scene)


def test_a_directory_that_cannot_be_entered_is_named(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        gone = stage.folder / "gone"
        with pytest.raises(FileNotFoundError) as raised:
            await stage.sh("exit 0", cwd=gone)
        assert raised.value.filename == str(gone)
        assert "questline-attempt-q-" not in systemctl("list-units", "--all", f"questline-attempt-q-{os.getpid()}x*")

    play(scene)


@pytest.mark.parametrize("code", [200, 203, 226])
def test_a_status_of_systemds_own_can_be_the_programs(play: Callable[[Scene], None], code: int) -> None:
    """One that ends at once is told by systemd as one that did not start."""

    async def scene(stage: Stage) -> None:
        for _ in range(10):
            assert (await stage.end(await stage.sh(f"exit {code}"))).code == code

    play(scene)


def test_what_no_unit_can_be_given_is_said(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(Unfit, match="variable ODD holds a control character"):
            await stage.sh("exit 0", env={"ODD": "a\x1bb"})
        with pytest.raises(Unfit, match="900000 bytes together"):
            await stage.run("/bin/true", *["x" * 100_000] * 10)

    play(scene)


def test_a_command_near_the_bound_is_still_a_unit_after_a_reload(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        words = ["\n" * 50_000] * 8 + ["é" * 50_000]
        unit = unit_of(await stage.run("/bin/sh", "-c", f'printf %s "$9" | wc -c; {GATED}', *words))
        stage.told.pid()
        systemctl("daemon-reload")
        unit.let_go()
        found = await find(units(stage), stage, unit)
        assert found is not None
        (stage.folder / "go").write_text("\n")
        assert (await ended(found)).code == 7

    play(scene)


def test_a_unit_is_ended_and_its_end_known_without_a_bus(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        started = await stage.sh(f"trap 'exit 8' TERM; setsid sh -c 'trap \"\" TERM; {GATED}' & wait")
        unit, deaf = unit_of(started), stage.told.pid()
        systemd = units(stage)._systemd
        systemd.close()
        there, systemd.address = systemd.address, str(stage.folder / "no bus")
        await unit.take_down(30)
        await unit.exited.wait()
        await unit.sweep()
        assert not alive(deaf)
        await _until_recorded(directory(stage, unit))
        assert (await unit.reap()).code == 8
        systemd.address = there

    play(scene)


def test_without_a_manager_nothing_is_started_and_the_remedy_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        none = Units(STORE, str(tmp_path / "bus"), 1000)
        order = unit_order.Order("questline-attempt-q-1-1.service", f"{STORE}:q-1:1", _command(), tmp_path, 5)
        with pytest.raises(Unavailable, match="no unit can be had from systemd") as raised:
            await none.start(order)
        assert "loginctl enable-linger" in raised.value.hint
        assert none.trouble
        run = OpenRun("q-1", 1, 1, "daemon-1", None, None, None, None, None)
        assert await none.find(run, f"{STORE}:q-1:1", tmp_path) is None
        assert await none.stop_strays(set()) == []

    asyncio.run(main())


def _command() -> unit_order.Command:
    return unit_order.Command(("/bin/true",), "/", {}, 0, 1, 2)


def test_a_signal_before_its_first_word_is_its_end(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(5):
            ends = await stage.end(await stage.sh("kill -TERM $$"))
            assert ends.signal == signal.SIGTERM

    play(scene)


def test_that_strays_cannot_be_looked_for_is_no_trouble_of_anybodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health would tell of it until some unit is started, and perhaps none ever is."""
    monkeypatch.setattr(Units, "_is_there", lambda _: True)

    async def main() -> None:
        none = Units(STORE, str(tmp_path / "bus"), 1000)
        with pytest.raises(Unavailable, match="no unit can be had from systemd"):
            await none.stop_strays(set())
        assert none.trouble is None

    asyncio.run(main())
