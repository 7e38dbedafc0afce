"""A quest that prints 1 GiB: its time beside that of a shell's redirection, and what the daemon grows by meanwhile."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.rig import Rig, folder, now_ms, rig

GIB = 1 << 30
PRINTS = f"head -c {GIB} /dev/zero"
BARS = {"file": 1.1, "pipe": 2.5}  # its own file, or copied into one
GROWS_MIB = 5
CONFIG = 'executor.command = ["sh", "-c", "{{task}}"]\nexecutor.output_limit = "2GiB"\nexecutor.output = "{output}"\n'


def printed(rounds: int) -> Iterator[Figure]:
    """Both ways of output."""
    for output, bar in BARS.items():
        times, bare, grown = [], [], []
        with rig(CONFIG.format(output=output)) as one:
            one.wait(one.add("head -c 1000000 /dev/zero"))
            for _ in range(rounds):
                bare.append(_redirected())
                before = _forget_peak(one)
                times.append(_printed(one))
                grown.append(_status_mib(one, "VmHWM") - before)
        yield Figure(f'1 GiB of output, output = "{output}"', "ms", times, bar, base=bare, base_name="> file")
        yield Figure("  the daemon grows by", "MiB", grown, GROWS_MIB)


def _redirected() -> float:
    place = folder()
    began = now_ms()
    subprocess.run(["sh", "-c", f"{PRINTS} > {place}/stdout"], check=True)
    spent = now_ms() - began
    shutil.rmtree(place)
    return spent


def _printed(one: Rig) -> float:
    began = now_ms()
    quest = one.add(PRINTS)
    assert one.wait(quest) == "done"
    spent = now_ms() - began
    (file,) = one.daemon.state.glob(f"artifacts/{quest}/1/stdout")
    assert file.stat().st_size == GIB
    file.unlink()
    return spent


def _forget_peak(one: Rig) -> float:
    """What is resident now, and from now on the peak is a new one."""
    Path(f"/proc/{one.daemon.pid}/clear_refs").write_text("5")
    return _status_mib(one, "VmRSS")


def _status_mib(one: Rig, what: str) -> float:
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{one.daemon.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024
