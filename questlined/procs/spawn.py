"""The only place where a program is started."""

from __future__ import annotations

import functools
import logging
import os
import re
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace

from questlined.procs import cgroup

log = logging.getLogger(__name__)

# What a program gets whatever the daemon has: the daemon is spared when memory runs out, and may raise its own limit of
# descriptors; programs that use select() break above 1024, and others close them all one by one.
OOM_SCORE_ADJUST = 200
OPEN_FILES = 1024

# The launcher enters the cgroup and becomes the program, under the same pid and with nothing else changed (bash as sh
# adds SHLVL). If it may not enter, the program runs without. The mark is the process's name until an exec succeeds.
# LC_ALL comes as an argument: bash complains about one that it does not know, here where nobody hears it.
_SHELL = "/bin/sh"
_NAME = "questlined"
_MARK = "ql-not-executed"  # 15 bytes, as many as a name holds
_LAUNCH = (
    '{ [ -z "$2" ] || export LC_ALL="$2"; echo 0 >"$1"; %s; printf %s >/proc/self/comm; } 2>/dev/null; '
    'shift 2; unset PWD OLDPWD SHLVL; exec "$@"'
)
_REFUSED = (126, 127)
# Variables that a shell changes, or does not hand on as they came.
_SHELLS_OWN = frozenset(
    {"_", "COMP_WORDBREAKS", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "HISTCMD", "IFS", "LINENO", "OLDPWD",
     "OPTARG", "OPTERR", "OPTIND", "POSIXLY_CORRECT", "PPID", "PS1", "PS2", "PS4", "PWD", "RANDOM", "SECONDS",
     "SHELLOPTS", "SHLVL", "SRANDOM", "UID"}
)  # fmt: skip
_VARIABLE = re.compile(r"(?!BASH)[A-Za-z_][A-Za-z0-9_]*")


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


def launch(command: Command, group: str | None = None) -> subprocess.Popen[bytes]:
    """A new process, leader of its own session and group, with no other descriptor of ours; in the cgroup `group`.

    To be called on the loop's thread only (a thread's end must not touch it), and the result kept until reaped: a
    dropped Popen is reaped by the next one. Neither preexec_fn (unsafe beside threads, and slow) nor a death signal
    (it follows the thread that spawned). Raises OSError as it comes; for a missing directory its filename is `cwd`.
    With a group the program is executed a moment later: `refused` tells what cannot be.
    """
    if group is None:
        return _limited(_popen(command, command.argv))
    if _shell_carries(command) and _kernel_knows(command.argv[0]):
        script = _LAUNCH % (_shell_limits(), _MARK)
        launcher = (_SHELL, "-c", script, _NAME, f"{group}/cgroup.procs", command.env.get("LC_ALL", ""))
        env = {name: value for name, value in command.env.items() if name != "LC_ALL" or not value}
        return _popen(replace(command, env=env), (*launcher, *command.argv))
    popen = _limited(_popen(command, command.argv))
    try:
        cgroup.put(group, popen.pid)
    except OSError as error:  # it has ended already, or runs without
        log.debug("%d does not enter %s: %s", popen.pid, group, error.strerror)
    return popen


def refused(code: int | None, name: str | None) -> bool:
    """Whether a process that ended with `code`, and whose last name this is, was still our launcher."""
    return code in _REFUSED and name == _MARK


def _popen(command: Command, argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=command.cwd,
        env=command.env,
        stdin=command.stdin,
        stdout=command.stdout,
        stderr=command.stderr,
        umask=command.umask,
        start_new_session=True,
        close_fds=True,
    )


def _shell_carries(command: Command) -> bool:
    """Whether a shell hands on arguments and environment as they are."""
    names = command.env.keys()
    plain = _SHELLS_OWN.isdisjoint(names) and all(map(_VARIABLE.fullmatch, names))
    return plain and not command.argv[0].startswith("-")


def _kernel_knows(program: str) -> bool:
    """Whether it is a script that names its interpreter, or made for this machine. Any other file that the kernel does
    not execute a shell runs as a script; one that it cannot read it does not."""
    head = _head(program)
    return head is None or head.startswith(b"#!") or _machine(head) == _machine(_own_head())


def _machine(head: bytes | None) -> tuple[bytes, bytes] | None:
    """What of an ELF header says for which machine it is: word size, byte order and processor."""
    return (head[:6], head[18:20]) if head else None


@functools.cache
def _own_head() -> bytes | None:
    return _head("/proc/self/exe")


def _head(file: str) -> bytes | None:
    """Its first bytes, None where it cannot be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 20)
        finally:
            os.close(descriptor)
    except OSError:
        return None


def _shell_limits() -> str:
    soft = _open_files()
    return f"echo {_oom_score_adjust()} >/proc/self/oom_score_adj" + (f"; ulimit -S -n {soft}" if soft else "")


def _limited(popen: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """The same from outside, a moment after it was executed."""
    soft = _open_files()
    try:
        score = os.open(f"/proc/{popen.pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(score, str(_oom_score_adjust()).encode())
        finally:
            os.close(score)
        if soft:
            resource.prlimit(popen.pid, resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except OSError as error:  # another user's by now (setuid), or not there in a sandbox of ours
        log.debug("%d keeps our limits: %s", popen.pid, error.strerror)
    return popen


def _open_files() -> int | None:
    """The soft limit of descriptors that a program gets, None where ours will do."""
    return OPEN_FILES if resource.getrlimit(resource.RLIMIT_NOFILE)[0] > OPEN_FILES else None


@functools.cache
def _oom_score_adjust() -> int:
    """Never less than our own: that takes a privilege."""
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        return max(OOM_SCORE_ADJUST, int(file.read()))
