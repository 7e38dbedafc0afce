"""From the acknowledgement of an add to the first sign of its child, on an idle daemon."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.baselines import commit_ms, spawns_per_second
from tests.bench.figures import Figure, percentile
from tests.bench.rig import Pipe, now_ms, rig

# 5 ms where a spawn and a commit took 0.73 and 0.25.
TIMES = 5.0
SHELL = 'executor.command = ["sh", "-c", "{task}"]\nexecutor.terminate_grace = "300ms"\n'


def started(number: int) -> Iterator[Figure]:
    """Milliseconds to the byte that the child writes, its shell's own start included."""
    samples = []
    with rig(SHELL) as one:
        signs = Pipe(one.daemon.folder / "signs")
        for _ in range(number):
            quest = one.add(f"echo > {signs.path}")
            acknowledged = now_ms()
            signs.line()
            samples.append(now_ms() - acknowledged)
            assert one.wait(quest) == "done"
        signs.close()
    bare = [1000 / spawns_per_second(200) + commit_ms() for _ in range(3)]
    yield Figure("acknowledged → child runs, p50", "ms", samples, 5, value=percentile(samples, 0.5))
    yield Figure("acknowledged → child runs, p99", "ms", samples, 20, value=percentile(samples, 0.99))
    name = "  the same to a bare spawn and commit"
    yield Figure(name, "ms", samples, TIMES, base=bare, base_name="spawn + commit")
