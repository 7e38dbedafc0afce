"""`questlined --detach`: the daemon away from the terminal, on machines without systemd. The only import of
python-daemon.

The command stays until the daemon is READY, or has failed, and then says what the daemon said and ends as it did.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import select
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import daemon
from daemon.daemon import DaemonError

from questlined.wire.address import PLACES
from questlined.wire.errors import InvalidInput, QuestlineError, Unavailable

MANAGED = ("NOTIFY_SOCKET", "LISTEN_FDS")
LOG_BYTES = 8 * 1024 * 1024  # then the log begins anew; the one before is kept
PASSED_BYTES = 65_536  # a pipe takes as much without a reader
_CREDENTIALS = struct.Struct("3i")


def detached(run: Callable[[], int], state: Path) -> int:
    """Have `run` work as a daemon, with a pid file and a log in `state`. To be called before there is any thread.

    It returns twice: in the caller with 0 when the daemon is READY, and in the daemon with what `run` gave. Raises
    what `run` raises, there and here, and Unavailable where a daemon runs or none can be started.
    """
    for name in MANAGED:
        if name in os.environ:
            raise InvalidInput(
                f"--detach: a service manager has started this ({name} is set), and looks after it",
                hint="leave --detach out",
                field="--detach",
            )
    _have_standard_streams()
    pid_file, log = PidFile(state / "questlined.pid"), LogFile(state / "questlined.log")
    pid_file.acquire()
    log.open()
    heard, told = os.pipe()
    with Ear() as ear:
        if os.fork():
            os.close(told)
            pid_file.close()
            return _await(ear, heard, log.path)
    # From here on in the child, and after `open` in its grandchild, the daemon.
    os.close(heard)
    try:
        with _context(pid_file, log, told, state):
            _settle_in(ear.address, log)
            return run()
    except DaemonError as error:
        return _tell(told, Unavailable(f"--detach: {error}", hint="is the machine short of processes or memory?"))
    except QuestlineError as error:
        _tell(told, error)
        raise


def continued(run: Callable[[], int], state: Path) -> int:
    """What `run` gives in a daemon that has replaced its program: it is away from the terminal, and has its pid file
    and that one's lock."""
    pid_file, log = PidFile(state / "questlined.pid"), LogFile(state / "questlined.log")
    os.chdir(state)
    log.open()
    logging.basicConfig(handlers=[log.handler()], level=logging.INFO, force=True)
    with pid_file.as_it_is():
        return run()


def _context(pid_file: PidFile, log: LogFile, told: int, state: Path) -> daemon.DaemonContext:
    """Away from the terminal, its session and directory; the rest stays as the caller had it.

    python-daemon's own choices would reach every child: umask 0, no core dumps, and signals of the terminal ignored.
    """
    umask = os.umask(0o022)
    os.umask(umask)
    return daemon.DaemonContext(
        detach_process=True,
        working_directory=str(state),
        umask=umask,
        prevent_core=False,
        signal_map={},
        files_preserve=[pid_file.descriptor, told],
        pidfile=pid_file,
        stdout=log,
        stderr=log,
    )


def _settle_in(address: str, log: LogFile) -> None:
    """The daemon tells the one who waits that it is ready as it would tell systemd; every record goes to the log."""
    os.environ["NOTIFY_SOCKET"] = address
    logging.basicConfig(handlers=[log.handler()], level=logging.INFO, force=True)


