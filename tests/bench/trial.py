"""A trial of durable adds that does no more than it must: an asyncio server, a writer thread with group commit, rows.

`python -m tests.bench.trial FOLDER` serves on FOLDER/socket until its stdin ends. No checks, no gates, no counts: what
a queue in this language can do on this machine, beside which the daemon is measured.
"""

from __future__ import annotations

import asyncio
import json
import queue
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec

from tests.bench.rig import folder
from tests.support.daemon import REPOSITORY

BATCH = 256
SCHEMA = """
CREATE TABLE quests (id TEXT PRIMARY KEY, project TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
  task TEXT NOT NULL, context TEXT, state TEXT NOT NULL, attempts INTEGER DEFAULT 0, priority INTEGER DEFAULT 0,
  scheduled_at INTEGER DEFAULT 0, dedupe_key TEXT, created_at INTEGER, updated_at INTEGER, unmet INTEGER DEFAULT 0,
  bucket INTEGER);
CREATE INDEX by_state ON quests(project, state, created_at);
CREATE INDEX by_order ON quests(project, state, priority DESC, created_at);
CREATE INDEX ready ON quests(bucket, priority DESC, created_at) WHERE state IN ('queued','interrupted') AND unmet = 0;
CREATE UNIQUE INDEX dedupe ON quests(project, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, quest TEXT NOT NULL REFERENCES quests(id), event TEXT,
  at INTEGER, data TEXT);
CREATE INDEX of_quest ON events(quest, seq);
"""
QUEST = """INSERT INTO quests(id, project, role, name, task, state, created_at, updated_at, bucket)
  VALUES (?, ?, 'default', ?, ?, 'queued', ?, ?, 1)"""
EVENT = "INSERT INTO events(quest, event, at, data) VALUES (?, 'enqueued', ?, ?)"
_Job = tuple["Wanted", asyncio.Transport]


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """What an Add names."""

    task: str
    directory: str
    path: str


class Call(msgspec.Struct):
    """An Add."""

    method: str
    parameters: Wanted


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, cached_statements=64, check_same_thread=False)
    for pragma in ("journal_mode = wal", "synchronous = full", "foreign_keys = on"):
        db.execute(f"PRAGMA {pragma}")
    db.executescript(SCHEMA)
    return db


def _row(wanted: Wanted) -> tuple[str, int]:
    return "q-" + secrets.token_hex(6), time.time_ns() // 1_000_000


def _kept(db: sqlite3.Connection, wanted: Wanted) -> tuple[str, int]:
    quest, now = _row(wanted)
    db.execute("SAVEPOINT one")
    db.execute(QUEST, (quest, wanted.directory, wanted.task, wanted.task, now, now))
    db.execute(EVENT, (quest, now, "{}"))
    db.execute("RELEASE one")
    return quest, now


class _Trial:
    """The server."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        while True:
            batch = [self.jobs.get()]
            try:
                while len(batch) < BATCH:
                    batch.append(self.jobs.get_nowait())
            except queue.Empty:
                pass
            self._db.execute("BEGIN IMMEDIATE")
            done = [(transport, wanted, *_kept(self._db, wanted)) for wanted, transport in batch]
            self._db.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._answer, done)

    @staticmethod
    def _answer(done: list[tuple[asyncio.Transport, Wanted, str, int]]) -> None:
        replies: dict[asyncio.Transport, list[bytes]] = {}
        for transport, wanted, quest, now in done:
            shown = {"id": quest, "task": wanted.task, "state": "queued", "attempts": 0, "createdAt": now}
            reply = {"parameters": {"quest": shown, "deduped": False}}
            replies.setdefault(transport, []).append(msgspec.json.encode(reply) + b"\0")
        for transport, each in replies.items():
            transport.write(b"".join(each))


class _Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, trial: _Trial) -> None:
        self._trial, self._rest = trial, b""
        self._decode = msgspec.json.Decoder(Call).decode

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *frames, self._rest = (self._rest + data).split(b"\0")
        for each in frames:
            self._trial.jobs.put((self._decode(each).parameters, self._transport))


async def _serve(place: Path) -> None:
    trial = _Trial(_opened(place / "quests.sqlite"))
    await asyncio.get_running_loop().create_unix_server(lambda: _Peer(trial), str(place / "socket"))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def served() -> Iterator[str]:
    """The trial's socket, while it runs in a process of its own."""
    place = folder()
    argv = [sys.executable, "-m", "tests.bench.trial", str(place)]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stdout.readline() == b"ready\n"
        yield str(place / "socket")
        running.stdin.close()


def bulk_per_second(number: int) -> float:
    """Rows and their events in one transaction of a connection alone, without sockets or threads."""
    db = _opened(folder() / "quests.sqlite")
    wanted = [Wanted(f"true {one}", "/home/someone/project", "") for one in range(number)]
    began = time.perf_counter()
    db.execute("BEGIN IMMEDIATE")
    rows = [(each, *_row(each)) for each in wanted]
    db.executemany(QUEST, [(quest, each.directory, each.task, each.task, now, now) for each, quest, now in rows])
    db.executemany(EVENT, [(quest, now, json.dumps({"name": each.task})) for each, quest, now in rows])
    db.execute("COMMIT")
    spent = time.perf_counter() - began
    db.close()
    return number / spent


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
