"""What an execution promises, however its program is run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from questlined.procs import procfs
from tests.conformance.executors import WAYS, Stage, alive, opened

LONG_S = 1000
SLEEP = 'echo $$ >"$TELL"; exec sleep 1000'
AWKWARD = (
    "it's", '"', "two\nlines\n", "%n %% %h", "$HOME ${X} $$ $(id) `id`", "{task} {} {{}}", "-n", "--", "", " ", "a  b",
    "\\", "\\n", "trailing\\", "\té\u2028", "a=b", "*", "?", "~", ";", "&&", "#", "!", "'", "\x7f\x01", "x" * 100_000,
)  # fmt: skip

Play = Callable[[Stage], Awaitable[None]]


@pytest.fixture(params=WAYS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Play], None]:
    """Plays a scene on a stage where programs run one of the ways."""

    def run(scene: Play) -> None:
        async def main() -> None:
            async with opened(request.param, tmp_path) as stage:
                await scene(stage)

        asyncio.run(main())

    return run


def test_an_exit_code_and_a_signal_are_told_apart(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        for code in (0, 7, 126, 127, 255):
            ended = await stage.end(await stage.sh(f"exit {code}"))
            assert (ended.code, ended.signal, ended.not_executed) == (code, None, False)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT):
            ended = await stage.end(await stage.sh(f"ulimit -c 0; kill -{number.value} $$"))
            assert (ended.code, ended.signal) == (None, number)

    play(scene)


def test_arguments_arrive_as_they_are(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.run("/usr/bin/printf", "%s\\0", *AWKWARD)
        assert (await stage.end(program)).code == 0
        assert program.stdout.read_text().split("\0")[:-1] == list(AWKWARD)

    play(scene)


def test_the_environment_is_what_was_given_and_nothing_else(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        shells = {"PS1": "> ", "IFS": "x", "_": "underscore", "SHLVL": "7", "LINENO": "3", "OPTIND": "9"}
        for more in ({}, shells, {"PWD": "/nowhere"}, {"HOME": "/a b", "procs": "1", "LC_ALL": "C.UTF-8"}):
            values = {f"AWKWARD_{number}": text[:1000] for number, text in enumerate(AWKWARD)}
            if not stage.way.any_value:
                values = {name: value for name, value in values.items() if "\x01" not in value}
            program = await stage.run("/usr/bin/env", "-0", env=values | more)
            assert (await stage.end(program)).code == 0
            got = dict(entry.split("=", 1) for entry in program.stdout.read_text().split("\0")[:-1])
            assert got.items() >= (values | more).items()
            assert got.keys() - values.keys() - more.keys() - stage.way.adds == {"PATH", "TELL", "QUESTLINE_ATTEMPT"}

    play(scene)


def test_directory_umask_and_input_are_those_asked_for(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        there = stage.folder / "with  spaces 'n %h $HOME"
        there.mkdir()
        program = await stage.sh("pwd; umask; cat", cwd=there, umask=0o027, stdin=b"line\nno end")
        assert (await stage.end(program)).code == 0
        assert program.stdout.read_bytes() == f"{there}\n0027\nline\nno end".encode()
        program = await stage.sh("umask; cat")
        await stage.end(program)
        assert program.stdout.read_text() == "0022\n"

    play(scene)


def test_what_is_written_is_in_its_file_and_behind_what_was_there(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh("printf one; printf two >&2; printf three; printf four >&2")
        await stage.end(program)
        assert (program.stdout.read_text(), program.stderr.read_text()) == ("onethree", "twofour")

    play(scene)


def test_a_program_that_the_kernel_does_not_execute_is_told_from_one_that_fails(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        orphaned = stage.folder / "orphaned"
        orphaned.write_text("#!/no/such/interpreter\n")
        orphaned.chmod(0o755)
        for program in (str(orphaned), str(stage.folder / "missing"), str(stage.folder)):
            try:
                started = await stage.run(program)
            except (FileNotFoundError, PermissionError):
                continue
            assert (await stage.end(started)).not_executed
            assert started.stdout.read_text() == ""

    play(scene)


def test_a_program_that_ends_within_its_grace_has_its_own_exit(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh("trap 'exit 3' TERM; echo ready >\"$TELL\"; while :; do sleep 1000 & wait; done")
        assert stage.told.next() == "ready"
        await program.execution.take_down(LONG_S)
        assert (await stage.end(program)).code == 3

    play(scene)


def test_who_ignores_the_term_is_killed_after_the_grace(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh("trap '' TERM; echo ready >\"$TELL\"; while :; do sleep 1000; done")
        assert stage.told.next() == "ready"
        await program.execution.take_down(0.1)
        assert (await stage.end(program)).signal == signal.SIGKILL

    play(scene)


def test_a_tool_in_a_session_of_its_own_is_asked_to_end_too(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        tool = 'trap "echo polite >\\"$TELL\\"; exit" TERM; echo ready >"$TELL"; while :; do sleep 1000 & wait; done'
        program = await stage.sh("trap 'wait; exit 5' TERM; setsid sh -c \"$TOOL\" & wait; wait", env={"TOOL": tool})
        assert stage.told.next() == "ready"
        await program.execution.take_down(LONG_S)
        assert stage.told.next() == "polite"
        assert (await stage.end(program)).code == 5
        assert stage.told.nothing()

    play(scene)


def test_an_orphan_without_any_mark_is_asked_to_end_too(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        if not stage.way.tells_all_apart:
            pytest.skip("without cgroups such a process is only killed")
        tool = 'trap "echo polite >\\"$TELL\\"; exit" TERM; echo $$ >"$TELL"; while :; do sleep 1000 & wait; done'
        begin = 'trap "exit 5" TERM; (env -i TELL="$TELL" setsid sh -c "$TOOL" &); while :; do sleep 1000 & wait; done'
        program = await stage.sh(begin, env={"TOOL": tool})
        pid = stage.told.pid()
        await program.execution.take_down(LONG_S)
        assert stage.told.next() == "polite"
        assert (await stage.end(program)).code == 5
        assert not alive(pid)

    play(scene)


def test_a_stopped_program_can_still_end_politely(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh("trap 'exit 6' TERM; echo $$ >\"$TELL\"; kill -STOP $$; exit 0")
        pid = stage.told.pid()
        while (seen := procfs.stat(pid)) and seen.state != "T":
            pass
        await program.execution.take_down(LONG_S)
        assert (await stage.end(program)).code == 6

    play(scene)


def test_at_once_gives_no_time_for_last_words(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        words = 'trap \'echo last words >"$TELL"\' TERM CONT; echo ready >"$TELL"; while :; do sleep 1000 & wait; done'
        program = await stage.sh(words)
        assert stage.told.next() == "ready"
        await program.execution.take_down(LONG_S, at_once=True)
        assert (await stage.end(program)).signal == signal.SIGKILL
        assert stage.told.nothing()

    play(scene)


def test_at_once_ends_another_calls_grace(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh("trap '' TERM; echo ready >\"$TELL\"; while :; do sleep 1000 & wait; done")
        assert stage.told.next() == "ready"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(program.execution.take_down(LONG_S))
            await asyncio.sleep(0)
            await program.execution.take_down(LONG_S, at_once=True)
        assert (await stage.end(program)).signal == signal.SIGKILL

    play(scene)


def test_taking_down_what_has_ended_changes_nothing(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh("exit 9")
        await program.execution.exited.wait()
        await program.execution.take_down(LONG_S)
        await program.execution.take_down(0, at_once=True)
        assert (await stage.end(program)).code == 9

    play(scene)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param('sh -c "$SLEEP" &', id="background"),
        pytest.param('setsid sh -c "$SLEEP" &', id="setsid"),
        pytest.param("setsid sh -c 'sh -c \"$SLEEP\" & exit' &", id="double fork"),
        pytest.param('env -i TELL="$TELL" setsid sh -c "$SLEEP" &', id="session and marker gone"),
        pytest.param('env -i TELL="$TELL" setsid sh -c \'trap "" TERM HUP INT; eval "$0"\' "$SLEEP" &', id="deaf"),
        pytest.param("setsid sh -c 'setsid sh -c \"$SLEEP\" & exec sleep 1000' &", id="tree"),
        pytest.param("sh -c 'echo $$ >\"$TELL\"; kill -STOP $$' &", id="stopped"),
    ],
)
def test_nothing_outlives_the_sweep_and_the_exit_is_the_programs_own(play: Callable[[Play], None], script: str) -> None:
    async def scene(stage: Stage) -> None:
        # It ends when its child is there: systemd ends what is left of a unit at once.
        go = stage.folder / "go"
        os.mkfifo(go)
        program = await stage.sh(f'{script} read line <"$GO"; exit 4', env={"SLEEP": SLEEP, "GO": str(go)})
        left = stage.told.pid()
        go.write_text("now\n")
        assert (await stage.end(program)).code == 4
        assert not alive(left)

    play(scene)


def test_what_forks_without_end_is_killed_all_the_same(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        # Each runs on for a moment beside the next one, in a session of its own, until none may start any more.
        bomb = '[ -e stop ] || { echo $$ >>pids; setsid sh -c "$BOMB" & sleep 0.1; }'
        program = await stage.sh('eval "$BOMB" & until [ -s pids ]; do :; done; exit 0', env={"BOMB": bomb})
        assert (await stage.end(program)).code == 0
        pids = [int(line) for line in (stage.folder / "pids").read_text().split()]
        (stage.folder / "stop").touch()
        assert [pid for pid in pids if alive(pid)] == []

    play(scene)


def test_a_program_in_a_session_of_its_own_dies_with_the_ladder(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        program = await stage.sh(f"env -i TELL=\"$TELL\" setsid sh -c '{SLEEP}' & exec sleep 1000")
        left = stage.told.pid()
        ended = await stage.kill(program)
        assert ended.signal == signal.SIGKILL
        assert not alive(left)

    play(scene)


def test_the_end_of_one_leaves_another_alone(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        running = await stage.sh(f"setsid sh -c '{SLEEP}' & sh -c '{SLEEP}' & exec sleep 1000")
        helpers = [stage.told.pid(), stage.told.pid()]
        await stage.end(await stage.sh("setsid sleep 1000 & exit 0"))
        assert all(alive(pid) for pid in helpers)
        await stage.kill(running)
        assert not any(alive(pid) for pid in helpers)

    play(scene)


def test_an_orphan_without_any_mark_belongs_to_its_own_program(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        if not stage.way.tells_all_apart:
            pytest.skip("without cgroups such a process falls to the program that ends first")
        running = await stage.sh(f"(env -i TELL=\"$TELL\" setsid sh -c '{SLEEP}' &); exec sleep 1000")
        helper = stage.told.pid()
        await stage.end(await stage.sh("exit 0"))
        assert alive(helper)
        await stage.kill(running)
        assert not alive(helper)

    play(scene)


def test_processor_time_is_that_of_all_that_was_waited_for(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        busy = "import time\nwhile time.process_time() < 0.2: pass"
        ended = await stage.end(await stage.sh('"$PYTHON" -Sc "$BUSY"', env={"PYTHON": sys.executable, "BUSY": busy}))
        assert ended.cpu_ms >= 200

    play(scene)


def test_peak_memory_is_told_where_it_is_known(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        size = 300 << 20
        program = await stage.run(sys.executable, "-Sc", f"x = b'x' * {size}")
        ended = await stage.end(program)
        assert ended.code == 0
        if ended.peak_memory_bytes is not None:
            assert size <= ended.peak_memory_bytes < 2 * size

    play(scene)


def test_a_program_killed_for_want_of_memory_is_told_so(play: Callable[[Play], None]) -> None:
    async def scene(stage: Stage) -> None:
        go = stage.folder / "go"
        os.mkfifo(go)
        eat = {"GO": str(go), "PYTHON": sys.executable, "EAT": "x = b'x' * (200 << 20)"}
        program = await stage.sh('read line <"$GO"; exec "$PYTHON" -Sc "$EAT"', env=eat)
        stage.way.limit_memory(program.execution, 50 << 20)
        go.write_text("now\n")
        ended = await stage.end(program)
        assert ended.signal == signal.SIGKILL
        assert ended.oom

    play(scene)
