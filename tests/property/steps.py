"""What may happen next: each kind of step makes calls of the store from a few small numbers and the model as it is.

Numbers choose among what there is at that moment, so any numbers make a step and any part of a history is a history:
that is what lets a failing one shrink.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from questlined.core.limits import Limits
from questlined.core.quest import NewQuest
from questlined.services.rescuer import Reading
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
    Sealed,
    Started,
    Steer,
    Token,
)
from tests.property.queue import CLASSES, DEAD, WAITING
from tests.property.world import POLICY, Call, Numbers, World

PROJECTS = (ProjectRef("/p", None, "/p"), ProjectRef("/q", None, "/q"), ProjectRef("name:x", "x", None))
ROLES = ("default", "build", "review")
LANES = (None, None, "narrow", "wide")
OUTSIDERS = ("worker-1", "worker-2", "agent")
LEASES_MS = (1000, 4000, 120_000)
QUESTS_MAX, IDS = 25, 32
CHANCES = (0.0, 0.25, 0.5, 0.999)
SPANS_MS = (1, 500, 999, 1000, 4000, 30_000, 3_600_000)
STEPS_MS = (-3_600_000, -30_000, -2000, -1999, 1500, 2000, 30_000, 3_600_000)


def _token(world: World, numbers: Numbers) -> Token | None:
    if not numbers.one_in(4):
        return None
    world.tokens += 1
    return Token(1000 + numbers.below(2), f"r{world.tokens}", "body")


def _send(world: World, method: str, request: Any) -> list[Call]:
    if request.token is not None:
        world.sent.append((method, request))
    return [world.call(method, request)]


def _quest(world: World, numbers: Numbers, states: Sequence[str] = ()) -> str:
    """A quest, of these states if there is one."""
    quests = world.model.quests
    fitting = [quest for quest in quests if not states or quests[quest].state in states] or list(quests) or ["q-none"]
    return _nearest(fitting, numbers)


def _nearest(quests: Iterable[str], numbers: Numbers) -> str:
    """The quest of a chosen number, else the next: leaving out an unconcerned quest leaves the choice as it is."""
    chosen = numbers.below(IDS)
    return min(quests, key=lambda quest: (_number(quest) - chosen) % IDS)


def _number(quest: str) -> int:
    return 0 if quest == "q-none" else int(quest[2:], 16)


def _free_id(taken: Container[str], chosen: int) -> str:
    """The id of that number, else the next free one."""
    ids = (f"q-{(chosen + further) % IDS:012x}" for further in range(IDS))
    return next(each for each in ids if each not in taken)


def add(world: World, numbers: Numbers) -> list[Call]:
    """One to three quests; of each other, of older ones, now and then of what is not there or elsewhere."""
    project = _project(numbers)
    count = max(1, numbers.below(5) - 1)
    if len(world.model.quests) + count > QUESTS_MAX:
        return promote(world, numbers)
    mates = [key for key, quest in world.model.quests.items() if quest.new.project == project.key]
    quests: list[NewQuest] = []
    for _ in range(count):
        taken = {*world.model.quests, *(quest.id for quest in quests)}
        quests.append(_new(world, numbers, project.key, _free_id(taken, numbers.below(IDS)), mates))
        mates.append(quests[-1].id)
    max_waiting = 3 if numbers.one_in(16) else 5000
    token = _token(world, numbers)
    return _send(world, "add", Add(project, tuple(quests), world.now, max_waiting, world.slots, token))


def _project(numbers: Numbers) -> ProjectRef:
    """Mostly the first."""
    return PROJECTS[(0, 0, 0, 0, 0, 1, 1, 2)[numbers.below(8)]]


def _new(world: World, numbers: Numbers, project: str, quest: str, mates: Sequence[str]) -> NewQuest:
    depends_on: tuple[str, ...] = ()
    if mates and (many := (0, 0, 0, 1, 2)[numbers.below(5)]):
        depends_on = tuple(dict.fromkeys(_nearest(mates, numbers) for _ in range(many)))
    if numbers.one_in(24):
        depends_on = (*depends_on, *(("q-none",) if numbers.one_in(2) else list(world.model.quests)[:1]))
    return NewQuest(
        id=quest,
        project=project,
        role=numbers.of(ROLES),
        name="a quest",
        task="true",
        context=None,
        priority=(0, 0, 0, 5, -1)[numbers.below(5)],
        max_attempts=(1, 2, 3, 0)[numbers.below(4)],
        backoff_base_ms=1000,
        scheduled_at=world.now + numbers.of((1000, 30_000)) if numbers.one_in(6) else 0,
        timeout_ms=None,
        lane=numbers.of(LANES),
        external=numbers.one_in(10),
        depends_on=depends_on,
        created_at=world.now,
    )


def claim_own(world: World, numbers: Numbers) -> list[Call]:
    """The daemon fills its slots."""
    most = 1 + numbers.below(3)
    return [world.call("claim", Claim(world.owner, world.now, LEASES_MS[-1], own=True, most=most, limits=world.limits))]


def claim_outside(world: World, numbers: Numbers) -> list[Call]:
    """Somebody else claims, perhaps only in a lane or role."""
    project, owner, lease_ms = _project(numbers).key, numbers.of(OUTSIDERS), numbers.of(LEASES_MS)
    lane = "narrow" if numbers.one_in(5) else None
    role = numbers.of(ROLES) if numbers.one_in(5) else None
    most, token = 1 + numbers.one_in(4), _token(world, numbers)
    claim = Claim(owner, world.now, lease_ms, own=False, most=most, project=project, lane=lane, role=role, token=token)
    return _send(world, "claim", claim)


def claim_now(world: World, numbers: Numbers) -> list[Call]:
    """A person runs a quest, or the next of a project."""
    quest = _quest(world, numbers, ("queued", "interrupted")) if numbers.below(3) else None
    project, token = numbers.of(PROJECTS).key, _token(world, numbers)
    claim = ClaimNow(world.owner, world.now, LEASES_MS[-1], world.limits, quest, project, token)
    return _send(world, "claim_now", claim)


def _live(world: World) -> dict[str, Fence]:
    """The leases that are held, by quest."""
    quests = world.model.quests.items()
    return {key: Fence(key, quest.owner, quest.attempts) for key, quest in quests if quest.owner is not None}


def _fence(world: World, numbers: Numbers) -> Fence:
    """A lease that is held, as a rule; else one that was, or never was."""
    live = _live(world)
    if live and not numbers.one_in(5):
        return live[_nearest(live, numbers)]
    fence = numbers.of(world.fences or [Fence("q-none", "nobody", 1)])
    return numbers.of((fence, replace(fence, owner="nobody"), replace(fence, generation=fence.generation + 1), fence))


def finish(world: World, numbers: Numbers) -> list[Call]:
    """An attempt ends, in any class. Where none is under way one begins, as a rule."""
    if not _live(world) and not numbers.one_in(5):
        return claim_own(world, numbers)
    fence = _fence(world, numbers)
    klass = numbers.of(("failed", "ok", "ok", "interrupted", *CLASSES))
    until = world.now + numbers.of((-1000, 1000, 30_000)) if klass in ("limit", "released") else None
    sealed = (Sealed("stdout", f"{fence.quest}/{fence.generation}/stdout", 3),) if numbers.one_in(3) else ()
    request = Finish(
        fence,
        world.now,
        klass,
        numbers.of(CHANCES),
        POLICY,
        world.limits,
        error="it broke",
        retry_at=until if numbers.below(2) else None,
        artifacts=sealed,
        path_missing=klass == "released" and numbers.one_in(3),
        notify=frozenset(("failed", "done")[: numbers.below(3)]),
        token=_token(world, numbers),
    )
    return _send(world, "finish", request)


def heartbeat(world: World, numbers: Numbers) -> list[Call]:
    return [world.call("heartbeat", _fence(world, numbers), world.now, numbers.of(LEASES_MS))]


def extend_own(world: World, numbers: Numbers) -> list[Call]:
    return [world.call("extend_own", world.owner, world.now, LEASES_MS[-1])]


def verdict(world: World, numbers: Numbers) -> list[Call]:
    """An agent reports from inside."""
    said = json.dumps({"klass": numbers.of(("ok", "failed", "blocked"))})
    return [world.call("verdict", _fence(world, numbers), said, None)]


def started(world: World, numbers: Numbers) -> list[Call]:
    """A child's pid. It may wait for company, so it gets some."""
    return [world.call("started", Started(_fence(world, numbers), world.now, 4711, 99, "boot"))]


