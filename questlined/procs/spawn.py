"""The only place where a program is started."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Command:
    """What to execute: argv (found by the PATH in `env`), directory, environment, three descriptors, umask."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int
    umask: int = 0o022

    def __repr__(self) -> str:
        """Names the program and the directory only: arguments and variables may hold secrets."""
        program = self.argv[0] if self.argv else ""
        arguments, variables = f"<{len(self.argv) - 1} arguments>", f"<{len(self.env)} variables>"
        return f"Command({program!r}, {arguments}, cwd={self.cwd!r}, env={variables}, umask={self.umask:#05o})"


def launch(command: Command) -> subprocess.Popen[bytes]:
    """A new process, leader of its own session and group, with no other descriptor of ours.

    To be called on the loop's thread only (a thread's end must not touch it), and the result kept until reaped: a
    dropped Popen is reaped by the next one. Neither preexec_fn (unsafe beside threads, and slow) nor a death signal
    (it follows the thread that spawned). Raises OSError as it comes; for a missing directory its filename is `cwd`.
    """
    return subprocess.Popen(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        stdin=command.stdin,
        stdout=command.stdout,
        stderr=command.stderr,
        umask=command.umask,
        start_new_session=True,
        close_fds=True,
    )
