"""The writer: group commit, its error rules, and the order in which a commit is told."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from questlined.store.effects import Effects
from questlined.store.protocol import Token
from questlined.store.sqlite import connection
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.store import SqliteStore
from questlined.store.sqlite.writer import Writer
from questlined.wire.errors import Conflict, DependencyInvalid, LimitReached, Unavailable
from tests.integration.store.scene import another, on_bench, until
from tests.support.clock import ManualClock
from tests.support.invariants import broken
from tests.support.stores import Bench

PUT = "INSERT INTO meta(key, value) VALUES (?, 'x')"


def put(key: str, sql: str = PUT) -> Operation[None, str]:
    """Writes a row and answers its key."""

    def run(db: sqlite3.Connection, _request: None, effects: Effects) -> str:
        db.execute(sql, (key,))
        effects.changed[key] = "written"
        return key

    return Operation(f"put {key}", run)


def keys(database: Path) -> set[str]:
    with another(database) as db:
        return {
            key for (key,) in db.execute("SELECT key FROM meta") if key not in ("schema", "store_uuid", "created_at")
        }


async def together(bench: Bench, folder: Path, *operations: Operation[None, Any]) -> list[Any]:
    """Submit operations so that they share a transaction; their answers and errors."""
    with another(folder / "quests.sqlite") as other:
        other.execute("BEGIN IMMEDIATE")
        blocker = asyncio.ensure_future(bench.store.writer.submit(put("blocker"), None))
        await until(lambda: bench.store.busy)
        waiting = [asyncio.ensure_future(bench.store.writer.submit(each, None)) for each in operations]
        await asyncio.sleep(0)
        other.execute("ROLLBACK")
    await blocker
    return await asyncio.gather(*waiting, return_exceptions=True)


def told(bench: Bench) -> list[list[str]]:
    """What each batch published."""
    return [list(effects.changed) for effects in bench.seen]


def test_another_program_with_the_write_lock_is_waited_for(tmp_path: Path) -> None:
    """Reads go on meanwhile, health can tell, and the write is done when the lock is free."""

    async def scenario(bench: Bench) -> None:
        first = await bench.add()
        with another(tmp_path / "quests.sqlite") as other:
            other.execute("BEGIN IMMEDIATE")
            second = asyncio.ensure_future(bench.add())
            await until(lambda: bench.store.busy)
            assert await bench.state(first) == "queued"
            assert not second.done()
            other.execute("COMMIT")
        assert await bench.state(await second) == "queued"
        assert not bench.store.busy

    on_bench(tmp_path, scenario)


def test_a_lock_that_is_never_given_back_is_given_up(tmp_path: Path) -> None:
    """The call is told so, nothing was written, and the next one finds the store as it was."""

    async def scenario(bench: Bench) -> None:
        with another(tmp_path / "quests.sqlite") as other:
            other.execute("BEGIN IMMEDIATE")
            refused = asyncio.ensure_future(bench.add())
            await until(lambda: bench.store.busy)
            bench.clock.advance(30_001)
            with pytest.raises(Unavailable, match="another program"):
                await refused
            other.execute("COMMIT")
        assert sum((await bench.store.counts(None)).values()) == 0
        await bench.add()
        assert not bench.store.busy

    on_bench(tmp_path, scenario)


def test_an_operations_own_error_leaves_the_others_of_its_transaction(tmp_path: Path) -> None:
    """A refusal, a constraint and a plain fault: each alone is undone, and one commit holds the rest."""

    def refuse(db: sqlite3.Connection, _request: None, effects: Effects) -> None:
        db.execute(PUT, ("refused",))
        effects.changed["refused"] = "written"
        raise DependencyInvalid("no", reason="not_found")

    def fault(db: sqlite3.Connection, _request: None, _effects: Effects) -> None:
        db.execute(PUT, ("fault",))
        raise ZeroDivisionError

    async def scenario(bench: Bench) -> None:
        bad = (Operation("refuse", refuse), put("schema"), Operation("fault", fault))
        answers = await together(bench, tmp_path, put("a"), bad[0], put("b"), bad[1], put("c"), bad[2], put("d"))
        assert [type(answer).__name__ for answer in answers] == [
            *("str", "DependencyInvalid", "str", "IntegrityError", "str", "ZeroDivisionError", "str")
        ]
        assert told(bench) == [["blocker"], ["a", "b", "c", "d"]]

    on_bench(tmp_path, scenario)
    assert keys(tmp_path / "quests.sqlite") == {"blocker", "a", "b", "c", "d"}


ROLLS_BACK = "INSERT OR ROLLBACK INTO meta(key, value) VALUES (?, NULL)"
FAILS_AT_COMMIT = "INSERT INTO quest_artifacts VALUES (?, 1, 1, 'k', 'p', 1, 1)"


def dangling(db: sqlite3.Connection, _request: None, _effects: Effects) -> None:
    """Breaks a foreign key that is looked at at COMMIT only."""
    db.execute("PRAGMA defer_foreign_keys = on")
    db.execute(FAILS_AT_COMMIT, ("q-nobody",))


@pytest.mark.parametrize("bad", [put("bad", ROLLS_BACK), Operation("dangling", dangling)], ids=["rollback", "commit"])
def test_a_constraint_that_voids_the_transaction_costs_only_its_own(tmp_path: Path, bad: Operation[None, Any]) -> None:
    """SQLite has undone all of it: it is run again one by one."""

    async def scenario(bench: Bench) -> None:
        answers = await together(bench, tmp_path, put("a"), bad, put("b"))
        assert [answers[0], answers[2]] == ["a", "b"]
        assert isinstance(answers[1], sqlite3.IntegrityError)
        assert told(bench) == [["blocker"], ["a"], [], ["b"]]
        assert await bench.store.writer.submit(put("c"), None) == "c"

    on_bench(tmp_path, scenario)
    assert keys(tmp_path / "quests.sqlite") == {"blocker", "a", "b", "c"}


class Failing:
    """A connection whose COMMIT fails as a broken disk makes it fail."""

    in_transaction = True

    def __init__(self, db: sqlite3.Connection, code: int) -> None:
        self._db, self.code = db, code

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.code:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self.code
            raise error
        return self._db.execute(sql, *parameters)

    @property
    def total_changes(self) -> int:
        return self._db.total_changes

    def close(self) -> None:
        self._db.close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_CORRUPT])
def test_an_unknown_outcome_at_commit_is_answered_to_nobody(tmp_path: Path, code: int) -> None:
    """The daemon is to end, so that clients repeat; nothing that waits is carried out any more."""

    async def run() -> None:
        db = connection.open_writer(tmp_path / "quests.sqlite", store_uuid="u", now=1)
        published: list[Effects] = []
        fatal = asyncio.get_running_loop().create_future()
        writer = Writer(Failing(db, code), ManualClock(), published.append, fatal.set_result)  # type: ignore[arg-type]
        asked = [asyncio.ensure_future(writer.submit(put(key), None)) for key in "ab"]
        assert isinstance(await asyncio.wait_for(fatal, 30), sqlite3.OperationalError)
        late = asyncio.ensure_future(writer.submit(put("late"), None))
        await writer.close()
        assert not any(task.done() for task in (*asked, late))
        assert published == []
        for task in (*asked, late):
            task.cancel()

    asyncio.run(run())
    assert keys(tmp_path / "quests.sqlite") == set()


def test_a_full_disk_at_commit_is_answered_and_nothing_was_written(tmp_path: Path) -> None:
    """That outcome is known."""

    async def run() -> None:
        db = connection.open_writer(tmp_path / "quests.sqlite", store_uuid="u", now=1)
        failing = Failing(db, sqlite3.SQLITE_FULL)
        writer = Writer(failing, ManualClock(), lambda effects: None, lambda error: None)  # type: ignore[arg-type]
        with pytest.raises(Exception, match="the disk is full; nothing was written"):
            await writer.submit(put("a"), None)
        failing.code = 0
        assert await writer.submit(put("b"), None) == "b"
        await writer.close()

    asyncio.run(run())
    assert keys(tmp_path / "quests.sqlite") == {"b"}


def test_a_write_refused_at_commit_is_answered_and_nothing_was_written(tmp_path: Path) -> None:
    """As on a disk that has become read-only: that outcome is known, too. What failed is told until a write is done."""

    async def run() -> None:
        db = connection.open_writer(tmp_path / "quests.sqlite", store_uuid="u", now=1)
        failing, fatal = Failing(db, sqlite3.SQLITE_IOERR_WRITE), list[Exception]()
        writer = Writer(failing, ManualClock(), lambda effects: None, fatal.append)  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(Unavailable, match="cannot be written"):
                await writer.submit(put("a"), None)
        assert "cannot be written" in str(writer.failing)
        failing.code = 0
        assert await writer.submit(Operation("nothing", lambda db, request, effects: "read"), None) == "read"
        assert writer.failing is not None
        assert await writer.submit(put("b"), None) == "b"
        assert writer.failing is None
        await writer.close()
        assert fatal == []

    asyncio.run(run())
    assert keys(tmp_path / "quests.sqlite") == {"b"}


def test_a_commit_is_on_disk_then_published_then_answered(tmp_path: Path) -> None:
    """Who is woken by it finds it in the file; whoever has the answer has been preceded by the wake-up."""
    database = tmp_path / "quests.sqlite"

    async def run() -> None:
        order: list[object] = []

        def publish(effects: Effects) -> None:
            order.append((sorted(effects.changed), keys(database), task.done()))

        store = await SqliteStore.open(database, ManualClock(), publish)
        task = asyncio.ensure_future(store.writer.submit(put("a"), None))
        order.append(await task)
        await store.close()
        assert order == [(["a"], {"a"}, False), "a"]

    asyncio.run(run())


def test_what_was_submitted_is_written_before_the_store_closes(tmp_path: Path) -> None:
    """A stopping daemon loses nothing that it has taken."""

    async def scenario(bench: Bench) -> None:
        asked = [asyncio.ensure_future(bench.add()) for _ in range(20)]
        await asyncio.sleep(0)
        await bench.store.writer.close()
        assert all([await one for one in asked])

    on_bench(tmp_path, scenario)
    assert broken(tmp_path / "quests.sqlite") == []


def test_the_same_request_is_refused_the_same_way_again(tmp_path: Path) -> None:
    """Even if it would succeed by now; with another body it is a Conflict, which is not kept."""

    async def scenario(bench: Bench) -> None:
        quest = bench.quest(depends_on=("q-later",))
        asked = bench.request(quest, token=Token(1, "once", "body"))
        for _ in range(2):
            with pytest.raises(DependencyInvalid) as refused:
                await bench.store.add(asked)
            assert refused.value.parameters()["reason"] == "not_found"
            if await bench.store.quest("q-later") is None:
                await bench.add(id="q-later")
        with pytest.raises(Conflict):
            await bench.store.add(bench.request(quest, token=Token(1, "once", "another")))
        with pytest.raises(DependencyInvalid):
            await bench.store.add(asked)
        assert await bench.store.add(bench.request(quest, token=Token(2, "once", "body"))) == [quest.id]

    on_bench(tmp_path, scenario)


def test_the_same_request_twice_in_one_transaction_is_done_once(tmp_path: Path) -> None:
    """A client that repeats at once meets itself."""

    async def scenario(bench: Bench) -> None:
        asked = [bench.request(bench.quest(), token=Token(1, "once", "body")) for _ in range(5)]
        answers = await asyncio.gather(*(bench.store.add(each) for each in asked))
        assert answers == [[asked[0].quests[0].id]] * 5
        assert sum((await bench.store.counts(None)).values()) == 1

    on_bench(tmp_path, scenario)


def test_adds_of_one_transaction_are_each_their_own(tmp_path: Path) -> None:
    """One may wait for another; what is refused leaves nothing, and is refused the same way again."""

    async def scenario(bench: Bench) -> None:
        first = bench.quest()
        second = bench.quest(depends_on=(first.id,), lane="a")
        new, lost = bench.quest(), bench.quest(depends_on=("q-nobody",))
        refused = bench.request(new, lost, token=Token(1, "lost", "body"))
        behind = bench.quest(depends_on=(new.id,))
        wanted = [bench.request(first), bench.request(second), refused, bench.request(behind), bench.request(new)]
        answers = await asyncio.gather(*map(bench.store.add, wanted), return_exceptions=True)
        assert [answers[0], answers[1], answers[4]] == [[first.id], [second.id], [new.id]]
        assert [str(answers[2]), str(answers[3])] == [
            "dependsOn: there is no quest q-nobody",
            f"dependsOn: there is no quest {new.id}",
        ]
        assert told(bench) == [[first.id, second.id, new.id]]
        await bench.add(id="q-nobody")
        with pytest.raises(DependencyInvalid):
            await bench.store.add(refused)

    on_bench(tmp_path, scenario)
    assert broken(tmp_path / "quests.sqlite") == []


@pytest.mark.parametrize("number", [1, 3, 63, 64, 150])
def test_rows_of_a_transaction_are_in_the_order_of_its_adds(tmp_path: Path, number: int) -> None:
    """However many of them there are; the best of each bucket is its head, and the oldest of equals."""

    async def scenario(bench: Bench) -> None:
        await bench.add(lane="a", priority=1)
        quests = [bench.quest(lane="ab"[one % 2], priority=one % 3) for one in range(number)]
        await asyncio.gather(*(bench.store.add(bench.request(quest)) for quest in quests))
        with another(tmp_path / "quests.sqlite") as db:
            stored = [quest for (quest,) in db.execute("SELECT id FROM quests WHERE rowid > 1 ORDER BY rowid")]
            journal = [quest for (quest,) in db.execute("SELECT quest_id FROM quest_events WHERE seq > 1 ORDER BY seq")]
        assert stored == journal == [quest.id for quest in quests]

    on_bench(tmp_path, scenario)
    assert broken(tmp_path / "quests.sqlite") == []


def test_only_a_new_head_is_told_as_claimable(tmp_path: Path) -> None:
    """Whoever could take what is behind it has been told of it."""

    async def scenario(bench: Bench) -> None:
        await bench.add()
        await bench.add()
        await bench.add(priority=1)
        await bench.add(scheduled_at=bench.clock.wall_ms() + 1000)
        assert [bool(effects.claimable) for effects in bench.seen] == [True, False, True, False]

    on_bench(tmp_path, scenario)


def test_the_bound_on_what_waits_holds_among_the_adds_of_a_transaction(tmp_path: Path) -> None:
    """To the last place: one that is refused takes none, nor does one that fails at once by its dependency."""

    async def scenario(bench: Bench) -> None:
        gone = await bench.add()
        await bench.store.cancel(bench.steer(gone))
        quests = [(bench.quest(),), (bench.quest(depends_on=(gone,)),), (bench.quest(), bench.quest())]
        quests += [(bench.quest(),), (bench.quest(),)]
        asked = [replace(bench.request(*each), max_waiting=2) for each in quests]
        answers = await asyncio.gather(*map(bench.store.add, asked), return_exceptions=True)
        assert [isinstance(answer, LimitReached) for answer in answers] == [False, False, True, False, True]
        assert told(bench)[-1] == [quests[at][0].id for at in (0, 1, 3)]

    on_bench(tmp_path, scenario)
    assert broken(tmp_path / "quests.sqlite") == []


def test_the_earliest_time_gate_among_the_adds_of_a_transaction_is_told(tmp_path: Path) -> None:
    """Who sleeps until then would sleep too long."""

    async def scenario(bench: Bench) -> None:
        now = bench.clock.wall_ms()
        quests = [bench.quest(scheduled_at=now + later) for later in (3000, 1000, 2000, 0)]
        await asyncio.gather(*(bench.store.add(bench.request(quest)) for quest in quests))
        assert [effects.due for effects in bench.seen] == [now + 1000]

    on_bench(tmp_path, scenario)


class Large:
    """A request or an answer that one can see go."""


def test_what_was_asked_and_answered_last_is_not_kept(tmp_path: Path) -> None:
    """Neither by the writer nor by the reader, for as long as nobody asks for anything else."""

    async def scenario(bench: Bench) -> None:
        asked = Large()
        await bench.store.writer.submit(Operation("nothing", lambda db, request, effects: None), asked)
        answer = await bench.store.reader.submit(lambda db: Large())
        kept = [weakref.ref(asked), weakref.ref(answer)]
        del asked, answer
        await until(lambda: [each() for each in kept] == [None, None])

    on_bench(tmp_path, scenario)
