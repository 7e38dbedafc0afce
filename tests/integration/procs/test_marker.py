"""A process keeps its marker in every moment of its life."""

from __future__ import annotations

import subprocess
from pathlib import Path

from questlined.procs import procfs
from tests.integration.procs.scene import PATH


def test_a_process_that_executes_all_the_time_is_never_seen_without_its_marker(tmp_path: Path) -> None:
    script = tmp_path / "again"
    script.write_text('exec sh "$0"\n')
    process = subprocess.Popen(["sh", str(script)], env={"PATH": PATH, procfs.MARKER: "store:q-1:1"})
    try:
        assert {procfs.marker(process.pid) for _ in range(3000)} == {"store:q-1:1"}
    finally:
        process.kill()
        process.wait()


def test_an_empty_environment_has_no_marker() -> None:
    process = subprocess.Popen(["sleep", "1000"], executable="/bin/sleep", env={})
    try:
        assert procfs.marker(process.pid) is None
    finally:
        process.kill()
        process.wait()
