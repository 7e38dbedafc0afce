"""`python -m tests.bench [--short | NAME…]` prints figures beside their baselines and bars: all, or those named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from tests.bench import clients, drain, ends, follow, idle, output, sizes, starts, throughput
from tests.bench.crowds import KINDS
from tests.bench.figures import Figure, show


def short() -> Iterator[Figure]:
    """The figures that take seconds."""
    yield from clients.cold(15, (10_000,))
    yield from drain.drained(3, 250)
    yield from starts.started(60)
    yield from follow.followed(40)
    yield from ends.killed(1)
    yield from ends.cancelled(2)
    yield from idle.memory((10_000,))


LONG: dict[str, Callable[[], Iterator[Figure]]] = {
    "clients": lambda: clients.cold(100, (10_000, 1_000_000)),
    "drain": lambda: drain.drained(5, 2000, 100_000),
    "starts": lambda: starts.started(500),
    "follow": lambda: follow.followed(300),
    "killed": lambda: ends.killed(5),
    "cancelled": lambda: ends.cancelled(5),
    "memory": lambda: idle.memory((10_000, 1_000_000)),
    "wakeups": lambda: idle.wakeups(90),
    "adds": lambda: throughput.adds(5, 10_000),
    "output": lambda: output.printed(5),
    **{f"sizes:{kind}": partial(sizes.sized, (10_000, 100_000, 1_000_000), 100, kind) for kind in KINDS},
}


def main(argv: list[str]) -> int:
    """Print the table; 1 where a bar is missed."""
    names = argv or list(LONG)
    if argv != ["--short"] and not set(names) <= set(LONG):
        print(f"usage: python -m tests.bench [--short | NAME…]\nnames: {' '.join(LONG)}", file=sys.stderr)
        return 2
    figures = show(short() if argv == ["--short"] else chain.from_iterable(LONG[name]() for name in names))
    return 0 if all(figure.off <= 1 for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
