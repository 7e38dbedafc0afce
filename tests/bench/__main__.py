"""`python -m tests.bench [--short]` prints every figure beside its baseline and its bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.bench import clients, drain, ends, idle, starts, throughput
from tests.bench.figures import Figure, show


def short() -> Iterator[Figure]:
    """The figures that take seconds."""
    yield from clients.cold(15, (10_000,))
    yield from drain.drained(3, 250)
    yield from starts.started(60)
    yield from ends.killed(1)
    yield from ends.cancelled(2)
    yield from idle.memory((10_000,))


def long() -> Iterator[Figure]:
    """All figures, at their full size."""
    yield from clients.cold(100, (10_000, 1_000_000))
    yield from drain.drained(5, 2000, 100_000)
    yield from starts.started(500)
    yield from ends.killed(5)
    yield from ends.cancelled(5)
    yield from idle.memory((10_000, 1_000_000))
    yield from idle.wakeups(90)
    yield from throughput.adds(3, 10_000)


def main(argv: list[str]) -> int:
    """Print the table; 1 where a bar is missed."""
    if argv not in ([], ["--short"]):
        print("usage: python -m tests.bench [--short]", file=sys.stderr)
        return 2
    figures = show(short() if argv else long())
    return 0 if all(figure.off <= 1 for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