def absolute_paths(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that name a place, as they are seen from here: the daemon works elsewhere."""
    return {name: os.path.abspath(os.path.expanduser(environ[name])) for name in PLACES if environ.get(name)}


def _have_standard_streams() -> None:
    """A shell's `<&-` leaves their numbers free, and the next files that are opened would get them."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for at, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(at, "w" if at else "r", closefd=False))  # noqa: SIM115  for as long as we live


def _tell(told: int, error: QuestlineError) -> int:
    """Send an error to the one who waits; nobody does any more once the daemon was ready."""
    text = json.dumps([error.exit_status, error.message, error.hint]).encode()
    with contextlib.suppress(OSError):
        os.write(told, text[:PASSED_BYTES])
    return error.exit_status


def _await(ear: Ear, heard: int, log: Path) -> int:
    """0 when the daemon is READY. Raises the error that ended it."""
    try:
        os.wait()  # python-daemon's first fork leaves at once
        while True:
            ready, _, _ = select.select([ear.socket.fileno(), heard], [], [])
            if ear.socket.fileno() in ready:
                if (pid := ear.ready()) is not None:
                    sys.stdout.write(f"questlined runs, pid {pid}; its log is {log}\n")
                    return 0
            else:
                raise _failure(_read(heard), log)
    except KeyboardInterrupt:
        sys.stderr.write(f"questlined goes on starting in the background; its log is {log}\n")
        return 130
    finally:
        os.close(heard)


def _read(heard: int) -> bytes:
    """All up to the end of the pipe."""
    text = b""
    while part := os.read(heard, PASSED_BYTES):
        text += part
    return text


def _failure(text: bytes, log: Path) -> QuestlineError:
    try:
        status, message, hint = json.loads(text)
    except ValueError:
        return Unavailable("the daemon ended before it was ready", hint=f"its log is {log}")
    failure = QuestlineError(message, hint=hint)
    failure.exit_status = status
    return failure


class Ear:
    """Where the daemon says READY=1: sd_notify's protocol, on an address that nobody else knows."""

    def __init__(self) -> None:
        self.address = f"@questlined-detach-{secrets.token_hex(12)}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind("\0" + self.address[1:])

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def ready(self) -> int | None:
        """Read one message: the pid of the daemon if it says that it is ready, and comes from a process of ours."""
        text, extra, _, _ = self.socket.recvmsg(65_536, socket.CMSG_SPACE(_CREDENTIALS.size))
        for level, kind, data in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) >= _CREDENTIALS.size:
                pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                if uid == os.geteuid() and b"READY=1" in text.split(b"\n"):
                    return int(pid)
        return None


class PidFile:
    """A file with the daemon's pid, for people and scripts. Its lock decides whether a daemon runs: a pid that was left
    in it by a kill -9, and may be a stranger's by now, keeps nobody from starting."""

    def __init__(self, path: Path) -> None:
        self.path, self.descriptor = path, -1

    def acquire(self) -> None:
        """Take the lock. Raises Unavailable, naming the daemon that has it."""
        self.descriptor = _opened(self.path, os.O_RDWR)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = os.pread(self.descriptor, 32, 0).decode("ascii", "replace").strip()
            self.close()
            raise Unavailable(
                f"questlined runs already, {f'pid {first}' if first else 'and is starting'} ({self.path})",
                hint="use that one, stop it, or choose another --state",
            ) from None
        # The lock is the daemon's for as long as it lives, also when it has replaced its program by a newer one.
        os.set_inheritable(self.descriptor, True)

    def as_it_is(self) -> PidFile:
        """After an exec, which the descriptor with the lock has survived: another one, to write by."""
        self.descriptor = _opened(self.path, os.O_RDWR)
        return self

    def close(self) -> None:
        """Let go of the file, and of the lock unless the daemon has it, too."""
        os.close(self.descriptor)

    def __enter__(self) -> PidFile:
        """In the daemon: write the pid down."""
        self._write(f"{os.getpid()}\n".encode())
        return self

    def __exit__(self, *exc: object) -> None:
        """Empty it. It stays: removing it would let two daemons hold locks on two files of one name."""
        self._write(b"")

    def _write(self, text: bytes) -> None:
        with contextlib.suppress(OSError):  # the lock holds without it, on a disk that is full
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, text, 0)


class LogFile:
    """The daemon's stdout and stderr. Above LOG_BYTES it becomes `NAME.1`, in place of an older one."""

    def __init__(self, path: Path) -> None:
        self.path, self._descriptor = path, -1

    def open(self) -> None:
        """Raises Unavailable where it cannot be written."""
        self._make_room()
        self._descriptor = _opened(self.path, os.O_WRONLY | os.O_APPEND)

    def fileno(self) -> int:
        """For python-daemon, which puts it in place of stdout and stderr."""
        return self._descriptor

    def handler(self) -> logging.Handler:
        """Writes records with their time, and keeps the file below its bound."""
        handler = _ToLog(self)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        return handler

    def keep_bounded(self) -> None:
        """Begin a new file where this one is full; what cannot be done now is done later."""
        with contextlib.suppress(OSError, Unavailable):
            if self._make_room():
                fresh = _opened(self.path, os.O_WRONLY | os.O_APPEND)
                for number in (self._descriptor, 1, 2):
                    os.dup2(fresh, number, inheritable=number <= 2)
                os.close(fresh)

    def _make_room(self) -> bool:
        try:
            full = self.path.stat().st_size > LOG_BYTES
        except FileNotFoundError:
            return False
        if full:
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        return full


class _ToLog(logging.StreamHandler):  # type: ignore[type-arg]
    def __init__(self, log: LogFile) -> None:
        super().__init__(sys.stderr)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, then look at the size."""
        super().emit(record)
        self._log.keep_bounded()


def _opened(path: Path, how: int) -> int:
    """A private file of ours. Raises Unavailable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, how | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="choose another --state") from error
