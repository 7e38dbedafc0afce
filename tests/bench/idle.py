"""What the daemon takes while nothing happens: memory, and wake-ups."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.rig import Rig, rig

SETTLED_S = 2  # after which systemd has been told the last change
BARS_MIB = {0: 40, 10_000: 45, 1_000_000: 60}


def memory(sizes: Sequence[int]) -> Iterator[Figure]:
    """MiB that are resident: after the start, and when so many quests wait that were added through the socket."""
    with rig() as one:
        yield Figure("daemon RSS, idle", "MiB", [_resident_mib(one)], BARS_MIB[0])
        one.pause()
        have = 0
        for size in sizes:
            one.fill(size - have)
            have = size
            one.wire.call("io.questline.Quests.List", directory=one.directory)
            yield Figure(f"daemon RSS, {size:,} queued", "MiB", [_resident_mib(one)], BARS_MIB.get(size))


def wakeups(seconds: float) -> Iterator[Figure]:
    """Voluntary context switches of all threads per second. One connection is open and silent."""
    with rig() as one:
        one.wait(one.add())
        time.sleep(SETTLED_S)
        before = _switches(one)
        time.sleep(seconds)
        after = _switches(one)
    yield Figure(f"idle wake-ups per second, over {seconds:.0f} s", "/s", [(after - before) / seconds], 0.1)


def _resident_mib(one: Rig) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{one.daemon.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _switches(one: Rig) -> int:
    texts = [path.read_text() for path in Path(f"/proc/{one.daemon.pid}/task").glob("*/status")]
    return sum(int(number) for text in texts for number in re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M))
