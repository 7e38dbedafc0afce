"""Log records for the journal: sent to its own socket with their fields where standard error is connected to it, else
lines on standard error.

A record's fields come by `log.info(..., extra={"fields": {"QUESTLINE_ID": ...}})`; their names are of our own making,
their values may hold anything. The loop never waits for a journal that is busy: records wait for it in a thread, up
to a bound above which they are counted and left out.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from questlined.sysd.messages import MESSAGE_IDS

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "questlined"
MESSAGE_MAX = 1024 * 1024  # characters: a traceback has no bound of its own
BACKLOG_MAX = 4096  # records
FLUSH_S = 1.0
_SEND_BUFFER = 8 * 1024 * 1024
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
LINE = "%(levelname)s %(message)s"


def set_up(environ: Mapping[str, str], level: int = logging.INFO) -> None:
    """Send all log records where they belong."""
    handler: logging.Handler
    if connected(environ):
        handler = JournalHandler(Sender(SOCKET))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(LINE))
    logging.basicConfig(level=level, handlers=[handler])


def connected(environ: Mapping[str, str]) -> bool:
    """Whether standard error is still the stream that systemd connected to the journal, and no file or terminal."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def in_use() -> bool:
    """Whether log records go to the journal."""
    return any(isinstance(handler, JournalHandler) for handler in logging.root.handlers)


def flush() -> None:
    """Wait, up to FLUSH_S, until the journal has what was said: before the program ends."""
    for handler in logging.root.handlers:
        handler.flush()


def priority(level: int) -> int:
    """A logging level as syslog(3) counts."""
    steps = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
    return next((number for least, number in steps if level >= least), 7)


def datagram(fields: Iterable[tuple[str, str]]) -> bytes:
    """The fields in the journal's native format: a value of several lines, or with other control characters, is given
    with its length, so that nothing in it begins another field."""
    return b"".join(_field(name, value.encode(errors="backslashreplace")) for name, value in fields)


def _field(name: str, value: bytes) -> bytes:
    if min(value, default=0x20) >= 0x20:
        return b"%b=%b\n" % (name.encode(), value)
    return b"%b\n%b%b\n" % (name.encode(), len(value).to_bytes(8, "little"), value)


class JournalHandler(logging.Handler):
    """Hands records to `sender`; while there is no journal, they are lines on standard error."""

    def __init__(self, sender: Sender) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))  # the level is a field of its own
        self._sender = sender
        self._lines = logging.StreamHandler(sys.stderr)
        self._lines.setFormatter(_Prefixed(LINE))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            taken = self._sender.send(datagram(self._fields(record)))
        except Exception:
            self.handleError(record)
            return
        if not taken:
            self._lines.emit(record)

    def flush(self) -> None:
        self._sender.flush(FLUSH_S)

    def close(self) -> None:
        self._sender.close()
        super().close()

    def _fields(self, record: logging.LogRecord) -> list[tuple[str, str]]:
        own: Mapping[str, object] = getattr(record, "fields", {})
        message = self.format(record)[:MESSAGE_MAX]
        fields = [("MESSAGE", message), ("PRIORITY", str(priority(record.levelno))), ("SYSLOG_IDENTIFIER", IDENTIFIER)]
        fields += [(name, str(value)) for name, value in own.items() if value is not None]
        known = MESSAGE_IDS.get(str(own.get("QUESTLINE_EVENT")))
        return [*fields, ("MESSAGE_ID", known)] if known else fields


class _Prefixed(logging.Formatter):
    """Lines with the priority before them, which systemd takes off (SyslogLevelPrefix=)."""

    def format(self, record: logging.LogRecord) -> str:
        mark = f"<{priority(record.levelno)}>"
        return "\n".join(mark + line for line in super().format(record).splitlines())


class Sender:
    """The journal's socket. `send` never waits; records that find it full wait in a thread, in their order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.RLock()  # what the garbage collector ends may log, in the middle of a record
        self._socket: socket.socket | None = None
        self._backlog: deque[bytes] = deque()
        self._dropped = 0
        self._drained = threading.Event()
        self._drained.set()

    def send(self, record: bytes) -> bool:
        """Whether the journal takes it, now or soon; False where there is none."""
        with self._lock:
            if not self._drained.is_set():
                self._wait_in_line(record)
                return True
            try:
                self._put(record)
            except BlockingIOError:
                return self._begin_line(record)
            except OSError:
                return False
            return True

    def flush(self, timeout_s: float) -> None:
        """Until nothing waits any more, or the time is over."""
        self._drained.wait(timeout_s)

    def close(self) -> None:
        """Let go of the socket."""
        with self._lock:
            self._hang_up()

    def _put(self, record: bytes) -> None:
        """Send it; a journal that was started anew has another socket at the same place. Raises OSError."""
        try:
            self._put_once(record)
        except (ConnectionError, FileNotFoundError):
            self._hang_up()
            self._put_once(record)

    def _put_once(self, record: bytes) -> None:
        to = self._connection()
        try:
            to.send(record)
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            with _sealed(record) as memory:
                socket.send_fds(to, [b""], [memory])

    def _connection(self) -> socket.socket:
        if self._socket is None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                made.setblocking(False)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
                made.connect(self._path)
            except OSError:
                made.close()
                raise
            self._socket = made
        return self._socket

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _wait_in_line(self, record: bytes) -> None:
        if len(self._backlog) < BACKLOG_MAX:
            self._backlog.append(record)
        else:
            self._dropped += 1

    def _begin_line(self, record: bytes) -> bool:
        """The journal's queue is full: whatever comes from now on stands behind this one."""
        try:
            threading.Thread(target=self._drain, name="journal", daemon=True).start()
        except RuntimeError:  # no thread can be had
            self._dropped += 1
            return True
        self._wait_in_line(record)
        self._drained.clear()
        return True

    def _drain(self) -> None:
        while self._next():
            to = self._socket
            if to is not None:
                room = select.poll()  # select.select takes no descriptor above 1023
                room.register(to, select.POLLOUT)
                room.poll()

    def _next(self) -> bool:
        """Send what the journal takes; whether some is left. Called in the thread only."""
        with self._lock:
            try:
                while self._backlog:
                    self._put(self._backlog[0])
                    self._backlog.popleft()
                    if self._dropped and not self._backlog:
                        self._backlog.append(_lost(self._dropped))
                        self._dropped = 0
            except BlockingIOError:
                return True
            except OSError:  # it went away: the next record finds its way to standard error
                self._dropped += len(self._backlog)
                self._backlog.clear()
            self._drained.set()
            return False


@contextmanager
def _sealed(record: bytes) -> Iterator[int]:
    """A descriptor of sealed memory with a record that is too long for one datagram."""
    memory = os.memfd_create("journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(memory, "wb", closefd=False) as writing:
            writing.write(record)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
        yield memory
    finally:
        os.close(memory)


def _lost(number: int) -> bytes:
    said = f"{number} log records are left out: the journal did not take them in time"
    return datagram((("MESSAGE", said), ("PRIORITY", "4"), ("SYSLOG_IDENTIFIER", IDENTIFIER)))