def cancel(world: World, numbers: Numbers) -> list[Call]:
    states = ("running", *WAITING) if numbers.below(4) else ()
    notify = frozenset(("cancelled", "failed")[: numbers.below(3)])
    quest = _quest(world, numbers, states)
    return _send(world, "cancel", Steer(quest, world.now, "no more", notify, _token(world, numbers)))


def retry(world: World, numbers: Numbers) -> list[Call]:
    states = (*DEAD, "interrupted", "blocked") if numbers.below(4) else ()
    quest = _quest(world, numbers, states)
    return _send(world, "retry", Steer(quest, world.now, token=_token(world, numbers)))


def block(world: World, numbers: Numbers) -> list[Call]:
    """A person takes a quest out of the queue."""
    quest = _quest(world, numbers, ("queued", "interrupted", "running") if numbers.below(4) else ())
    notify = frozenset({"blocked"} if numbers.one_in(2) else ())
    return _send(world, "block", Block(quest, world.now, "wait", notify=notify, token=_token(world, numbers)))


def edit(world: World, numbers: Numbers) -> list[Call]:
    """A person changes some of a quest's values, or none."""
    quest = _quest(world, numbers, WAITING if numbers.below(4) else ())
    request = Edit(
        quest,
        world.now,
        check=lambda edited: None,
        task=(None, "true", "false")[numbers.below(3)],
        priority=(None, 0, 7)[numbers.below(3)],
        not_before=(None, None, 0, world.now + 1000)[numbers.below(4)],
        max_attempts=(None, None, 0, 1, 3)[numbers.below(5)],
        lane=(None, "", "narrow", "wide")[numbers.below(4)],
        lane_slots=world.slots,
        token=_token(world, numbers),
    )
    return _send(world, "edit", request)


