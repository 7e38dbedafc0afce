"""A cold qlctl: a process started for one call, beside the bare interpreter of the same environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.rig import BYTE_CODE, Rig, now_ms, rig

SCRIPT = Path(sys.executable).with_name("qlctl")


def _timed(argv: list[str], env: Mapping[str, str]) -> float:
    """Milliseconds from the start of a program to its end."""
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    began = now_ms()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    spent = now_ms() - began
    assert status == 0, f"{argv}: {status}"
    return spent


def interleaved(rounds: int, things: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Samples of each thing: all of them in turn, round after round, after one that does not count."""
    samples: dict[str, list[float]] = {name: [] for name in things}
    for number in range(rounds + 1):
        for name, measure in things.items():
            sample = measure()
            if number:
                samples[name].append(sample)
    return samples


def cold(rounds: int, sizes: Sequence[int]) -> Iterator[Figure]:
    """`add` and `list` among a few quests and among many. All daemons are paused: only the calls are measured."""
    with rig() as few:
        few.pause()
        few.fill(30)
        things: dict[str, Callable[[], float]] = {"bare": lambda: _bare(few)}
        if SCRIPT.exists():
            things["script"] = lambda: _called(few, [str(SCRIPT), "add", "true"])
        things["module"] = lambda: _called(few, [sys.executable, "-m", "qlctl", "add", "true"])
        things["list"] = lambda: _called(few, [sys.executable, "-m", "qlctl", "list"])
        yield from _few(interleaved(rounds, things))
        for size in sizes:
            yield from _among(few, size, rounds)


def _few(found: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    bare = found["bare"]
    for name in ("script", "module"):
        if name in found:
            yield Figure(f"one add, a cold client ({name})", "ms", found[name], 2.5, base=bare, base_name="bare python")
    yield Figure("list, 30 rows", "ms", found["list"], base=bare, base_name="bare python")


def _among(few: Rig, size: int, rounds: int) -> Iterator[Figure]:
    with rig() as many:
        many.pause()
        many.fill(size)
        add, listing = ([sys.executable, "-m", "qlctl", *words] for words in (("add", "true"), ("list",)))
        found = interleaved(
            rounds,
            {
                "add": lambda: _called(few, add),
                "add many": lambda: _called(many, add),
                "list": lambda: _called(few, listing),
                "list many": lambda: _called(many, listing),
            },
        )
        if size <= 10_000:
            yield Figure(f"one add, {size:,} queued", "ms", found["add many"], 1.1, base=found["add"], base_name="few")
        bar, base = 1.2, found["list"]
        yield Figure(f"list, 30 rows of {size:,}", "ms", found["list many"], bar, base=base, base_name="few")


def _bare(one: Rig) -> float:
    return _timed([sys.executable, "-c", "pass"], one.daemon.environ(**BYTE_CODE))


def _called(one: Rig, argv: list[str]) -> float:
    # The project is named, since posix_spawn takes no directory.
    return _timed([*argv, "--project", one.directory], one.daemon.environ(**BYTE_CODE))
