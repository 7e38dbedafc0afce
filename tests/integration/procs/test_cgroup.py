"""A cgroup for each child: where it is, what it takes with it, and what becomes of it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import select
import signal
import sys
from pathlib import Path

import pytest

from questlined.procs import cgroup, libc
from questlined.procs.cgroup import Cgroups
from questlined.procs.spawn import OPEN_FILES, Command, launch
from tests.integration.procs.groups import grouped, until_gone
from tests.integration.procs.scene import PATIENCE_S, Scene, alive, open_descriptors, scene

SLEEP = "echo $$; exec sleep 1000"
UNTIED = f"env -i setsid sh -c '{SLEEP}' &"


def test_a_program_is_in_its_own_group_from_its_first_step_and_we_are_apart(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            assert cgroup.path_of(os.getpid()) == f"{cgroups.path}/supervisor"
            for number in range(20):
                child = here.spawn(
                    "read line </proc/self/cgroup; exec tail -n 1 /proc/self/cgroup", group=f"q-1-{number}"
                )
                assert here.lines.next() == f"0::{cgroups.path}/attempts/q-1-{number}"
                assert child.cgroup == f"{cgroups.directory}/attempts/q-1-{number}"
                await here.finish(child)
            assert cgroups.groups() == []

    asyncio.run(play())


def test_a_child_without_a_name_has_no_group(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn("exec tail -n 1 /proc/self/cgroup")
            assert here.lines.next() == f"0::{cgroups.path}/supervisor"
            assert child.cgroup is None
            await here.finish(child)

    asyncio.run(play())


@pytest.mark.parametrize("isolated", [True, False], ids=["cgroup", "group"])
def test_a_program_may_be_killed_for_memory_first_and_has_the_usual_number_of_files(
    isolated: bool, request: pytest.FixtureRequest
) -> None:
    cgroups = request.getfixturevalue("cgroups") if isolated else None
    own = int(Path("/proc/self/oom_score_adj").read_text())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= OPEN_FILES:
        pytest.skip("the limit of descriptors cannot be raised")

    async def play() -> None:
        async with scene(cgroups=cgroups) as here:
            source, sink = os.pipe()
            child = here.spawn(
                "read line; cat /proc/self/oom_score_adj; ulimit -Sn; ulimit -Hn", stdin=source, group="q-1-1"
            )
            os.write(sink, b"go\n")
            assert [here.lines.next() for _ in range(3)] == [str(max(200, own)), str(OPEN_FILES), str(hard)]
            await here.finish(child)
            os.close(source)
            os.close(sink)

    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        asyncio.run(play())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_groups_that_a_program_made_go_with_its_own(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            nest = f"mkdir -p $G/a/b $G/c; sh -c 'echo 0 >$G/a/b/cgroup.procs; {SLEEP}' & read line"
            source, sink = os.pipe()
            child = here.spawn(nest, G=f"{cgroups.directory}/attempts/q-1-1", stdin=source, group="q-1-1")
            os.close(source)
            inner = here.lines.pid()
            assert cgroup.path_of(inner) == f"{cgroups.path}/attempts/q-1-1/a/b"
            assert cgroups.holding(inner) == child.cgroup
            os.close(sink)
            killed, _ = await here.finish(child)
            assert killed == [inner]
            assert cgroups.groups() == []

    asyncio.run(play())


def test_all_that_was_killed_is_named_at_any_depth(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn("setsid sh -c 'echo $$; setsid sh -c \"$SLEEP\" & wait' &", SLEEP=SLEEP, group="q-1-1")
            left = {here.lines.pid(), here.lines.pid()}
            killed, _ = await here.finish(child)
            assert set(killed) >= left

    asyncio.run(play())


def test_the_ladder_kills_a_group_in_one_step(cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what it cannot see one by one."""

    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn(f"({UNTIED}); exec sleep 1000", group="q-1-1")
            pid = here.lines.pid()
            left = os.pidfd_open(pid)
            with monkeypatch.context() as patch:
                patch.setattr(cgroup, "pids", lambda group: [])
                patch.setattr(here.family._reaper, "orphans", lambda: [])
                await here.family.take_down(child, 0, at_once=True)
                assert select.select([left], [], [], PATIENCE_S)[0]
            os.close(left)
            await here.finish(child)

    asyncio.run(play())


