"""What the daemon tells systemd. The only import of sdnotify."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import sdnotify

STATUS_MAX = 1000  # characters: of at most 4 bytes each, and the manager drops datagrams above 4096
ONCE_S = 1.0


class Notifier:
    """Speaks to $NOTIFY_SOCKET of the given environment; without one, every call does nothing.

    `problem` is why the last message could not be sent, None while all is well: telling systemd must never be what
    stops the daemon. A manager that hangs is waited for up to ONCE_S with what is said once, and not at all with what
    is said again and again. `watchdog_ms` is WatchdogSec= if it is meant for this process, else None.
    """

    def __init__(self, environ: Mapping[str, str], pid: int | None = None) -> None:
        self.problem: str | None = None
        self.watchdog_ms = _watchdog_ms(environ, os.getpid() if pid is None else pid)
        self._channel: _Channel | None = None
        address = environ.get("NOTIFY_SOCKET")
        if address:
            try:
                self._channel = _Channel(address)
            except OSError as error:
                self.problem = f"NOTIFY_SOCKET {address}: {error.strerror}"

    @property
    def there(self) -> bool:
        """Whether somebody is told."""
        return self._channel is not None

    def ready(self) -> None:
        """The daemon serves, for the first time or again after `reloading`."""
        self._send("READY=1", ONCE_S)

    def stopping(self) -> None:
        """The daemon winds down."""
        self._send("STOPPING=1", ONCE_S)

    def reloading(self, monotonic_usec: int) -> None:
        """Settings are read again; `ready` must follow. Takes CLOCK_MONOTONIC in microseconds."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_usec}", ONCE_S)

    def watchdog(self) -> None:
        """A sign of life."""
        self._send("WATCHDOG=1")

    def extend_timeout(self, ms: int) -> None:
        """Starting or stopping takes up to this much longer, counted from now."""
        self._send(f"EXTEND_TIMEOUT_USEC={ms * 1000}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`: control characters become spaces, whatever is no Unicode `?`."""
        # A newline would begin another field, so text from outside could say READY=1 or MAINPID=.
        line = "".join(letter if letter.isprintable() else " " for letter in text.encode(errors="replace").decode())
        self._send(f"STATUS={line[:STATUS_MAX]}")

    def close(self) -> None:
        """Let go of the socket; later calls do nothing."""
        if self._channel is not None:
            self._channel.socket.close()
            self._channel = None

    def _send(self, fields: str, wait_s: float = 0.0) -> None:
        if self._channel is None:
            return
        # sdnotify encodes as Latin-1, but the manager takes UTF-8 only: hand it characters that stand for the bytes.
        try:
            self._channel.socket.settimeout(wait_s)
            self._channel.notify(fields.encode().decode("latin-1"))
            self.problem = None
        except OSError as error:
            self.problem = f"NOTIFY_SOCKET: {error.strerror or error}"


class _Channel(sdnotify.SystemdNotifier):  # type: ignore[misc]
    """sdnotify on a given address: its own constructor reads os.environ, and leaks a socket where that fails."""

    def __init__(self, address: str) -> None:
        self.debug = True  # raise what sdnotify would swallow
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.connect("\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            self.socket.close()
            raise


def _watchdog_ms(environ: Mapping[str, str], pid: int) -> int | None:
    usec, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(pid))
    if owner != str(pid) or not (usec.isascii() and usec.isdigit() and len(usec) < 20):
        return None
    return max(int(usec) // 1000, 1) if int(usec) else None
