"""SqliteStore: the store protocol over one writer thread and one reader thread."""

from __future__ import annotations

import uuid
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from questlined.clock import Clock
from questlined.core.gates import Situation
from questlined.core.limits import Limits
from questlined.store.effects import Effects
from questlined.store.protocol import (
    NOTHING_FRESH,
    Add,
    Adopt,
    Block,
    Claim,
    Claimed,
    ClaimNow,
    Edit,
    Extended,
    Fence,
    Finish,
    Pausing,
    Reclaim,
    Sealed,
    Started,
    Steer,
    Token,
)
from questlined.store.reading import EventPage, Page, StoryPage, Surroundings
from questlined.store.rows import Artifact, Event, OldRecords, OpenRun, Project, Quest, Run
from questlined.store.sqlite import adds, connection, editing, finish, gates, leases, migrate, pages, reads, steering
from questlined.store.sqlite.backup import Backups
from questlined.store.sqlite.reader import Reader
from questlined.store.sqlite.recurrences import SqliteRecurrences
from questlined.store.sqlite.requests import Operation
from questlined.store.sqlite.writer import Writer

TOUCH: Operation[None, None] = Operation("touch", lambda db, request, effects: None)
TRY_WRITE: Operation[int, None] = Operation("try_write", lambda db, now, effects: migrate.try_write(db, now))
SLOW_S = 5


