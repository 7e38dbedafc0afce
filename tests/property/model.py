"""What the queue should do, in plain dictionaries: the states, charges, gates and leases of the design, written again
without a look at the product's rules.

`Model` has the store's writing methods, with the store's requests, and gives their answers at once. It shares nothing
with the store but the shapes of requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from questlined.core.limits import Limits
from questlined.core.quest import NewQuest
from questlined.store.protocol import (
    Add,
    Block,
    Claim,
    ClaimNow,
    Edit,
    Fence,
    Finish,
    Pausing,
    ProjectRef,
    Reclaim,
    Started,
    Steer,
    Token,
)
from tests.property.queue import (
    CLAIMABLE,
    CLASSES,
    DEAD,
    OUTRANKS_A_VERDICT,
    WAITING,
    Got,
    Project,
    Quest,
    Queue,
    Refused,
    Run,
)


class Model(Queue):
    """The store, foretold. A method that is refused changes nothing."""

    def ask(self, method: str, *request: Any, now: int) -> Any:
        """The answer of a method, or the Refused that it raises, with its requestId looked at first."""
        token = request[-1] if isinstance(request[-1], Token) else getattr(request[0], "token", None)
        if token is None:
            return self._run(method, request)
        key = (token.uid, token.request_id)
        if key in self.kept:
            body, answer, _ = self.kept[key]
            return answer if body == token.body else Refused("Conflict")
        answer = self._run(method, request)
        nothing = answer == [] or (method == "claim_now" and answer is None)
        passing = nothing or (isinstance(answer, Refused) and answer.name == "LimitReached")
        if not passing:
            self.kept[key] = (token.body, answer, now)
        return answer

    def _run(self, method: str, request: Sequence[Any]) -> Any:
        call: Callable[..., Any] = getattr(self, method)
        try:
            return call(*request)
        except Refused as refused:
            return refused

    def _tell(self, quest: str, event: str, now: int) -> None:
        self.told.append((quest, event, now))

    # Adding

    def add(self, request: Add) -> list[str]:
        waiting = sum(quest.state in WAITING for quest in self.quests.values())
        if waiting + len(request.quests) > request.max_waiting:
            raise Refused("LimitReached", "bounds.max_waiting")
        batch: dict[str, Quest] = {}
        for new in request.quests:
            batch[new.id] = self._born(new, {**self.quests, **batch}, request.now)
        self._ensure(request.project)
        for new in request.quests:
            if new.lane:
                self.lanes.setdefault((new.project, new.lane), request.lane_slots.get(new.lane, 1))
            self._tell(new.id, "enqueued", request.now)
            if batch[new.id].state == "failed":
                self._tell(new.id, "dependency_failed", request.now)
        self.quests.update(batch)
        return list(batch)

    @staticmethod
    def _born(new: NewQuest, known: Mapping[str, Quest], now: int) -> Quest:
        for dependency in new.depends_on:
            if dependency not in known:
                raise Refused("DependencyInvalid", "not_found")
            if known[dependency].new.project != new.project:
                raise Refused("DependencyInvalid", "cross_project")
        quest = Quest(new, new.max_attempts, held=new.scheduled_at > now)
        if any(known[dependency].state in DEAD for dependency in new.depends_on):
            quest.state, quest.kind, quest.finished_at = "failed", "dependency", now
        return quest

    def _ensure(self, project: ProjectRef) -> Project:
        return self.projects.setdefault(project.key, Project(project.path))

    # Claiming

    def claim(self, request: Claim) -> list[Got]:
        self.promote(request.now)
        got: list[Got] = []
        while len(got) < request.most and (best := self._best(request)):
            got.append(self._take(best, request))
        return got

    def claim_now(self, request: ClaimNow) -> Got | None:
        """As the daemon's own claim, past pause, concurrency and, where a quest is named, time."""
        past = Claim(request.owner, request.now, request.lease_ms, own=True)
        if request.quest is not None:
            named = self._found(request.quest)
            if named.state not in CLAIMABLE or self._binds(named):
                raise Refused("WrongState", named.state)
            return self._take(named, past)
        self.promote(request.now)
        best = self.first(quest for quest in self.quests.values() if self._may_now(quest, request.project))
        return self._take(best, past) if best else None

    def _binds(self, quest: Quest) -> set[str]:
        """The gates that a person's word does not open."""
        return (self.gates(quest.new.id, 0) or set()) & {"dependency", "external", "lane", "path"}

    def _may_now(self, quest: Quest, project: str | None) -> bool:
        ready = quest.state in CLAIMABLE and not quest.held and quest.new.project == project
        return ready and not self._binds(quest)

    def _best(self, request: Claim) -> Quest | None:
        return self.first(quest for quest in self.quests.values() if self._may(quest, request))

    def _may(self, quest: Quest, request: Claim) -> bool:
        new, project = quest.new, self.projects[quest.new.project]
        if quest.state not in CLAIMABLE or quest.held or self.unmet(quest):
            return False
        if self.paused or project.paused or self.lane_full(new.project, new.lane):
            return False
        if not request.own:
            return (
                new.project == request.project and request.lane in (None, new.lane) and request.role in (None, new.role)
            )
        closed = project.path is None or project.missing or self.role_full(new.role) or self.project_full(new.project)
        return not new.external and not closed

    def _take(self, quest: Quest, request: Claim) -> Got:
        new, project = quest.new, self.projects[quest.new.project]
        if new.lane:
            taken = {other.slot for other in self.in_lane(new.project, new.lane)}
            quest.slot = next(slot for slot in range(1, len(taken) + 2) if slot not in taken)
        quest.state, quest.owner, quest.own = "running", request.owner, request.own
        quest.attempts += 1
        quest.expires = request.now + request.lease_ms
        quest.retry_at = quest.klass = quest.kind = None
        project.runs += 1
        self.runs[new.id, quest.attempts] = Run(new.project, project.runs, request.owner, request.now)
        self._tell(new.id, "claimed", request.now)
        return (new.id, quest.attempts, project.runs)

    # Under a lease

    def _held(self, fence: Fence) -> Quest:
        quest = self.quests.get(fence.quest)
        if (
            quest is None
            or quest.state != "running"
            or (quest.owner, quest.attempts) != (fence.owner, fence.generation)
        ):
            raise Refused("StaleLease")
        return quest

    def _run_of(self, quest: Quest) -> Run:
        return self.runs[quest.new.id, quest.attempts]

    def started(self, request: Started) -> bool:
        quest = self._held(request.fence)
        self._tell(quest.new.id, "agent_started", request.now)
        return quest.cancel_at is not None

    def heartbeat(self, fence: Fence, now: int, lease_ms: int) -> tuple[int, bool]:
        quest = self._held(fence)
        quest.expires = max(quest.expires or 0, now + lease_ms)
        return quest.expires, quest.cancel_at is not None

    def verdict(self, fence: Fence, verdict: str, _token: Token | None) -> str:
        quest = self._held(fence)
        self._run_of(quest).verdict = verdict
        return quest.new.id

    def extend_own(self, owner: str, now: int, lease_ms: int) -> int:
        held = [quest for quest in self.running() if quest.own and quest.owner == owner]
        for quest in held:
            quest.expires = now + lease_ms
        return len(held)

    def shift_leases(self, delta_ms: int) -> None:
        for quest in self.running():
            quest.expires = (quest.expires or 0) + delta_ms

    def promote(self, now: int) -> int:
        due = [quest for quest in self.quests.values() if self.timed(quest) and quest.due <= now]
        for quest in due:
            quest.held = False
        return len(due)

    # The end of an attempt

    def finish(self, request: Finish) -> str:
        quest = self._held(request.fence)
        if request.path_missing:
            self.projects[quest.new.project].missing = True
        return self._end(quest, request.klass, request, until=request.retry_at)

    def expire(self, request: Reclaim) -> int:
        expired = [quest for quest in self.running() if not quest.own and (quest.expires or 0) <= request.now]
        for quest in expired:
            self._end(quest, "failed" if request.fail else "lost", request, told="lease_expired")
        return len(expired)

    def recover(self, request: Reclaim, sealed: Mapping[tuple[str, int], Any]) -> list[str]:
        left = [quest for quest in self.running() if quest.own and (quest.new.id, quest.attempts) in sealed]
        for quest in left:
            self._end(quest, "lost", request, told="recovered")
        return sorted(quest.new.id for quest in left)

    def _end(
        self, quest: Quest, klass: str, request: Finish | Reclaim, until: int | None = None, told: str = "interrupted"
    ) -> str:
        now, run, new = request.now, self._run_of(quest), quest.new
        if quest.cancel_at is not None:
            klass = "cancelled"
        elif run.verdict and klass not in OUTRANKS_A_VERDICT:
            klass = json.loads(run.verdict)["klass"]
        charged, then, _ = CLASSES[klass]
        if not charged:
            quest.refunds += 1
            quest.max_attempts += 1 if quest.max_attempts else 0
        cancelled_at, quest.cancel_at = quest.cancel_at, None
        quest.owner = quest.expires = quest.slot = None
        quest.own, quest.klass = False, klass
        run.finished_at, run.klass = now, klass
        if then == "interrupt":
            quest.interruptions += 1
        if then == "retry" and (not quest.max_attempts or quest.attempts < quest.max_attempts):
            quest.state, event = "queued", "retry_scheduled"
            quest.retry_at = now + self._backoff(quest, request)
        elif then == "interrupt" and quest.interruptions <= request.policy.max_interruptions:
            quest.state, event = "interrupted", told
        elif then in ("park", "release"):
            quest.state, event = "queued", {"park": "parked", "release": "released"}[then]
            quest.retry_at = until
        elif then == "block":
            quest.state, event = "blocked", "blocked"
        else:
            quest.state = {"done": "done", "cancel": "cancelled"}.get(then, "failed")
            event = "completed" if then == "done" else quest.state
            quest.kind = "interrupted" if then == "interrupt" else "execution"
            quest.finished_at = now
            quest.cancel_at = cancelled_at if quest.state == "cancelled" else None
        quest.held = quest.due > now
        self._tell(new.id, event, now)
        self._notify(quest, request.notify)
        self._fail_dependents(quest, now, request.notify)
        return quest.state

    @staticmethod
    def _backoff(quest: Quest, request: Finish | Reclaim) -> int:
        policy = request.policy
        wait: int = min(quest.new.backoff_base_ms * 2 ** (quest.attempts - quest.refunds - 1), policy.backoff_cap_ms)
        return round(wait + wait * policy.backoff_jitter * (2 * request.chance - 1))

    def _notify(self, quest: Quest, notify: frozenset[str]) -> None:
        if quest.state in notify:
            self.outbox.append((quest.new.id, quest.state))

    # Dependents

    def _fail_dependents(self, root: Quest, now: int, notify: frozenset[str]) -> None:
        """While a waiting quest has a dead dependency, it fails."""
        if root.state not in DEAD:
            return
        for quest in self.quests.values():  # a dependency is always older: one walk reaches every level
            dead = any(self.quests[dependency].state in DEAD for dependency in quest.new.depends_on)
            if quest.state in WAITING and dead:
                quest.state, quest.kind, quest.finished_at = "failed", "dependency", now
                quest.klass = quest.retry_at = None
                self._tell(quest.new.id, "dependency_failed", now)
                self._notify(quest, notify)

    def _revive_dependents(self, root: Quest, now: int) -> None:
        """What failed as a dependent of the root comes back where nothing dead is left above it, level by level."""
        back = {root.new.id}
        for quest in self.quests.values():
            above = [self.quests[dependency] for dependency in quest.new.depends_on]
            if quest.kind != "dependency" or not any(dependency.new.id in back for dependency in above):
                continue
            if not any(dependency.state in DEAD for dependency in above):
                back.add(quest.new.id)
                quest.state, quest.kind, quest.finished_at = "queued", None, None
                quest.held = quest.new.scheduled_at > now
                self._tell(quest.new.id, "dependency_requeued", now)

    # Steering

    def _found(self, quest: str) -> Quest:
        if quest not in self.quests:
            raise Refused("NotFound")
        return self.quests[quest]

    def cancel(self, request: Steer) -> str:
        quest, now = self._found(request.quest), request.now
        if quest.state in ("done", "failed"):
            raise Refused("WrongState", quest.state)
        if quest.state == "running":
            if quest.cancel_at is None:
                quest.cancel_at = now
                self._tell(request.quest, "cancel_requested", now)
        elif quest.state != "cancelled":
            quest.state, quest.klass, quest.finished_at, quest.retry_at = "cancelled", "cancelled", now, None
            self._tell(request.quest, "cancelled", now)
            self._notify(quest, request.notify)
            self._fail_dependents(quest, now, request.notify)
        return request.quest

    def retry(self, request: Steer) -> str:
        quest, now = self._found(request.quest), request.now
        if quest.state not in ("failed", "cancelled", "interrupted", "blocked"):
            raise Refused("WrongState", quest.state)
        if any(self.quests[dependency].state in DEAD for dependency in quest.new.depends_on):
            raise Refused("WrongState", quest.state)
        quest.state, quest.interruptions, quest.held = "queued", 0, quest.new.scheduled_at > now
        quest.max_attempts = max(quest.max_attempts, quest.attempts + 1) if quest.max_attempts else 0
        quest.retry_at = quest.klass = quest.kind = quest.finished_at = quest.cancel_at = None
        self._tell(request.quest, "requeued", now)
        self._revive_dependents(quest, now)
        return request.quest

    def block(self, request: Block) -> str:
        quest = self._found(request.quest)
        if quest.own and quest.cancel_at is None:
            self._run_of(quest).verdict = json.dumps({"klass": "blocked"})
        elif quest.state not in CLAIMABLE:
            raise Refused("WrongState", quest.state)
        else:
            quest.state, quest.klass, quest.retry_at = "blocked", "blocked", None
            self._tell(request.quest, "blocked", request.now)
            self._notify(quest, request.notify)
        return request.quest

    def edit(self, request: Edit) -> str:
        quest = self._found(request.quest)
        if quest.state not in WAITING:
            raise Refused("WrongState", quest.state)
        before, allowed = quest.new, quest.max_attempts
        given: dict[str, Any] = {"task": request.task, "priority": request.priority, "scheduled_at": request.not_before}
        new = replace(before, **{name: value for name, value in given.items() if value is not None})
        if request.lane is not None:
            new = replace(new, lane=request.lane or None)
        if request.max_attempts is not None:
            allowed = request.max_attempts + quest.refunds if request.max_attempts else 0
        if (new, allowed) != (before, quest.max_attempts):
            quest.new, quest.max_attempts = new, allowed
            quest.held = quest.due > request.now
            if new.lane:
                self.lanes.setdefault((new.project, new.lane), request.lane_slots.get(new.lane, 1))
            self._tell(request.quest, "edited", request.now)
        return request.quest

    # Gates

    def pause(self, request: Pausing) -> None:
        if request.project is None:
            self.paused = request.paused
        else:
            self._ensure(request.project).paused = request.paused

    def path_missing(self, project: str, missing: bool) -> None:
        if project in self.projects:
            self.projects[project].missing = missing

    def configure(self, limits: Limits, lane_slots: Mapping[str, int]) -> None:
        self.limits = limits
        self.lanes = {(project, lane): lane_slots.get(lane, 1) for project, lane in self.lanes}

    def forget_requests(self, before: int) -> int:
        old = [key for key, (_, _, at) in self.kept.items() if at < before]
        for key in old:
            del self.kept[key]
        return len(old)