def close_gate(world: World, numbers: Numbers) -> list[Call]:
    """A project or the daemon is paused, or a project's directory is gone."""
    if numbers.one_in(3):
        return [world.call("path_missing", numbers.of(PROJECTS[:2]).key, True)]
    project = numbers.of((*PROJECTS, None))
    return _send(world, "pause", Pausing(project, True, "night", world.now, _token(world, numbers)))


def open_gate(world: World, numbers: Numbers) -> list[Call]:
    """What was closed is opened, first of all; else what is open already."""
    model = world.model
    gone = [key for key, project in model.projects.items() if project.missing and project.path is not None]
    if gone and numbers.below(2):
        return [world.call("path_missing", numbers.of(gone), False)]
    closed: list[ProjectRef | None] = [
        ref for ref in PROJECTS if ref.key in model.projects and model.projects[ref.key].paused
    ]
    closed += [None] if model.paused else []
    pausing = Pausing(numbers.of(closed or [*PROJECTS, None]), False, "", world.now, _token(world, numbers))
    return _send(world, "pause", pausing)


def configure(world: World, numbers: Numbers) -> list[Call]:
    """The configuration changes."""
    world.limits = numbers.of(
        (Limits(), Limits({"build": 1}), Limits({"build": 2, "default": 1}, 2), Limits(project=1))
    )
    world.slots = numbers.of(({"wide": 2}, {"wide": 3, "narrow": 2}, {}))
    world.on_lease_loss_fail = numbers.one_in(2)
    return [world.call("configure", world.limits, world.slots)]


def repeat(world: World, numbers: Numbers) -> list[Call]:
    """A client that lost its connection sends a request again; or another body under the same id."""
    if not world.sent:
        return []
    method, request = world.sent[-1 - numbers.below(min(len(world.sent), 6))]
    if numbers.one_in(6):
        request = replace(request, token=replace(request.token, body="another"))
    if method == "add":  # the daemon makes new ids for each call
        if len(world.model.quests) + len(request.quests) > QUESTS_MAX:
            return []
        request = _with_new_ids(world, request)
    elif method in ("finish", "claim_now"):
        request = replace(request, limits=world.limits)
    return [world.call(method, replace(request, now=world.now))]


