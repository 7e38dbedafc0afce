"""A session in the daemon itself, where the moment at which its peer goes away can be chosen."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from questlined.operations import find
from questlined.operations.context import Caller, Context
from questlined.server.session import Session
from questlined.store.reading import Page
from questlined.store.sqlite.requests import Operation
from tests.integration.server.peer import QUESTS, frame
from tests.support.parts import Parts, parts

ME = Caller(os.geteuid(), os.getegid(), os.getpid(), owner=True)


@dataclass(slots=True)
class Line:
    """A session, its transport, and the client's end."""

    here: Parts
    ctx: Context
    session: Session
    transport: asyncio.Transport
    client: socket.socket

    async def add(self, *names: str) -> None:
        """Adds in one write. Their place is at hand, so that they are begun as they come."""
        directory = self.here.project.key
        await find.project_ref(self.ctx, None, directory)
        calls = [{"task": "true", "directory": directory, "name": name, "external": True} for name in names]
        self.client.sendall(b"".join(frame(QUESTS + "Add", call) for call in calls))

    async def begun(self, number: int) -> None:
        """Returns when so many calls are under way."""
        while len(self.session._begun) < number:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0)

    async def replies(self) -> list[dict[str, Any]]:
        """All that comes until the session hangs up."""
        loop, read = asyncio.get_running_loop(), b""
        while data := await loop.sock_recv(self.client, 65536):
            read += data
        return [json.loads(each) for each in read.split(b"\0")[:-1]]


def play(folder: Path, story: Callable[[Line], Awaitable[None]], config: str = "") -> None:
    async def run() -> None:
        async with parts(folder, config) as here:
            runtime, ctx = here.runtime, here.context()
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)

            def started(session: Session) -> None:
                session.task = runtime.tasks.create_task(session.run())

            transport, session = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Session(ctx, lambda uid, gid: True, started), ours
            )
            with theirs:
                await story(Line(here, ctx, session, cast(asyncio.Transport, transport), theirs))
            transport.close()
            runtime.records.close()

    asyncio.run(run())


def test_a_peer_that_ends_as_its_add_is_committed_has_it_stored_and_answered_once(tmp_path: Path) -> None:
    """The end of its direction wakes the session between the commit's answer and the one who waits for that."""

    async def story(line: Line) -> None:
        line.here.changes.on_claimable.append(lambda: cast(None, line.session.eof_received()))
        await line.add("a")
        assert [reply["parameters"]["quest"]["name"] for reply in await line.replies()] == ["a"]
        stored = await line.ctx.store.page(Page(project=None, limit=10))
        assert [quest.name for quest in stored] == ["a"]

    play(tmp_path, story)


def test_a_refusal_that_nobody_waits_for_any_more_is_no_fault(tmp_path: Path) -> None:
    """The peer is gone when the store refuses one of its adds: asyncio has no exception to complain about."""

    async def story(line: Line) -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        line.here.changes.on_claimable.append(line.transport.abort)
        await line.add("a", "one too many")
        assert await line.replies() == []
        assert line.session.task is not None
        await asyncio.wait([line.session.task])
        await line.ctx.store.touch()  # the writer has let go of what it did before
        gc.collect()
        assert complaints == []

    play(tmp_path, story, "bounds.max_waiting = 1\n")


def test_a_peer_that_goes_leaves_its_place_when_its_calls_are_done(tmp_path: Path) -> None:
    """However long the store takes for them; a call whose turn had not come is dropped."""

    async def story(line: Line) -> None:
        reached, go = threading.Event(), threading.Event()
        store, task = line.here.bench.store, line.session.task
        assert task is not None
        slow = store.writer.submit(Operation("slow", lambda db, request, effects: reached.set() or go.wait()), None)
        await asyncio.get_running_loop().run_in_executor(None, reached.wait, 30)
        await line.add("a", "b")
        line.client.sendall(frame("io.questline.Projects.Pause", {"all": True}))
        await line.begun(2)
        line.transport.abort()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        go.set()
        await asyncio.wait([task])
        assert slow.done()
        assert {quest.name for quest in await store.page(Page(project=None, limit=10))} == {"a", "b"}
        assert await store.daemon_paused() is None

    play(tmp_path, story)
