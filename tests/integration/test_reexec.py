"""What stands in the way of a new program, on a daemon in this process; the program that is asked is a real one."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from questlined import app
from questlined.attempts import runner
from questlined.config.load import Loaded, from_text
from questlined.operations import find
from questlined.reexec import replacement
from questlined.reexec.handover import Handover
from questlined.reexec.program import Program
from questlined.reexec.replacement import release_signals
from questlined.server.listener import Server
from questlined.store.lock import StateLock
from questlined.store.sqlite.store import SqliteStore
from questlined.wire.errors import StoreFull, Unavailable
from tests.integration.server.peer import MANAGER, QUESTS, Peer, Refused, frame
from tests.support.daemon import REPOSITORY, SHELL
from tests.support.evidence import PATIENCE_S, Fifo

T = TypeVar("T")
# Answers as the installed program does. It is started with the places of the daemon that asks it.
PROGRAM = Program((sys.executable, "-m", "questlined"), str(REPOSITORY))


@dataclass
class Here:
    """A daemon that serves on `folder`. Its clients work in threads, as they block."""

    folder: Path
    serving: asyncio.Task[int | Handover]

    @property
    def socket(self) -> str:
        return str(self.folder / "s.sock")

    def peer(self) -> Peer:
        return Peer(self.socket, str(self.folder))

    async def call(self, method: str, **parameters: Any) -> Any:
        with self.peer() as peer:
            return await asyncio.to_thread(peer.call, method, **parameters)

    async def refused(self) -> Refused:
        """The error of Reexec."""
        with pytest.raises(Refused) as refused:
            await self.call(MANAGER + "Reexec")
        return refused.value

    async def replaced(self) -> Handover:
        """Have it end for the next program; what that would be given."""
        await self.call(MANAGER + "Reexec")
        given = await self.serving
        assert isinstance(given, Handover)
        return given


def places(folder: Path) -> app.Places:
    return app.Places(folder, str(folder / "s.sock"), folder / "quests.sqlite", folder / "artifacts")


@asynccontextmanager
async def daemon(folder: Path, taken: Handover | None = None) -> AsyncIterator[Here]:
    """One that is up. It is stopped at the end, where it has not ended otherwise."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("QUESTLINE", "NOTIFY_"))}
    environ |= {"QUESTLINED_STATE": str(folder), "QUESTLINED_CONFIG": str(folder / "questlined.toml")}
    loaded = Loaded(from_text(SHELL + "scheduler.max_concurrent = 5\n"), {}, ())
    async with asyncio.timeout(PATIENCE_S):
        serving = asyncio.ensure_future(app.serve(loaded, places(folder), environ, PROGRAM, taken))
        here = Here(folder, serving)
        try:
            await _until(lambda: serving.done() or os.path.exists(here.socket))
            await here.call(MANAGER + "Status")
            yield here
        finally:
            if not serving.done():
                os.kill(os.getpid(), signal.SIGTERM)
            ended = await serving
            assert isinstance(ended, Handover) or ended == 0


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110  no event of this loop tells
        await asyncio.sleep(0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "questlined.toml").write_text(SHELL)
    monkeypatch.setattr(replacement, "JOIN_S", 0.2)  # other tests leave threads behind
    return tmp_path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacement, "REST_S", 0.3)


