"""The outside of the store: the choices of a step, a call with what is foretold of it, and who there is to call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from questlined.core.limits import Limits
from questlined.core.retry import Policy
from questlined.services.rescuer import Reading
from questlined.store.protocol import Claimed, Fence, Reclaim, Store
from questlined.wire.errors import QuestlineError
from tests.property.model import Model
from tests.property.queue import Refused
from tests.support.clock import ManualClock

T = TypeVar("T")
POLICY = Policy(backoff_cap_ms=5000, backoff_jitter=0.25, max_interruptions=2)


class Numbers:
    """Small numbers that choose; zeros when they are used up. `used`: what chose the same, as small as can be."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)
        self.used: list[int] = []

    def below(self, bound: int) -> int:
        self.used.append(next(self._numbers, 0) % bound)
        return self.used[-1]

    def of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def one_in(self, odds: int) -> bool:
        """Never when all numbers are zero."""
        return self.below(odds) == odds - 1


class Step(NamedTuple):
    """One step of a history."""

    kind: str
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the store, and what the model says it answers."""

    method: str
    request: tuple[Any, ...]
    foretold: Any

    async def ask(self, store: Store) -> Any:
        """A coroutine even where the method is none: calls that are asked together are taken in their order."""
        return await getattr(store, self.method)(*self.request)

    def read(self, answer: Any) -> Any:
        """A real answer as the model would say it."""
        if isinstance(answer, QuestlineError):
            told = {"WrongState": "state", "DependencyInvalid": "reason", "LimitReached": "setting"}
            name = type(answer).__name__
            return Refused(name, answer.details.get(told[name]) if name in told else None)
        if isinstance(answer, Claimed):
            return (answer.quest.id, answer.run.attempt, answer.run.run_number)
        if self.method == "claim" and isinstance(answer, list):
            return [(got.quest.id, got.run.attempt, got.run.run_number) for got in answer]
        if self.method == "heartbeat" and not isinstance(answer, Exception):
            return (answer.lease_expires_at, answer.cancel_requested)
        return sorted(answer) if self.method == "recover" and isinstance(answer, list) else answer


class World:
    """The outside of the store: who calls it, with what, and when."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.model = clock, Model()
        self.reading = Reading.of(clock)
        self.daemon = 1
        self.limits, self.slots = Limits(), {"wide": 2}
        self.on_lease_loss_fail = False
        self.fences: list[Fence] = []  # every lease that was ever given
        self.sent: list[tuple[str, Any]] = []  # requests with a requestId
        self.tokens = 0
        self.met: Counter[str] = Counter()  # what has happened how often

    @property
    def now(self) -> int:
        return self.clock.wall_ms()

    @property
    def owner(self) -> str:
        """The daemon of now."""
        return f"daemon-{self.daemon}"

    def call(self, method: str, *request: Any) -> Call:
        """Ask the model, and have the store asked."""
        foretold = self.model.ask(method, *request, now=self.now)
        if method in ("claim", "claim_now") and foretold is not None and not isinstance(foretold, Refused):
            got = foretold if isinstance(foretold, list) else [foretold]
            self.fences += [Fence(quest, request[0].owner, attempt) for quest, attempt, _ in got]
        self.met[f"{method}: {_word(method, foretold)}"] += 1
        return Call(method, request, foretold)

    def reclaim(self, *, fail: bool = False) -> Reclaim:
        return Reclaim(self.now, 0.5, POLICY, self.limits, fail, frozenset({"failed"}))


def _word(method: str, answer: Any) -> str:
    """An answer in a word: a refusal by its name, "none" where a search had no result, the state after an end."""
    if isinstance(answer, Refused):
        return answer.name
    if method == "finish":
        return str(answer)
    return "done" if answer or (answer is None and method != "claim_now") or answer is False else "none"
