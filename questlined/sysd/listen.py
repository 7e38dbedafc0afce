"""Sockets that systemd opened for the daemon: sd_listen_fds(3)."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import MutableMapping

FIRST = 3  # SD_LISTEN_FDS_START
NAMES = ("questlined", "varlink", "unknown", "")  # FileDescriptorName=; what Varlink tools say; none was given
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
log = logging.getLogger(__name__)


def inherited(environ: MutableMapping[str, str], pid: int, first: int = FIRST) -> list[socket.socket]:
    """The listening Unix stream sockets passed to process `pid`, in order; close-on-exec.

    Anything else that was passed is closed and named in a warning, a socket that somebody named for another purpose,
    too; the name of a socket unit without FileDescriptorName= is no such name. The variables are removed from
    `environ`, as they would tell a child that the sockets are its own; meant for another process, they count for
    nothing.
    """
    given = {name: environ.pop(name, "") for name in _VARIABLES}
    if given["LISTEN_PID"] != str(pid):
        return []
    number = given["LISTEN_FDS"]
    if not (number.isascii() and number.isdigit() and len(number) <= 5):
        log.warning("LISTEN_FDS=%s is no number, ignoring", number[:20])
        return []
    names = given["LISTEN_FDNAMES"].split(":")
    found = []
    for index in range(int(number)):
        taken = _take(first + index, names[index] if index < len(names) else "unknown")
        if taken is not None:
            found.append(taken)
    return found


def _take(descriptor: int, name: str) -> socket.socket | None:
    """The listening socket behind a descriptor; another kind is closed."""
    reason = _unfit(descriptor) or _misnamed(name)
    if reason is None:
        os.set_inheritable(descriptor, False)
        listening = socket.socket(fileno=descriptor)
        listening.setblocking(False)
        return listening
    log.warning("descriptor %d (%s) %s, ignoring", descriptor, name, reason)
    try:
        os.close(descriptor)
    except OSError:
        pass  # it was never open
    return None


def _misnamed(name: str) -> str | None:
    """Why a socket of this name is not for our clients, None if it is."""
    return None if name in NAMES or name.endswith(".socket") else "is named for something else"


def _unfit(descriptor: int) -> str | None:
    """Why the daemon cannot accept connections on a descriptor, None if it can."""
    try:
        duplicate = os.dup(descriptor)
    except OSError:
        return "is not open"
    try:
        probe = socket.socket(fileno=duplicate)
    except OSError as error:
        os.close(duplicate)
        return "is no socket" if error.errno == errno.ENOTSOCK else f"cannot be looked at: {error.strerror}"
    with probe:
        if probe.family != socket.AF_UNIX or probe.type != socket.SOCK_STREAM:
            return "is no Unix stream socket"
        if not probe.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "does not listen"
    return None
