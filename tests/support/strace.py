"""strace, which makes system calls of a running process fail or wait, and writes down what a process asks of a disk."""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE_S = 30


@functools.cache
def _why_not() -> str | None:
    """Why strace does not work here, None where it does."""
    try:
        tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "strace is not installed"
    return f"nothing can be traced here: {tried.stderr.strip()}" if tried.returncode else None


def needed() -> None:
    """Skip the test where strace is missing or may not trace."""
    reason = _why_not()
    if reason is not None:
        pytest.skip(reason)


@contextmanager
def injected(pid: int, *rules: str) -> Iterator[Path]:
    """While the block runs, calls of `pid` (all of its threads and new children) obey rules such as
    `fdatasync:delay_enter=100000` or `pwrite64:error=EIO:when=1`; what it gives is the log of those calls. A call that
    this machine's kernel has not (fork on ARM) is left out."""
    needed()
    calls = ",".join(f"?{rule.split(':')[0]}" for rule in rules)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "calls")
        inject = [part for rule in rules for part in ("-e", f"inject=?{rule}")]
        command = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={calls}", *inject, "-p", str(pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            _await_attached(tracer)
            yield log
        finally:
            tracer.send_signal(signal.SIGINT)  # strace lets go of everybody
            tracer.communicate(timeout=PATIENCE_S)


def _await_attached(tracer: subprocess.Popen[bytes]) -> None:
    """It says so once all threads that there were are traced."""
    assert tracer.stderr is not None
    said = b""
    while b"attached" not in said or not said.endswith(b"\n"):
        ready, _, _ = select.select([tracer.stderr], [], [], PATIENCE_S)
        block = os.read(tracer.stderr.fileno(), 65536) if ready else b""
        if b"Operation not permitted" in said:
            pytest.skip(f"nothing that runs can be traced here: {said.decode().strip()}")
        assert block, f"strace did not attach: {said.decode()}"
        said += block
