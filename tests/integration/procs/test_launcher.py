"""A program that is started through a shell, into its cgroup, is what it would be without one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from questlined.procs import procfs, spawn
from questlined.procs.spawn import Command, launch

ODD = "odd value ' $HOME"
# What the shells that are found as sh set, count or warn about, and what merely looks like it.
VARIABLES = (
    "BASH", "BASHPID", "BASH_COMMAND", "BASH_COMPAT", "BASH_VERSION", "BASH_XTRACEFD", "COMP_WORDBREAKS",
    "EPOCHREALTIME", "EPOCHSECONDS", "HISTCMD", "HISTSIZE", "HOSTNAME", "LANG", "LC_ALL", "LC_CTYPE", "MAIL", "OPTERR",
    "OSTYPE", "RANDOM", "SECONDS", "SRANDOM", "TERM",
)  # fmt: skip
SHELLS = [name for name in ("dash", "bash", "busybox", "mksh", "yash") if shutil.which(name)]


@dataclass
class Launcher:
    """Starts programs as a daemon does whose /bin/sh is a certain shell."""

    folder: Path

    def run(self, *argv: str, env: Mapping[str, str] = {}) -> tuple[bytes, bytes, int, bool]:
        """stdout, stderr, how it ended, and whether that was the launcher's end."""
        out, err = self.folder / "out", self.folder / "err"
        with open(os.devnull, "rb") as null, out.open("wb") as said, err.open("wb") as complained:
            ends = null.fileno(), said.fileno(), complained.fileno()
            command = Command(argv, str(self.folder), {"PATH": "/usr/bin:/bin", **env}, *ends)
            process = launch(command, str(self.folder / "group"))
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        name = procfs.name(process.pid)
        code = process.wait()
        return out.read_bytes(), err.read_bytes(), code, spawn.refused(code, name)


@pytest.fixture(params=SHELLS)
def launcher(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    (tmp_path / "sh").symlink_to(str(shutil.which(request.param)))
    monkeypatch.setattr(spawn, "_SHELL", str(tmp_path / "sh"))
    (tmp_path / "group").mkdir()
    return Launcher(tmp_path)


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_arrives_as_it_was_given_and_without_a_word(launcher: Launcher, variable: str) -> None:
    for value in (ODD, "7", ""):
        said, complained, code, _ = launcher.run("/usr/bin/env", "-0", env={variable: value})
        assert f"{variable}={value}".encode() in said.split(b"\0")
        assert (complained, code) == (b"", 0)


def test_what_is_no_program_of_this_machine_is_not_run_as_a_script(launcher: Launcher) -> None:
    # Of another machine: the number that says so is at 18.
    head = bytearray(Path("/proc/self/exe").read_bytes()[:64])
    head[18:20] = b"\xf0\x7f"
    for number, content in enumerate((b"echo a script; exit 126\n", bytes(head) + b"\necho a script\n", b"", b"#")):
        program = launcher.folder / f"program {number}"
        program.write_bytes(content)
        program.chmod(0o755)
        with pytest.raises(OSError, match="Exec format error"):
            launcher.run(str(program))
        assert (launcher.folder / "out").read_bytes() == b""


def test_a_script_that_names_its_interpreter_ends_as_it_says(launcher: Launcher) -> None:
    script = launcher.folder / "script"
    script.write_text("#!/bin/sh\nexit 126\n")
    script.chmod(0o755)
    assert launcher.run(str(script))[2:] == (126, False)


def test_arguments_and_the_name_it_is_called_by_are_those_given(launcher: Launcher) -> None:
    (launcher.folder / "called so").symlink_to(str(shutil.which("cat")))
    said = launcher.run(str(launcher.folder / "called so"), "/proc/self/cmdline", "--", "-", "")[0]
    assert said.startswith(f"{launcher.folder}/called so\0/proc/self/cmdline\0--\0-\0\0".encode())