def _with_new_ids(world: World, request: Add) -> Add:
    new: dict[str, str] = {}
    for quest in request.quests:
        new[quest.id] = _free_id({*world.model.quests, *new.values()}, _number(quest.id))
    quests = (
        replace(
            quest,
            id=new[quest.id],
            created_at=world.now,
            depends_on=tuple(new.get(dependency, dependency) for dependency in quest.depends_on),
        )
        for quest in request.quests
    )
    return replace(request, quests=tuple(quests))


def promote(world: World, numbers: Numbers) -> list[Call]:
    return [world.call("promote", world.now)]


def forget(world: World, numbers: Numbers) -> list[Call]:
    return [world.call("forget_requests", world.now - numbers.of((0, 1000, 3_600_000)))]


def advance(world: World, numbers: Numbers) -> list[Call]:
    world.clock.advance(numbers.of(SPANS_MS))
    return []


def set_clock(world: World, numbers: Numbers) -> list[Call]:
    world.clock.step(numbers.of(STEPS_MS))
    return []


def suspend(world: World, numbers: Numbers) -> list[Call]:
    world.clock.suspend(numbers.of(SPANS_MS[2:]))
    return []


def tick(world: World, numbers: Numbers) -> Iterator[Call]:
    """The rescuer's turn: leases move with the clocks, and only then those that ran out are settled."""
    now = Reading.of(world.clock)
    jump, world.reading = now.jump_since(world.reading), now
    if jump:
        yield world.call("shift_leases", jump)
    settled = True
    while settled:
        call = world.call("expire", world.reclaim(fail=world.on_lease_loss_fail))
        settled = bool(call.foretold)
        yield call


def recover(world: World, numbers: Numbers) -> list[Call]:
    """A new daemon settles what is left of earlier ones; now and then something cannot be killed yet."""
    left = [(key, quest.attempts) for key, quest in world.model.quests.items() if quest.own]
    alive = [attempt for attempt in left if numbers.one_in(8)]
    files = (Sealed("stderr", "stderr", 7),)
    return [world.call("recover", world.reclaim(), {attempt: files for attempt in left if attempt not in alive})]


def restart(world: World, numbers: Numbers) -> Iterator[Call]:
    """What a daemon does first, on files that an earlier one left."""
    world.daemon += 1
    world.reading = Reading.of(world.clock)
    yield from recover(world, numbers)
    yield world.call("configure", world.limits, world.slots)


@dataclass(frozen=True, slots=True)
class Rule:
    """How a kind of step is made, how often it comes, and whether it may share a transaction with others."""

    make: Callable[[World, Numbers], Iterable[Call]]
    weight: int
    joins: bool = True


RULES = {
    "add": Rule(add, 18),
    "claim_own": Rule(claim_own, 16),
    "claim_outside": Rule(claim_outside, 16),
    "claim_now": Rule(claim_now, 4),
    "finish": Rule(finish, 24),
    "heartbeat": Rule(heartbeat, 4),
    "extend_own": Rule(extend_own, 2),
    "verdict": Rule(verdict, 3),
    "started": Rule(started, 4),
    "cancel": Rule(cancel, 5),
    "retry": Rule(retry, 9),
    "block": Rule(block, 3),
    "edit": Rule(edit, 5),
    "close_gate": Rule(close_gate, 1),
    "open_gate": Rule(open_gate, 4),
    "configure": Rule(configure, 2),
    "repeat": Rule(repeat, 5),
    "promote": Rule(promote, 2),
    "forget": Rule(forget, 1),
    "advance": Rule(advance, 10, joins=False),
    "set_clock": Rule(set_clock, 2, joins=False),
    "suspend": Rule(suspend, 2, joins=False),
    "tick": Rule(tick, 6, joins=False),
    "recover": Rule(recover, 1),
}
