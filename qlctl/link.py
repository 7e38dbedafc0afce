"""One connection to the daemon: whole frames out, whole frames in."""

from __future__ import annotations

# The C module under socket: socket itself loads selectors, enum and more, which costs more than a bare start.
import _socket
import os

from questlined.wire.errors import DaemonUnreachable, InvalidInput, PermissionDenied
from questlined.wire.frames import NUL, Framer, FrameTooLong

MAX_REPLY_BYTES = 64 * 1024 * 1024
READ_BYTES = 256 * 1024


class ConnectionLost(Exception):
    """The connection ended before the reply was whole."""


class NobodyThere(Exception):
    """Nothing listens on the socket: no file, or no process behind it."""


class Link:
    """A connected stream socket. Raises NobodyThere, PermissionDenied or InvalidInput when it cannot be made."""

    def __init__(self, path: str, woken_by: int | None = None) -> None:
        """`woken_by`: a pipe that gets a byte for each signal, see `receive`."""
        self._woken_by = woken_by
        self._frames: list[bytes] = []
        self._framer = Framer(MAX_REPLY_BYTES)
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError):
                raise _why_not(path, error) from None
            raise

    def send(self, frame: bytes) -> None:
        """Send one frame, however long that takes. Raises ConnectionLost."""
        self._socket.settimeout(None)
        try:
            self._socket.sendall(frame + NUL)
        except (BrokenPipeError, ConnectionResetError):
            # The daemon may have said why before it hung up: what it sent can still be read, and if there is
            # nothing, reading raises.
            return
        except OSError as error:
            raise ConnectionLost(str(error)) from None

    def receive(self, timeout_s: float | None = None) -> bytes:
        """The next frame, without its NUL. Raises ConnectionLost, TimeoutError; DaemonUnreachable if it is endless."""
        self._socket.settimeout(timeout_s)
        while not self._frames:
            if self._woken_by is not None:
                self._wait(self._woken_by, timeout_s)
            try:
                data = self._socket.recv(READ_BYTES)
            except TimeoutError:
                raise
            except OSError as error:
                raise ConnectionLost(str(error)) from None
            if not data:
                raise ConnectionLost("the daemon hung up")
            self._take(data)
        return self._frames.pop(0)

    def _wait(self, woken_by: int, timeout_s: float | None) -> None:
        """Until there is something to read. A signal that comes just before a read would not end it: Python has its
        handler run when the read returns. The pipe's byte ends a poll, so that it runs then."""
        from select import POLLIN, poll

        ready = poll()
        for descriptor in (self._socket.fileno(), woken_by):
            ready.register(descriptor, POLLIN)
        while True:
            found = [descriptor for descriptor, _ in ready.poll(None if timeout_s is None else 1000 * timeout_s)]
            if not found:
                raise TimeoutError
            if found != [woken_by]:
                return
            os.read(woken_by, READ_BYTES)

    def _take(self, data: bytes) -> None:
        try:
            self._frames = self._framer.feed(data)
        except FrameTooLong:
            raise DaemonUnreachable(
                f"a reply of more than {MAX_REPLY_BYTES} bytes", hint="is that questlined's socket?"
            ) from None

    def hang_up(self) -> None:
        """Let a read or write under way, or the next, end as if the daemon had closed the connection."""
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already, by either side

    def close(self) -> None:
        """Hang up. Harmless when done twice."""
        self._socket.close()

    def __del__(self) -> None:
        # one command makes one client and is over: hanging up is nobody's task, and the C socket warns if left open
        self._socket.close()


def _why_not(path: str, error: OSError) -> Exception:
    """The exception for a connect that failed."""
    if isinstance(error, PermissionError):
        return PermissionDenied(f"no access to {path}", hint="the socket's owner or group may use it", what="connect")
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ConnectionError)):
        return NobodyThere(error.strerror or str(error))
    return InvalidInput(f"{path} is no socket to speak to: {error.strerror or error}", hint="see --socket")