class SqliteStore(SqliteRecurrences):
    """Questlined's store in one file. Make it with `open`; `uuid` names the store in every attempt's marker."""

    def __init__(self, writer: Writer, reader: Reader, backups: Backups, store_uuid: str, clock: Clock) -> None:
        self.writer, self.reader, self.uuid, self._clock = writer, reader, store_uuid, clock
        self._backups = backups

    @classmethod
    async def open(
        cls,
        path: Path,
        clock: Clock,
        on_commit: Callable[[Effects], None] = lambda effects: None,
        on_fatal: Callable[[Exception], None] = lambda error: None,
    ) -> SqliteStore:
        """Open or make the database at `path`. Raises Unavailable, saying exactly why, where it must not be used."""
        db = connection.open_writer(path, store_uuid=str(uuid.uuid4()), now=clock.wall_ms())
        reader = Reader(connection.open_reader(path))
        store_uuid = await reader.submit(lambda reading: gates.meta(reading, "store_uuid"))
        writer, backups = Writer(db, clock, on_commit, on_fatal), Backups(path, store_uuid or "")
        return cls(writer, reader, backups, store_uuid or "", clock)

    @property
    def busy(self) -> bool:
        """Whether another program holds the database now."""
        return self.writer.busy_since_ms is not None

    @property
    def trouble(self) -> str | None:
        """What is the matter with writing: why the last one was not done, or how long one has been waiting."""
        since, now = self.writer.at_work_since_ms, self._clock.monotonic_ms()
        if self.writer.failing is None and not self.busy and since is not None and now - since > SLOW_S * 1000:
            return f"the disk has been working on one write for {(now - since) // 1000} s"
        return self.writer.failing

    async def close(self) -> None:
        """Answer what was asked, then let go of the file."""
        self._backups.close()
        await self.reader.close()
        await self.writer.close()

    def add(self, request: Add) -> Future[list[str]]:
        return self.writer.submit(adds.ADD, request, token=request.token)

    async def claim(self, request: Claim) -> list[Claimed]:
        return await self.writer.submit(leases.CLAIM, request, token=request.token)

    async def claim_now(self, request: ClaimNow) -> Claimed | None:
        return await self.writer.submit(leases.CLAIM_NOW, request, token=request.token)

    async def started(self, request: Started) -> bool:
        return await self.writer.submit(leases.STARTED, request, later=True)

    async def finish(self, request: Finish) -> str:
        return await self.writer.submit(finish.FINISH, request, token=request.token)

    async def heartbeat(self, fence: Fence, now: int, lease_ms: int) -> Extended:
        return await self.writer.submit(leases.HEARTBEAT, (fence, now, lease_ms))

    async def verdict(self, fence: Fence, verdict: str, token: Token | None) -> str:
        return await self.writer.submit(leases.VERDICT, (fence, verdict), token=token)

    async def extend_own(self, owner: str, now: int, lease_ms: int) -> int:
        return await self.writer.submit(leases.EXTEND_OWN, (owner, now, lease_ms))

    async def cancel(self, request: Steer) -> str:
        return await self.writer.submit(steering.CANCEL, request, token=request.token)

    async def retry(self, request: Steer) -> str:
        return await self.writer.submit(steering.RETRY, request, token=request.token)

    async def edit(self, request: Edit) -> str:
        return await self.writer.submit(editing.EDIT, request, token=request.token)

    async def block(self, request: Block) -> str:
        return await self.writer.submit(steering.BLOCK, request, token=request.token)

    async def pause(self, request: Pausing) -> None:
        await self.writer.submit(gates.PAUSE, request, token=request.token)

    async def expire(self, request: Reclaim) -> int:
        return await self.writer.submit(finish.EXPIRE, request)

    async def recover(self, request: Reclaim, sealed: Mapping[tuple[str, int], tuple[Sealed, ...]]) -> list[str]:
        return await self.writer.submit(finish.RECOVER, (request, sealed))

    async def adopt(self, request: Adopt) -> list[Claimed]:
        return await self.writer.submit(leases.ADOPT, request)

    async def promote(self, now: int) -> int:
        return await self.writer.submit(leases.PROMOTE, now)

    async def shift_leases(self, delta_ms: int, fresh: tuple[int, int] = NOTHING_FRESH) -> None:
        await self.writer.submit(leases.SHIFT, (delta_ms, fresh))

    async def shift_retries(self, delta_ms: int, fresh: tuple[int, int] = NOTHING_FRESH) -> None:
        await self.writer.submit(leases.SHIFT_RETRIES, (delta_ms, fresh))

    async def path_missing(self, project: str, missing: bool) -> None:
        await self.writer.submit(gates.PATH, (project, missing))

    async def configure(self, limits: Limits, lane_slots: Mapping[str, int]) -> None:
        await self.writer.submit(gates.CONFIGURE, (limits, lane_slots))

    async def forget_requests(self, before: int) -> int:
        return await self.writer.submit(leases.FORGET, before)

    async def forget_records(self, records: Sequence[OldRecords]) -> int:
        return await self.writer.submit(finish.FORGET_RECORDS, records)

    async def quest(self, quest: str) -> Quest | None:
        return await self.reader.submit(lambda db: reads.quest(db, quest=quest))

    async def matching(self, prefix: str, submitter: int | None = None) -> list[str]:
        return await self.reader.submit(lambda db: reads.matching(db, prefix, submitter))

    async def page(self, request: Page) -> list[Quest]:
        walk = pages.QuestWalk(request)
        while await self.reader.submit(walk.step):
            continue
        return walk.found

    async def dependencies(self, quests: Sequence[str]) -> dict[str, list[str]]:
        return await self.reader.submit(lambda db: reads.dependencies(db, quests))

    async def runs(self, quest: str, after: int, limit: int) -> list[Run]:
        return await self.reader.submit(lambda db: reads.runs(db, quest=quest, after=after, limit=limit))

    async def run(self, quest: str, attempt: int) -> Run | None:
        return await self.reader.submit(lambda db: reads.run(db, quest=quest, attempt=attempt))

    async def run_numbered(self, project: str, number: int) -> Run | None:
        return await self.reader.submit(lambda db: reads.run_numbered(db, project=project, number=number))

    async def surroundings(self, project: str, quest: str) -> Surroundings:
        return await self.reader.submit(lambda db: reads.surroundings(db, project, quest))

    async def events(self, *, quest: str | None, project: str | None, before: int | None, limit: int) -> list[Event]:
        if quest is not None or project is None:
            return await self.reader.submit(lambda db: reads.events(db, quest_id=quest, before=before, limit=limit))
        walk = pages.EventWalk(project, before, limit)
        while await self.reader.submit(walk.step):
            continue
        return walk.found

    async def events_after(self, after: int, *, project: str | None, submitter: int | None, walk: int) -> EventPage:
        return await self.reader.submit(
            lambda db: reads.events_after(db, after=after, project_key=project, submitter=submitter, walk=walk)
        )

    async def story(self, after: int, events: Sequence[str], walk: int) -> StoryPage:
        return await self.reader.submit(lambda db: reads.story(db, after=after, events=events, walk=walk))

    async def last_event(self) -> int:
        return await self.reader.submit(reads.last_event)

    async def artifacts(self, quest: str) -> list[Artifact]:
        return await self.reader.submit(lambda db: reads.artifacts(db, quest=quest))

    async def artifacts_of(self, quest: str, attempt: int) -> list[Artifact]:
        return await self.reader.submit(lambda db: reads.artifacts_of(db, quest=quest, attempt=attempt))

    async def old_records(self, before: int) -> list[OldRecords]:
        return await self.reader.submit(lambda db: reads.old_records(db, before=before))

    async def situation(self, quest: str, now: int) -> Situation | None:
        return await self.reader.submit(lambda db: reads.situation(db, quest, now))

    async def counts(self, project: str | None) -> dict[str, int]:
        return await self.reader.submit(lambda db: reads.counts(db, project))

    async def project(self, key: str) -> Project | None:
        return await self.reader.submit(lambda db: reads.project(db, key=key))

    async def registered_paths(self) -> list[tuple[str, str]]:
        return await self.reader.submit(reads.registered_paths)

    async def missing_paths(self) -> list[tuple[str, str]]:
        return await self.reader.submit(reads.missing_paths)

    async def daemon_paused(self) -> str | None:
        return await self.reader.submit(reads.daemon_paused)

    async def next_due(self) -> int | None:
        return await self.reader.submit(reads.next_due)

    async def next_expiry(self) -> int | None:
        return await self.reader.submit(reads.next_expiry)

    async def open_runs(self) -> list[OpenRun]:
        return await self.reader.submit(reads.open_runs)

    async def fault(self) -> str | None:
        return await self.reader.submit(reads.fault)

    async def backup(self, target: Path, reserve: int) -> int:
        return await self._backups.make(target, reserve)

    async def touch(self) -> None:
        if self.writer.failing is None:
            await self.writer.submit(TOUCH, None)
        else:
            await self.writer.submit(TRY_WRITE, self._clock.wall_ms())
