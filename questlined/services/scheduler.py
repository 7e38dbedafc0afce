"""The scheduler: claims for the daemon while slots are free, and starts an attempt for each claim.

It is woken by commits that may have made a quest claimable and by attempts that end; it sleeps until the next time
gate opens. What it must know is in the store, so a lost wake-up costs latency only.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from questlined import probes
from questlined.attempts.execution import Left
from questlined.attempts.runner import Attempt
from questlined.attempts.runtime import Runtime
from questlined.services.service import Complaint, Wake
from questlined.store.changes import Changes
from questlined.store.protocol import Claim, Claimed, ClaimNow, Token
from questlined.wire.errors import LimitReached, StoreFull, Unavailable

log = logging.getLogger(__name__)
STORE_AGAIN_S = 5.0
DISK_CHECK_MS = 1000
DISK_AGAIN_S = 5.0


class Scheduler:
    """Runs at most scheduler.max_concurrent attempts of `owner`."""

    def __init__(self, runtime: Runtime, changes: Changes, owner: str) -> None:
        self._runtime, self._owner = runtime, owner
        self.wake = Wake()
        self._attempts: dict[str, Attempt] = {}
        self._beyond: set[Attempt] = set()  # those that a person runs: they take no slot
        # Slots of attempts and of claims under way; an attempt gives its own back when only its outcome is still to be
        # written.
        self._taken = 0
        self._claims = 0  # under way
        self._calls = 0  # how often something may have become claimable
        self._idle = asyncio.Event()  # neither an attempt nor a claim is under way
        self._idle.set()
        self._claimed = asyncio.Event()  # no claim is under way
        self._claimed.set()
        self._stopping = self._held = False
        self._due: int | None = 0  # when the next time gate opens; 0: look it up
        self._disk_checked_ms: int | None = None
        self.disk_low: str | None = None
        self._refused = Complaint(log, "nothing can be claimed")
        self.on_busy: Callable[[], None] = lambda: None
        changes.on_claimable.append(self._claimable)
        changes.on_due.append(self._gate_set)
        changes.on_stop.append(self._cancel)

    @property
    def running(self) -> int:
        """Attempts under way."""
        return len(self._attempts)

    @property
    def in_slots(self) -> int:
        """Of these, the ones that scheduler.max_concurrent counts."""
        return len(self._attempts) - len(self._beyond)

    @property
    def longest_grace_s(self) -> float:
        """The most that any of them has between SIGTERM and SIGKILL."""
        return max((attempt.grace_s for attempt in self._attempts.values()), default=0.0)

    def last_output(self, quest: str) -> int | None:
        """Epoch ms of a running quest's last output, as far as it was seen."""
        attempt = self._attempts.get(quest)
        return attempt.last_output_at if attempt else None

    def stuck(self) -> Iterator[str]:
        """A line for each process that was killed and lives on."""
        stuck = [(quest, attempt.stuck) for quest, attempt in self._attempts.items()]
        for quest, pids in (*stuck, *self._runtime.undying.items()):
            for pid in pids:
                yield f"process {pid} of {quest} does not die"

    def tick(self) -> None:
        """The safety net's turn: look everything up again."""
        self._due = 0
        self.wake.set()

    def look_again(self) -> None:
        """The settings may be other ones."""
        self._look_at_disk()
        self.tick()

    async def run(self, started: Callable[[], None]) -> None:
        """Claim and start until cancelled."""
        started()
        while True:
            if probes.armed:
                await probes.round_begins("scheduler.round")
            again_s = None
            try:
                await self._fill()
                again_s = await self._sleep_s()
                self._refused.over()
                if self.disk_low is not None:  # nobody tells when there is space again
                    again_s = DISK_AGAIN_S if again_s is None else min(again_s, DISK_AGAIN_S)
            except (StoreFull, Unavailable) as error:
                self._refused.because(error)
                again_s = STORE_AGAIN_S
            await self.wake.wait(again_s)

    async def stop(self, *, at_once: bool = False) -> None:
        """Claim no more, end every attempt as interrupted, and return when all are over."""
        self._stopping = True
        for attempt in self._attempts.values():
            attempt.leave(at_once=at_once)
        # What a claim under way gives is started, told to leave, and waited for.
        await self._idle.wait()

    def hold(self) -> None:
        """Claim nothing for now. Undo with `go_on`."""
        self._held = True

    def go_on(self) -> None:
        """Claim again."""
        self._held = False
        self._claimable()

    @property
    def restless(self) -> str | None:
        """A quest that is just being started or ended, None where there is none: all that runs may be let go of."""
        return next((quest for quest, attempt in self._attempts.items() if not attempt.resting.is_set()), None)

    async def rest(self) -> None:
        """Returns when no claim is under way and nothing is restless. For who has called `hold`."""
        while self._claims or self.restless:
            await self._claimed.wait()
            if (quest := self.restless) is not None:
                await self._attempts[quest].resting.wait()

    async def hand_over(self) -> list[tuple[Claimed, Left]]:
        """After `rest`: let go of all that runs, without touching it. What ends just now is seen to its end first, as
        far as `stop` would wait for that."""
        attempts = [(attempt, attempt in self._beyond) for attempt in self._attempts.values()]
        for attempt, _ in attempts:
            attempt.let_go()
            attempt.leave()
        await self._idle.wait()
        return [(each.claimed, replace(each.left, beyond=beyond)) for each, beyond in attempts if each.left]

    async def run_now(
        self, quest: str | None, project: str | None, token: Token | None, *, attended: bool
    ) -> Claimed | None:
        """Claim a quest, or the best of a project, for a person and start it beside all that runs: past pause,
        max_concurrent and the other concurrency limits. None where the project has none.

        Where the caller is cancelled meanwhile, what was claimed is run all the same, or if `attended` interrupted.
        Raises what the store's claim_now does, Unavailable while the daemon stops, StoreFull while the disk is low."""
        if self._stopping:
            raise Unavailable("the daemon is stopping", hint="run it when the daemon is back", retryAfterMs=5000)
        if self._disk_is_low():
            raise StoreFull(
                f"nothing is started: {self.disk_low}",
                hint="free some space, or lower disk.min_free_bytes",
                setting="disk.min_free_bytes",
                retryAfterMs=int(DISK_AGAIN_S * 1000),
            )
        config, now = self._runtime.config, self._runtime.clock.wall_ms()
        if len(self._beyond) >= config.bounds.max_streams:
            raise LimitReached(
                f"{len(self._beyond)} quests are run beside the daemon's own already",
                hint="wait for some of them, or raise bounds.max_streams",
                setting="bounds.max_streams",
                retryAfterMs=5000,
            )
        wish = ClaimNow(self._owner, now, config.lease_ttl_ms, config.limits, quest, project, token)
        self._claims += 1  # before the task begins: a stop that comes first must wait for it
        self._idle.clear()
        self._claimed.clear()
        claiming = self._runtime.tasks.create_task(self._claim_now(wish))
        try:
            answer = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            if attended:
                claiming.add_done_callback(self._abandoned)
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def interrupt(self, quest: str, attempt: int) -> None:
        """The client for whom this attempt runs went away. Nothing where it has ended, nor while claims are held: then
        it is the daemon that hangs up."""
        if self._held:
            return
        found = self._attempts.get(quest)
        if found is not None and found.claimed.run.attempt == attempt:
            found.stop("client_gone")

    def adopt(self, claimed: Claimed, left: Left) -> None:
        """Go on with what an earlier daemon left running. It takes a slot, be there one or not."""
        attempt = Attempt(self._runtime, claimed, (lambda: None) if left.beyond else self._slot_free)
        if left.beyond:
            self._beyond.add(attempt)
        else:
            self._taken += 1
        self._enter(attempt, attempt.resume(left))

    def _abandoned(self, claiming: asyncio.Task[Claimed | Exception | None]) -> None:
        claimed = None if claiming.cancelled() else claiming.result()
        if isinstance(claimed, Claimed):
            self.interrupt(claimed.quest.id, claimed.run.attempt)

    async def _claim_now(self, wish: ClaimNow) -> Claimed | Exception | None:
        """In a task of its own, which must not fail: what is claimed is started, whatever becomes of the caller."""
        try:
            claimed = await self._runtime.store.claim_now(wish)
            if claimed is not None and not claimed.again:
                self._beyond.add(self._start(claimed, lambda: None))
        except Exception as error:
            return error
        else:
            return claimed
        finally:
            self._claims -= 1
            self._rest()

    async def _fill(self) -> None:
        """Claim until no slot is free or nothing is claimable."""
        while not (self._stopping or self._held) and (free := self._runtime.config.max_concurrent - self._taken) > 0:
            if self._disk_is_low():
                return
            calls = self._calls
            claimed = await self._claim(free)
            # Others come here while a claim is under way, find no slot and go: what called them is looked at here.
            if claimed < free and calls == self._calls:
                return

    async def _claim(self, most: int) -> int:
        """Claim for `most` free slots, which nobody else can have meanwhile, and start; how many there were."""
        config, now = self._runtime.config, self._runtime.clock.wall_ms()
        claim = Claim(self._owner, now, config.lease_ttl_ms, own=True, most=most, limits=config.limits)
        claimed: list[Claimed] = []
        self._taken += most
        self._claims += 1
        self._idle.clear()
        self._claimed.clear()
        try:
            claimed = await self._runtime.store.claim(claim)
            for each in claimed:
                self._start(each, self._slot_free)
        finally:
            self._taken -= most - len(claimed)
            self._claims -= 1
            self._rest()
        return len(claimed)

    def _start(self, claimed: Claimed, ending: Callable[[], None]) -> Attempt:
        attempt = Attempt(self._runtime, claimed, ending)
        if self._stopping:
            attempt.leave()
        self._enter(attempt, attempt.run())
        return attempt

    def _enter(self, attempt: Attempt, running: Coroutine[Any, Any, None]) -> None:
        self._attempts[attempt.claimed.quest.id] = attempt
        self._idle.clear()
        self._runtime.tasks.create_task(self._attend(attempt, running))
        self.on_busy()

    async def _attend(self, attempt: Attempt, running: Coroutine[Any, Any, None]) -> None:
        try:
            await running
        finally:
            attempt.resting.set()
            self._beyond.discard(attempt)
            # The quest may have been claimed again, together with its end.
            if self._attempts.get(attempt.claimed.quest.id) is attempt:
                del self._attempts[attempt.claimed.quest.id]
            self._rest()

    def _rest(self) -> None:
        if not self._claims:
            self._claimed.set()
        if not self._attempts and not self._claims:
            self._idle.set()

    def _claimable(self) -> None:
        self._calls += 1
        self.wake.set()

    def _slot_free(self) -> None:
        """Claim for the slot at once: its attempt's outcome is written just before, in the same transaction."""
        self._taken -= 1
        self._runtime.tasks.create_task(self._refill())

    async def _refill(self) -> None:
        try:
            await self._fill()
        except (StoreFull, Unavailable):
            self.wake.set()  # the loop meets the same, and waits

    async def _sleep_s(self) -> float | None:
        """How long until a time gate opens; None where none is set."""
        if self._due == 0:
            self._due = None  # before the look: a gate that is set meanwhile may not be seen by it, but is told
            found = await self._runtime.store.next_due()
            if found is not None:
                self._gate_set(found)
        now = self._runtime.clock.wall_ms()
        if self._due is None:
            return None
        if self._due > now:
            return (self._due - now) / 1000
        self._due = 0
        await self._runtime.store.promote(now)
        return 0

    def _gate_set(self, moment: int) -> None:
        if self._due is None or (self._due and moment < self._due):
            self._due = moment
            self.wake.set()

    def _cancel(self, quest: str) -> None:
        attempt = self._attempts.get(quest)
        if attempt is not None:
            attempt.stop("cancelled")

    def shortage(self) -> str | None:
        """Why nothing is started on this disk, as it is now: whoever asks may have met it already."""
        self._look_at_disk()
        return self.disk_low

    def _disk_is_low(self) -> bool:
        """Whether the state's disk is below disk.min_free_bytes; looked at once a second at most."""
        checked = self._disk_checked_ms
        if checked is None or self._runtime.clock.monotonic_ms() - checked >= DISK_CHECK_MS:
            self._look_at_disk()
        return self.disk_low is not None

    def _look_at_disk(self) -> None:
        was, self._disk_checked_ms = self.disk_low, self._runtime.clock.monotonic_ms()
        self.disk_low = _shortage(self._runtime.artifacts, self._runtime.config.min_free_bytes)
        if self.disk_low and not was:
            log.error("claims pause: %s", self.disk_low, extra={"fields": {"QUESTLINE_EVENT": "claims_paused"}})
            self.wake.set()  # whoever looked: the loop looks again and again from now on
        elif was and not self.disk_low:
            fields = {"QUESTLINE_EVENT": "claims_resumed"}
            log.warning("claims go on: enough is free again", extra={"fields": fields})
            self.wake.set()


def _shortage(artifacts: Path, least: int) -> str | None:
    """Why nothing should be started on this disk. A directory that somebody removed, to free space, is made again."""
    try:
        artifacts.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.statvfs(artifacts)
    except OSError as error:
        return f"{artifacts}: {error.strerror}"
    free = found.f_bavail * found.f_frsize
    return f"only {free >> 20} MiB are free, disk.min_free_bytes is {least >> 20} MiB" if free < least else None
