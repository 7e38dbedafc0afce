"""The socket: made so that nobody else can open it for an instant, or taken over from systemd."""

from __future__ import annotations

import asyncio
import errno
import grp
import logging
import os
import pwd
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from questlined.operations.context import Context
from questlined.server import dispatch
from questlined.server.session import Session
from questlined.services.service import Complaint
from questlined.wire.errors import InvalidInput, LimitReached, Unavailable

log = logging.getLogger(__name__)
BACKLOG = 128
AGAIN_S = 1.0
LAST_WORDS_S = 0.5
ENTRY_TURNS = 8  # of the loop, from a connection in the queue to the first bytes that are read


def bind(path: str, mode: int) -> socket.socket:
    """A listening socket at `path` with `mode`. A dead one is replaced. Raises Unavailable, InvalidInput."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory, mode=0o700)
    _remove_dead(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(path)
    except OSError as error:
        listening.close()
        raise Unavailable(f"{path}: {error.strerror}", hint="choose another place with --socket") from error
    finally:
        os.umask(before)
    os.chmod(path, mode)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def _remove_dead(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidInput(
            f"{path} is there and is no socket", hint="choose another place with --socket", field="socket"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError as error:
            if error.errno != errno.ECONNREFUSED:
                raise Unavailable(f"{path}: {error.strerror}", hint="choose another place with --socket") from error
            os.unlink(path)
            return
    raise Unavailable(f"another daemon answers on {path}", hint="stop it, or choose another place with --socket")


def admin_gid(group: str | None) -> int | None:
    """The group's number, None without one. Raises InvalidInput."""
    if group is None:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise InvalidInput(f"there is no group {group}", hint="make it, or name another", field="admin_group") from None


class Server:
    """Accepts connections up to bounds.max_connections and runs a session for each in `tasks`."""

    def __init__(self, ctx: Context, tasks: asyncio.TaskGroup, admins: int | None) -> None:
        self._ctx, self._tasks, self._admins = ctx, tasks, admins
        self._sessions: set[Session] = set()
        self._listening: dict[socket.socket, asyncio.TimerHandle | None] = {}  # with the timer that opens it again
        self._short = Complaint(log, "clients wait at the door")
        self._closed = False
        self._finishing = False
        self._leaving: list[Session] = []  # those that were there when that began

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._sessions)

    def admit(self, admins: int | None) -> None:
        """Members of this group may do all that the owner may, from their next connection on."""
        self._admins = admins

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept on these."""
        for listening in sockets:
            listening.setblocking(False)  # it listens, and how many may wait at it is whose it is to say
            self._open(listening)

    def stop_accepting(self) -> None:
        """Close the door; sessions go on. Clients that come now wait in systemd's socket, or are refused."""
        for listening, again in self._listening.items():
            if again is not None:
                again.cancel()
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._listening.clear()

    async def finish(self, but: asyncio.Task[Any] | None) -> None:
        """Accept nobody for now (who comes waits at the door), answer what was asked, and hang up: returns when every
        session has ended but that of the task `but`. Undo with `go_on`."""
        for listening, again in self._listening.items():
            if again is not None:
                again.cancel()
            asyncio.get_running_loop().remove_reader(listening)
        # Who was let in just before has sent its call, most likely: not every client asks again where it is hung up on.
        for _ in range(ENTRY_TURNS):
            await asyncio.sleep(0)
        self._finishing, self._leaving = True, list(self._sessions)
        for session in self._leaving:
            if session.task is not but:
                session.finish()
        while others := [session.task for session in self._sessions if session.task and session.task is not but]:
            await asyncio.wait(others)

    def go_on(self) -> None:
        """Accept again."""
        self._finishing = False
        for listening in list(self._listening):
            self._open(listening)

    async def farewell(self) -> None:
        """After `finish`: the session that it left takes no more calls, either. Returns when what was written is sent;
        what is not taken in time is dropped."""
        for session in self._sessions:
            session.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                for session in self._leaving:
                    await session.gone.wait()
        for session in self._leaving:
            session.drop()

    async def last_words(self) -> None:
        """Let streams tell how what they followed has ended; those that wait on are not waited for."""
        if self._ctx.streams:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._ctx.no_stream.wait()

    def close(self) -> None:
        """End every session, and those that the loop has accepted and not yet begun."""
        self._closed = True
        for session in list(self._sessions):
            if session.task is not None:
                session.task.cancel()
            session.close()

    def is_owner(self, uid: int, gid: int) -> bool:
        """Whether this peer is the daemon's uid, root, or of the admin group."""
        if uid in (0, os.geteuid()):
            return True
        return self._admins is not None and (gid == self._admins or self._admins in _groups(uid, gid))

    def _open(self, listening: socket.socket) -> None:
        self._listening[listening] = None
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Take who is there. Without a descriptor for them nobody is looked for during AGAIN_S: asyncio's own server
        would write a traceback for each of BACKLOG tries."""
        for _ in range(BACKLOG):
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._short.because(error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                self._listening[listening] = loop.call_later(AGAIN_S, self._open, listening)
                return
            self._short.over()
            connection.setblocking(False)
            self._tasks.create_task(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self.session, connection)
        except OSError as error:
            log.warning("a client cannot be served: %s, ignoring", error)
            connection.close()

    def session(self) -> Session:
        """What serves one connection."""
        return Session(self._ctx, self.is_owner, self._accepted)

    def _accepted(self, session: Session) -> None:
        if self._closed or self._finishing:
            session.close()
            return
        limit = self._ctx.config.bounds.max_connections
        if len(self._sessions) >= limit:
            error = LimitReached(
                f"{limit} clients are connected already",
                hint="close some, or raise bounds.max_connections",
                setting="bounds.max_connections",
                retryAfterMs=1000,
            )
            session.refuse(dispatch.error_frame(error))
            return
        self._sessions.add(session)
        session.task = self._tasks.create_task(session.run())
        session.task.add_done_callback(lambda _: self._sessions.discard(session))


def _groups(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return []
