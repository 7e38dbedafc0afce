"""From a child's write to the reader who follows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from tests.bench.figures import Figure, percentile
from tests.bench.rig import QUESTS, Rig, Wire, now_ms, rig

CONFIG = f"""
executor.command = [{json.dumps(sys.executable)}, "-c", "{{task}}"]
executors.file.output = "file"
scheduler.max_concurrent = 64
"""
# A line with the moment of its writing, after pauses of many lengths: some shorter than any interval, some longer.
WRITER = """
import random, time
for number in range({number}):
    time.sleep(random.choice((0.003, 0.015, 0.05, 0.15)))
    print(time.monotonic_ns(), flush=True)
"""
READERS = 50


def followed(number: int) -> Iterator[Figure]:
    """Milliseconds for one reader by both ways of output, and for the last of many readers."""
    with rig(CONFIG) as one:
        for output, role in (("pipe", "default"), ("file", "file")):
            samples = _latencies(one, role, number, 1)
            for share in (0.5, 0.99):
                name = f"written → followed, output = {output}, p{share * 100:.0f}"
                bar = 50 if share == 0.5 else None
                yield Figure(name, "ms", samples, bar, value=percentile(samples, share))
        samples = _latencies(one, "default", number, READERS)
        yield Figure(f"  the same, last of {READERS} readers, p50", "ms", samples, 50, value=percentile(samples, 0.5))


def _latencies(one: Rig, role: str, number: int, readers: int) -> list[float]:
    quest = one.add(WRITER.format(number=number), role=role)
    wires = [Wire(one.daemon.socket) for _ in range(readers)]
    for wire in wires:
        call = {"method": f"{QUESTS}.Follow", "parameters": {"id": quest}, "more": True}
        wire.socket.sendall(json.dumps(call).encode() + b"\0")
    moments: list[list[float]] = [[] for _ in wires]
    samples: list[float] = []
    while len(samples) < number:
        for wire, seen in zip(wires, moments, strict=True):  # the last of them ends the sample
            while len(seen) <= len(samples):
                seen.extend(_lines(wire))
        samples.append(now_ms() - moments[0][len(samples)])
    for wire in wires:
        wire.close()
    assert one.wait(quest) == "done"
    return samples


def _lines(wire: Wire) -> list[float]:
    """The moments of writing that the next reply tells."""
    records = wire.reply()["records"]
    text = "".join(record["data"]["text"] for record in records if record["kind"] == "output")
    return [int(line) / 1e6 for line in text.split()]