def play(story: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of its own, as each program has one; signals are as before after that."""
    try:
        return asyncio.run(story)
    finally:
        release_signals()


@pytest.mark.usefixtures("impatient")
def test_a_call_that_takes_too_long_keeps_the_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, it is answered in the end, and all goes on."""
    began, go = asyncio.Event(), asyncio.Event()
    real = find.quest

    async def slow(*arguments: Any, **more: Any) -> Any:
        began.set()
        await go.wait()
        return await real(*arguments, **more)

    async def story() -> None:
        async with daemon(folder) as here:
            with here.peer() as peer:
                quest = await asyncio.to_thread(peer.add)
                monkeypatch.setattr(find, "quest", slow)
                asking = asyncio.ensure_future(asyncio.to_thread(peer.call, QUESTS + "Get", id=quest))
                await began.wait()
                refused = await here.refused()
                assert refused.name == "io.questline.Unavailable"
                assert "a call that a client has made takes longer" in refused.parameters["message"]
                assert "nothing was changed" in refused.parameters["hint"]
                go.set()
                assert (await asking)["quest"]["id"] == quest
            assert (await here.call(MANAGER + "Status"))["version"]

    play(story())


@pytest.mark.usefixtures("impatient")
def test_a_database_that_another_program_holds_keeps_the_program(folder: Path) -> None:
    """An attempt whose end cannot be written is named; when it is, the program can be replaced."""

    async def story() -> None:
        hold, started = Fifo(folder / "hold"), Fifo(folder / "started")
        async with daemon(folder) as here:
            with here.peer() as peer:
                task = f'echo up >"{started.path}"; read x <"{hold.path}"'
                quest = await asyncio.to_thread(peer.add, task)
                await asyncio.to_thread(started.next)
                await _until_recorded(here, quest)
                other = sqlite3.connect(folder / "quests.sqlite", isolation_level=None)
                other.execute("BEGIN IMMEDIATE")
                hold.put()
                refused = await here.refused()
                assert quest in refused.parameters["message"] or "database" in refused.parameters["message"]
                other.execute("ROLLBACK")
                other.close()
            waited = await here.call(QUESTS + "Wait", id=quest)
            assert waited["quest"]["state"] == "done"
            await here.replaced()
        hold.close()
        started.close()

    play(story())


def test_an_end_that_cannot_be_written_any_more_is_left_to_the_next_program(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends in the last moment, when all is agreed, is waited for as long as a stop would, though the disk is
    full."""
    monkeypatch.setattr(runner, "LEAVE_S", 0.2)
    hold, started = Fifo(folder / "hold"), Fifo(folder / "started")
    farewell = Server.farewell

    async def full(*_: Any) -> None:
        raise StoreFull("the disk is full", hint="free some")

    async def goes() -> Handover:
        async with daemon(folder) as here:
            with here.peer() as peer:
                quest = await asyncio.to_thread(peer.add, f'echo $$ >"{started.path}"; read x <"{hold.path}"')
                pid = int(await asyncio.to_thread(started.next))
                await _until_recorded(here, quest)

            async def ends_meanwhile(server: Server) -> None:
                monkeypatch.setattr(SqliteStore, "finish", full)
                hold.put()
                await _until(lambda: not os.path.exists(f"/proc/{pid}"))
                await farewell(server)

            monkeypatch.setattr(Server, "farewell", ends_meanwhile)
            return await here.replaced()

    async def comes(given: Handover) -> None:
        async with daemon(folder, given) as here:
            hold.put()
            (quest,) = (await here.call(QUESTS + "List", allProjects=True))["quests"]
            found = (await here.call(QUESTS + "Wait", id=quest["id"]))["quest"]
            assert (found["state"], found["attempts"]) == ("done", 2)

    given = play(goes())
    assert given.attempts == ()
    monkeypatch.undo()
    play(comes(given))
    hold.close()
    started.close()


async def _until_recorded(here: Here, quest: str) -> None:
    while not (await here.call(QUESTS + "Get", id=quest))["quest"].get("agentRunId"):
        pass


def flood(peer: Peer, data: bytes) -> None:
    """Send for as long as somebody takes it, and read nothing."""
    peer.socket.settimeout(0.2)
    try:
        while True:
            peer.socket.sendall(data * 20)
    except TimeoutError:
        pass


def test_calls_that_came_whole_are_answered_and_the_next_wait_at_the_door(folder: Path) -> None:
    """One that waits for something is given up, one of which only a part came is not begun; a client that does not
    read keeps nobody."""
    peers: list[Peer] = []
    add = frame(QUESTS + "Add", {"task": "true", "directory": str(folder)})

    async def goes() -> Handover:
        async with daemon(folder) as here:
            peers.extend(here.peer() for _ in range(4))
            busy, waiting, half, lazy = peers
            quest = await asyncio.to_thread(busy.add, "true", notBefore=4_000_000_000_000)
            waiting.send(frame(QUESTS + "Wait", {"id": quest}, more=True))
            assert (await asyncio.to_thread(waiting.reply))["continues"]
            half.send(add[:20])
            description = frame("org.varlink.service.GetInterfaceDescription", {"interface": "io.questline.Quests"})
            await asyncio.to_thread(flood, lazy, description)
            busy.send(add * 50)
            return await here.replaced()

    given = play(goes())
    busy, waiting, half, _ = peers
    answers = [busy.receive() for _ in range(51)]
    assert [reply is not None and "error" not in reply for reply in answers] == [True] * 50 + [False]
    assert waiting.receive() is None
    assert half.receive() is None
    late = Peer(str(folder / "s.sock"), str(folder))
    late.send(add)

    async def comes() -> None:
        async with daemon(folder, given):
            assert "error" not in await asyncio.to_thread(late.reply)

    play(comes())
    for peer in (*peers, late):
        peer.close()


def test_what_is_handed_over_is_taken_over(folder: Path) -> None:
    """In one process, as where the next program cannot be executed: locks, socket and attempts, with nothing twice."""
    hold, started, quests = Fifo(folder / "hold"), Fifo(folder / "started"), list[str]()

    async def one(given: Handover | None) -> Handover:
        async with daemon(folder, given) as here:
            with here.peer() as peer:
                task = f'echo one; echo up >"{started.path}"; read x <"{hold.path}"; echo two'
                quests.append(await asyncio.to_thread(peer.add, task))
                await asyncio.to_thread(started.next)
            return await here.replaced()

    async def last(given: Handover) -> None:
        async with daemon(folder, given) as here:
            hold.put(3)
            for quest in quests:
                found = (await here.call(QUESTS + "Wait", id=quest))["quest"]
                assert (found["state"], found["result"], found["attempts"]) == ("done", "one\ntwo\n", 1)

    given = None
    for _ in range(3):
        given = play(one(given))
        assert len(given.attempts) == len(quests)
        with pytest.raises(Unavailable, match="belongs to another questlined"):
            StateLock(folder / "lock").acquire({})
    assert given is not None
    play(last(given))
    assert not (folder / "s.sock").exists()
    hold.close()
    started.close()


def test_what_the_store_does_not_know_as_running_is_ended(folder: Path) -> None:
    """Its attempt was settled by somebody else in between: nothing of it may live on."""
    started = Fifo(folder / "started")

    async def goes() -> tuple[int, Handover]:
        async with daemon(folder) as here:
            with here.peer() as peer:
                await asyncio.to_thread(peer.add, f'echo $$ >"{started.path}"; exec sleep 1000')
            pid = int(await asyncio.to_thread(started.next))
            return pid, await here.replaced()

    async def comes(pid: int, given: Handover) -> None:
        async with daemon(folder, given):
            await _until(lambda: not os.path.exists(f"/proc/{pid}"))

    pid, given = play(goes())
    db = sqlite3.connect(folder / "quests.sqlite", isolation_level=None)
    db.execute("UPDATE quest_runs SET lease_gen = lease_gen + 1")
    db.execute("UPDATE quests SET lease_gen = lease_gen + 1")
    db.close()
    play(comes(pid, given))
    started.close()
