"""Nothing of an attempt outlives its sweep, and nothing else is touched by it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys

import pytest

from questlined.procs import procfs
from tests.integration.procs.scene import alive, known, scene, start_outsider, until_unknown

SLEEP = "echo $$; exec sleep 1000"
A, B = "store:q-a:1", "store:q-b:1"
# Its first thread ends, another goes on: to /proc it looks like a zombie.
HEADLESS = (
    "import ctypes, os, threading;"
    "threading.Thread(target=threading.Event().wait).start();"
    "print(os.getpid(), flush=True);"
    "ctypes.CDLL(None).pthread_exit(0)"
)


def let_a_tick_pass() -> None:
    """Return when a process that starts now is told to be younger than all before this call."""
    first = last = None
    while first == last:
        probe = os.posix_spawn("/bin/true", ["true"], {})
        last = procfs.start_ticks(probe)
        first = first or last
        os.waitpid(probe, 0)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(f"sh -c '{SLEEP}' &", id="background"),
        pytest.param(f"setsid sh -c '{SLEEP}' &", id="setsid"),
        pytest.param("setsid sh -c 'sh -c \"$SLEEP\" & exit' &", id="double fork"),
        pytest.param(f"env -i setsid sh -c '{SLEEP}' &", id="session and marker gone"),
        pytest.param(f"env -i setsid sh -c 'trap \"\" TERM HUP INT; {SLEEP}' &", id="ignores signals"),
        pytest.param("setsid sh -c 'setsid sh -c \"$SLEEP\" & exec sleep 1000' &", id="tree"),
    ],
)
def test_nothing_outlives_the_sweep(script: str) -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn(script, SLEEP=SLEEP)
            left = here.lines.pid()
            await child.exited.wait()
            assert alive(left)
            killed, ended = await here.finish(child)
            assert ended.code is not None
            assert left in killed
            assert not known(left)
            assert here.children() == []

    asyncio.run(play())


def test_a_process_whose_first_thread_has_ended_is_not_taken_for_dead() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn('setsid "$PYTHON" -Sc "$PROGRAM" &', PYTHON=sys.executable, PROGRAM=HEADLESS)
            left = here.lines.pid()
            while (seen := procfs.stat(left)) and seen.state != "Z":
                pass
            killed, _ = await here.finish(child)
            assert killed == [left]
            assert not known(left)

    asyncio.run(play())


def test_a_helper_of_a_running_attempt_survives_the_end_of_another() -> None:
    async def play() -> None:
        async with scene() as here:
            running = here.spawn(f"(setsid sh -c '{SLEEP}' &); exec sleep 1000", B)
            helper = here.lines.pid()
            ending = here.spawn(f"(setsid sh -c '{SLEEP}' &)", A)
            left = here.lines.pid()
            killed, _ = await here.finish(ending)
            assert killed == [left]
            assert alive(helper)
            assert alive(running.pid)
            await here.end(running)
            assert not known(helper)

    asyncio.run(play())


def test_a_helper_in_its_leaders_session_survives_without_marker() -> None:
    async def play() -> None:
        async with scene() as here:
            here.spawn(f"(env -i sh -c '{SLEEP}' &); exec sleep 1000", B)
            helper = here.lines.pid()
            killed, _ = await here.finish(here.spawn("exit 0", A))
            assert killed == []
            assert alive(helper)

    asyncio.run(play())


def test_attempts_that_end_at_once_share_what_has_no_marker() -> None:
    async def play() -> None:
        async with scene() as here:
            first = here.spawn(f"env -i setsid sh -c '{SLEEP}' &", A)
            second = here.spawn(f"env -i setsid sh -c '{SLEEP}' &", B)
            left = {here.lines.pid(), here.lines.pid()}
            (killed_a, ended_a), (killed_b, ended_b) = await asyncio.gather(here.finish(first), here.finish(second))
            assert {*killed_a, *killed_b} == left
            assert (ended_a.code, ended_b.code) == (0, 0)
            assert not any(known(pid) for pid in left)

    asyncio.run(play())


def test_what_is_older_than_the_attempt_is_not_its_own() -> None:
    async def play() -> None:
        async with scene() as here:
            outsider = start_outsider()
            let_a_tick_pass()
            killed, _ = await here.finish(here.spawn("exit 0", A))
            assert killed == []
            assert alive(outsider)
            os.kill(outsider, signal.SIGKILL)
            await until_unknown(outsider)

    asyncio.run(play())


def test_kept_children_live_on_through_later_sweeps_and_are_reaped_in_the_end() -> None:
    async def play() -> None:
        async with scene() as here:
            keeper = here.spawn(f"(setsid sh -c '{SLEEP}' &); (env -i setsid sh -c '{SLEEP}' &); sh -c '{SLEEP}' &", A)
            kept = [here.lines.pid() for _ in range(3)]
            other = here.spawn("read line", B, stdin=here.null)
            assert await here.family.sweep(keeper, keep=True) == []
            assert here.family.reap(keeper).code == 0
            killed, _ = await here.finish(other)
            assert killed == []
            assert all(alive(pid) for pid in kept)
            for pid in kept:
                os.kill(pid, signal.SIGKILL)
                await until_unknown(pid)

    asyncio.run(play())


def test_a_sweep_without_free_descriptors_still_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async def play() -> None:
        async with scene() as here:
            child = here.spawn(f"setsid sh -c '{SLEEP}' &")
            left = here.lines.pid()
            with monkeypatch.context() as patch:
                patch.setattr(os, "pidfd_open", refuse)
                killed, _ = await here.finish(child)
            assert killed == [left]
            assert not known(left)

    asyncio.run(play())


def test_a_cancelled_sweep_can_be_taken_up_again() -> None:
    async def play() -> None:
        async with scene() as here:
            child = here.spawn(f"setsid sh -c '{SLEEP}' &")
            left = here.lines.pid()
            await child.exited.wait()
            sweeping = asyncio.create_task(here.family.sweep(child))
            await asyncio.sleep(0)
            sweeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sweeping
            await here.finish(child)
            assert not known(left)

    asyncio.run(play())
