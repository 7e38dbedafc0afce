"""What the daemon has of the machine for as long as it lives: the sockets it listens on, and its locks."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

from questlined.reexec.handover import Handover
from questlined.server.listener import bind
from questlined.store.lock import StateLock
from questlined.sysd.listen import inherited

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Belongings:
    """`activated`: the sockets are systemd's, and stay when the daemon goes. `address` is where they listen."""

    sockets: list[socket.socket]
    activated: bool
    locks: list[StateLock]
    address: str

    def release(self) -> None:
        """Let go of everything. Our own socket goes with us, so that clients are told at once that nobody is there."""
        for listening in self.sockets:
            listening.close()
        if not self.activated:
            _remove(self.address)
        for lock in self.locks:
            lock.release()

    def hand_over(self) -> tuple[tuple[int, ...], bool, dict[str, int]]:
        """In place of `release`: descriptors that stay open, as Handover has them."""
        sockets = tuple(listening.detach() for listening in self.sockets)
        return sockets, self.activated, {os.path.realpath(lock.path): lock.hand_over() for lock in self.locks}


def acquire(
    state: Path, database: Path, address: str, mode: int, environ: MutableMapping[str, str], taken: Handover | None
) -> Belongings:
    """Take the locks and listen: on what the program before this one handed over, on what systemd listens on, or at
    `address`. Raises Unavailable, naming the daemon that has the state directory, and InvalidInput."""
    given = inherited(environ, os.getpid()) if taken is None else [_socket(each) for each in taken.sockets]
    if given:  # what was opened for us is where we are, whatever else was said
        address = os.fsdecode(given[0].getsockname())
    locks = _lock(state, database, {"pid": os.getpid(), "socket": address}, taken.locks if taken else {})
    activated = bool(given) if taken is None else taken.activated
    return Belongings(given or [bind(address, mode)], activated, locks, address)


def _socket(descriptor: int) -> socket.socket:
    listening = socket.socket(fileno=descriptor)
    listening.setblocking(False)
    return listening


def _lock(state: Path, database: Path, holder: dict[str, object], held: dict[str, int]) -> list[StateLock]:
    """The state directory's lock and the database's own: another daemon's store.path may name this very file."""
    database = database.resolve()
    locks = [StateLock(state / "lock"), StateLock(database.with_name(f"{database.name}.lock"))]
    for lock in locks:
        descriptor = held.get(os.path.realpath(lock.path))
        if descriptor is None:
            lock.acquire(holder)
        else:
            lock.take_over(descriptor, holder)
    return locks


def _remove(path: str) -> None:
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s: %s, ignoring", path, error.strerror)
