"""Spawning, the ends of children, and what is held meanwhile."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from questlined.procs import procfs
from questlined.procs.spawn import Command
from tests.integration.procs.scene import (
    LONG_S,
    Scene,
    alive,
    known,
    open_descriptors,
    run_another,
    scene,
    until_stopped,
    until_unknown,
)


def test_an_exit_code_and_a_signal_are_told_apart() -> None:
    async def play() -> None:
        async with scene() as here:
            _, ended = await here.finish(here.spawn("exit 7"))
            assert (ended.code, ended.signal) == (7, None)
            _, ended = await here.finish(here.spawn("kill -9 $$"))
            assert (ended.code, ended.signal) == (None, signal.SIGKILL)

    asyncio.run(play())


def test_a_child_leads_its_own_session_with_its_umask_and_nothing_else_of_ours() -> None:
    async def play() -> None:
        async with scene() as here:
            leaked = os.open(os.devnull, os.O_RDONLY)
            os.set_inheritable(leaked, True)
            child = here.spawn("umask; ls /proc/$$/fd | tr '\\n' ' '; echo; exec sleep 1000")
            assert here.lines.next() == "0022"
            assert str(leaked) not in here.lines.next().split()[3:]
            seen = procfs.stat(child.pid)
            assert seen is not None
            assert (seen.group, seen.session, seen.started) == (child.pid, child.pid, child.started)
            os.close(leaked)

    asyncio.run(play())


def test_an_exited_child_stays_a_zombie_until_it_is_reaped() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn("exit 3")
            await child.exited.wait()
            gc.collect()
            run_another()
            assert known(child.pid)
            with pytest.raises(RuntimeError, match="before its sweep"):
                here.family.reap(child)
            _, ended = await here.finish(child)
            assert ended.code == 3
            assert not known(child.pid)

    asyncio.run(play())


def test_what_cannot_be_started_raises_as_it_comes(tmp_path: Path) -> None:
    async def play() -> None:
        plain = tmp_path / "plain"
        plain.write_text("#!/bin/sh\n")
        async with scene() as here:
            with pytest.raises(FileNotFoundError) as missing:
                here.execute(("no-such-program-anywhere",))
            assert missing.value.filename == "no-such-program-anywhere"
            with pytest.raises(PermissionError):
                here.execute((str(plain),))
            gone = str(tmp_path / "gone")
            with pytest.raises(FileNotFoundError) as nowhere:
                here.family.spawn(Command(("true",), gone, {}, 0, 1, 2), "store:q:1")
            assert nowhere.value.filename == gone
            with pytest.raises(OSError, match="Argument list too long"):
                here.execute(("true", "x" * 131_072))

    asyncio.run(play())


def test_a_child_that_could_not_be_watched_is_not_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async def play() -> None:
        async with scene() as here:
            before = procfs.children(os.getpid())
            with monkeypatch.context() as patch:
                patch.setattr(os, "pidfd_open", refuse)
                with pytest.raises(OSError, match="Too many open files"):
                    here.spawn("exec sleep 1000")
            assert procfs.children(os.getpid()) == before

    asyncio.run(play())


def test_no_descriptor_and_no_child_is_left_behind() -> None:
    async def attempt(here: Scene) -> None:
        child = here.spawn("(setsid sh -c 'echo $$; exec sleep 1000' &)")
        here.lines.pid()
        await here.finish(child)

    async def play() -> None:
        async with scene() as here:
            await attempt(here)
            before = open_descriptors()
            for _ in range(5):
                await attempt(here)
            assert open_descriptors() == before
            assert here.children() == []

    asyncio.run(play())


def test_a_child_that_closed_its_output_has_not_ended() -> None:
    async def play() -> None:
        async with scene() as here:
            source, sink = os.pipe()
            child = here.spawn("exec >&- 2>&-; read line; exit 4", stdin=source)
            assert here.lines.rest() == b""
            await asyncio.sleep(0)
            assert alive(child.pid)
            assert not child.exited.is_set()
            os.write(sink, b"go\n")
            _, ended = await here.finish(child)
            assert ended.code == 4
            os.close(source)
            os.close(sink)

    asyncio.run(play())


def test_an_orphan_that_ends_by_itself_is_reaped_while_attempts_run() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn("(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000")
            orphan = here.lines.pid()
            os.kill(orphan, signal.SIGKILL)
            await until_unknown(orphan)
            assert alive(child.pid)
            assert not child.exited.is_set()

    asyncio.run(play())


def test_peak_memory_is_known_only_above_our_own_size() -> None:
    async def play() -> None:
        async with scene() as here:
            _, ended = await here.finish(here.spawn("exit 0"))
            assert ended.peak_memory_bytes is None
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + (64 << 20)
            _, ended = await here.finish(here.execute((sys.executable, "-Sc", f"x = b'x' * {size}")))
            assert ended.peak_memory_bytes is not None
            assert ended.peak_memory_bytes >= size
            assert ended.cpu_ms > 0

    asyncio.run(play())


def test_the_grace_is_as_long_as_the_child_needs() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn("trap 'exit 3' TERM; echo ready; while :; do sleep 1000 & wait; done")
            assert here.lines.next() == "ready"
            await here.family.take_down(child, LONG_S)
            _, ended = await here.finish(child)
            assert ended.code == 3

    asyncio.run(play())


def test_who_ignores_the_term_is_killed_after_the_grace() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn("trap '' TERM; echo ready; while :; do sleep 1000; done")
            assert here.lines.next() == "ready"
            await here.family.take_down(child, 0.1)
            _, ended = await here.finish(child)
            assert ended.signal == signal.SIGKILL

    asyncio.run(play())


def test_a_tool_in_a_session_of_its_own_is_asked_to_end_too() -> None:
    async def play() -> None:
        async with scene() as here:
            tool = 'trap "echo polite; exit" TERM; echo ready; while :; do sleep 1000 & wait; done'
            child = here.spawn(f"trap 'wait; exit 5' TERM; setsid sh -c '{tool}' & wait; wait")
            assert here.lines.next() == "ready"
            await here.family.take_down(child, LONG_S)
            assert here.lines.next() == "polite"
            _, ended = await here.finish(child)
            assert ended.code == 5

    asyncio.run(play())


def test_a_stopped_child_can_still_end_politely() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn("trap 'exit 6' TERM; kill -STOP $$; exit 0")
            until_stopped(child)
            await here.family.take_down(child, LONG_S)
            _, ended = await here.finish(child)
            assert ended.code == 6

    asyncio.run(play())


def test_a_second_call_escalates_and_a_term_is_sent_once() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn(
                "trap 'echo term' TERM; trap 'echo mark' URG; echo ready; while :; do sleep 1000 & wait; done"
            )
            assert here.lines.next() == "ready"
            patient = asyncio.create_task(here.family.take_down(child, LONG_S))
            await asyncio.sleep(0)
            assert here.lines.next() == "term"
            impatient = asyncio.create_task(here.family.take_down(child, LONG_S))
            await asyncio.sleep(0)
            assert not child.exited.is_set()
            os.kill(child.pid, signal.SIGURG)  # the shell runs the trap of a pending SIGTERM first
            assert here.lines.next() == "mark"
            await here.family.take_down(child, LONG_S, at_once=True)
            await asyncio.gather(patient, impatient)
            _, ended = await here.finish(child)
            assert ended.signal == signal.SIGKILL
            assert here.lines.rest() == b""

    asyncio.run(play())


def test_taking_down_what_has_ended_or_was_reaped_does_nothing() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn("exit 0")
            await child.exited.wait()
            await here.family.take_down(child, LONG_S)
            await here.finish(child)
            await here.family.take_down(child, LONG_S, at_once=True)
            assert await here.family.sweep(child) == []

    asyncio.run(play())
