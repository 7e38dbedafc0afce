"""How this process was started, which is how the next program is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """Interpreter, its options, program and arguments, and the directory that they are meant from.

    Code is found anew by the same words: a checkout, an installation that was upgraded in place, `python -m`."""

    argv: tuple[str, ...]
    directory: str

    @classmethod
    def running(cls) -> Program:
        """This process's. To be called before it changes its directory."""
        try:
            directory = os.getcwd()
        except FileNotFoundError:  # it was removed
            directory = "/"
        return cls((sys.executable, *sys.orig_argv[1:]), directory)

    def execute(self, environ: Mapping[str, str]) -> None:
        """Become it, from the main thread. Returns by raising OSError only."""
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chdir(self.directory)
            os.execve(self.argv[0], self.argv, dict(environ))
        finally:
            os.fchdir(here)
            os.close(here)