def test_what_is_kept_keeps_its_group_until_it_ends_by_itself(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            keeper = here.spawn(UNTIED, group="q-1-1")
            kept = here.lines.pid()
            assert await here.family.sweep(keeper, keep=True) == []
            assert here.family.reap(keeper).code == 0
            killed, _ = await here.finish(here.spawn("exit 0", "store:q-2:1", group="q-2-1"))
            assert killed == []
            assert alive(kept)
            assert [os.path.basename(group) for group in cgroups.groups()] == ["q-1-1"]
            os.kill(kept, signal.SIGKILL)
            await until_gone(cgroups, f"{cgroups.directory}/attempts/q-1-1")

    asyncio.run(play())


def test_what_lives_out_of_sight_is_killed_and_its_end_waited_for(
    cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As are the processes of a PID namespace that is not ours, and those that are just ending."""

    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn(f"setsid sh -c '{SLEEP}' &", group="q-1-1")
            left = here.lines.pid()
            monkeypatch.setattr(cgroup, "pids", lambda group: [])
            monkeypatch.setattr(here.family._reaper, "orphans", lambda: [])
            killed, ended = await here.finish(child)
            assert (killed, ended.code) == ([], 0)
            assert not alive(left)
            assert cgroups.groups() == []

    asyncio.run(play())


@pytest.mark.parametrize("scarce", [(libc, "inotify_open"), (os, "pidfd_open")], ids=["inotify", "pidfd"])
def test_without_free_descriptors_all_of_a_group_ends_nevertheless(
    cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch, scarce: tuple[object, str]
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn(UNTIED, group="q-1-1")
            left = here.lines.pid()
            monkeypatch.setattr(*scarce, refuse)
            await here.finish(child)
            assert not alive(left)
            monkeypatch.undo()

    asyncio.run(play())


def test_a_child_is_reaped_without_a_free_descriptor(cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit is known, only the figures of its group are not."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn("exit 127", group="q-1-1")
            await here.family.sweep(child)
            with monkeypatch.context() as patch:
                patch.setattr(os, "open", refuse)
                ended = here.family.reap(child)
            assert (ended.code, ended.not_executed, ended.oom) == (127, False, False)
            assert cgroups.groups() == []

    asyncio.run(play())


def test_a_group_that_cannot_be_made_costs_nothing_but_a_warning(
    cgroups: Cgroups, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            cgroup._write(f"{cgroups.directory}/attempts/cgroup.max.descendants", "0")
            child = here.spawn(f"setsid sh -c '{SLEEP}' & exit 3", group="q-1-1")
            left = here.lines.pid()
            assert child.cgroup is None
            killed, ended = await here.finish(child)
            assert (killed, ended.code) == ([left], 3)

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    assert [record.getMessage() for record in caplog.records] == [
        "q-1-1 gets no cgroup: Resource temporarily unavailable, ignoring"
    ]


def test_a_program_that_may_not_enter_its_group_runs_without_a_word(tmp_path: Path) -> None:
    words = tmp_path / "words"
    null = os.open(os.devnull, os.O_RDWR)
    said = os.open(words, os.O_WRONLY | os.O_CREAT)
    command = Command(("/bin/sh", "-c", "exit 3"), "/", {}, null, said, said)
    assert launch(command, str(tmp_path / "no group")).wait() == 3
    assert words.read_bytes() == b""
    os.close(said)
    os.close(null)


def test_a_spawn_that_fails_leaves_no_group(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            with pytest.raises(FileNotFoundError):
                here.family.spawn(Command(("true",), "/no/such/place", {}, 0, 1, 2), "store:q:1", "q-1-1")
            assert cgroups.groups() == []

    asyncio.run(play())


def freeze(group: str | None) -> None:
    cgroup._write(f"{group}/cgroup.freeze", "1")
    while "frozen 1" not in Path(f"{group}/cgroup.events").read_text():
        pass


def test_a_frozen_group_is_killed_like_any_other(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            child = here.spawn(f"{UNTIED} exec sleep 1000", group="q-1-1")
            left = here.lines.pid()
            freeze(child.cgroup)
            await here.family.take_down(child, 0, at_once=True)
            assert (await here.finish(child))[1].signal == signal.SIGKILL
            assert not alive(left)
            swept = here.spawn(f"setsid sh -c '{SLEEP}' & echo $$; read line", group="q-2-1")
            pids = {here.lines.pid(), here.lines.pid()} - {swept.pid}
            freeze(swept.cgroup)
            os.kill(swept.pid, signal.SIGKILL)
            killed, _ = await here.finish(swept)
            assert set(killed) == pids

    asyncio.run(play())


def test_who_cannot_enter_its_group_ends_with_all_of_it_and_has_figures_of_its_own(cgroups: Cgroups) -> None:
    async def play() -> None:
        async with grouped(cgroups) as here:
            # Its neighbours take no processes then.
            cgroup._write(f"{cgroups.make('q-threaded-1')}/cgroup.type", "threaded")
            busy = "import time\nwhile time.process_time() < 0.2: pass"
            child = here.spawn(
                f'setsid sh -c \'{SLEEP}\' & "$PYTHON" -Sc "$BUSY"; exit 3',
                group="q-1-1",
                PYTHON=sys.executable,
                BUSY=busy,
            )
            left = here.lines.pid()
            assert cgroup.path_of(left) == f"{cgroups.path}/supervisor"
            killed, ended = await here.finish(child)
            assert (killed, ended.code) == ([left], 3)
            assert ended.cpu_ms >= 200
            cgroup.remove(cgroups.make("q-threaded-1"))
            assert cgroups.groups() == []

    asyncio.run(play())


def test_no_descriptor_is_left_open(cgroups: Cgroups) -> None:
    async def attempt(here: Scene) -> None:
        child = here.spawn(f"{UNTIED} mkdir $G/below", G=f"{cgroups.directory}/attempts/q-1-1", group="q-1-1")
        here.lines.pid()
        await here.finish(child)

    async def play() -> None:
        async with grouped(cgroups) as here:
            await attempt(here)
            before = open_descriptors()
            for _ in range(5):
                await attempt(here)
            assert open_descriptors() == before
            assert here.children() == []

    asyncio.run(play())
