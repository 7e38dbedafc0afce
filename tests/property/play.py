"""Plays a history on a real file and holds every answer, and the file after every step, against the model.

A crash is what kill -9 leaves: the files as they are on disk at that moment, the write-ahead log included, copied
while the store has them open; a new daemon goes on with the copy, and the model with what had been committed by then.
"""

from __future__ import annotations

import asyncio
import pickle
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from questlined import probes
from questlined.core.gates import closed_gates
from questlined.store.sqlite.store import SqliteStore
from tests.property.model import Model
from tests.property.steps import RULES, restart
from tests.property.watch import Watch
from tests.property.world import Call, Numbers, Step, World
from tests.support.clock import ManualClock

FILE = "quests.sqlite"
# Steps that are not calls of the store, and how often they come.
OTHERS = {"look": 6, "together": 10, "crash": 1, "crash_inside": 2}
ANSWER_S = 60.0  # real time; a store that is dead does not answer
INSIDE = ("commit.before", "commit.after")


class Broken(AssertionError):
    """The store is not as the model has it. `steps` are those up to there, with the numbers that they used."""

    def __init__(self, steps: list[Step], story: list[str], what: list[str]) -> None:
        super().__init__("\n".join(what))
        self.steps, self.story, self.what = steps, story, what


class Play:
    """One history under way."""

    def __init__(self, folder: Path, template: Path) -> None:
        self._folder = folder
        self._lives = 0
        self._place = folder / "0"
        self._place.mkdir()
        shutil.copyfile(template, self._place / FILE)
        self.clock = ManualClock()
        self.world = World(self.clock)
        self.story: list[str | Call] = []
        self._played: list[tuple[str, Numbers]] = []
        self._together = 0  # how many of the next steps share a transaction
        self._point: str | None = None  # where to crash in the next call

    async def open(self, events: int = 0, posted: int = 0) -> None:
        self.store = await SqliteStore.open(self._place / FILE, self.clock)
        # A crash here is one of the program, not of the machine: nothing has to reach the platter.
        self.store.writer._db.execute("PRAGMA synchronous = off")
        self.watch = Watch(self._place / FILE, events, posted)

    async def close(self) -> None:
        self.watch.close()
        await self.store.close()

    async def run(self, history: Sequence[Step]) -> None:
        """Raises Broken."""
        await self.open()
        try:
            at = 0
            while at < len(history):
                at = await self._next(history, at)
            self._check(self.watch.last(self.world))
        finally:
            await self.close()

    def _numbers(self, step: Step) -> Numbers:
        """A step's numbers, as it begins."""
        numbers = Numbers(step.numbers)
        self._played.append((step.kind, numbers))
        return numbers

    async def _next(self, history: Sequence[Step], at: int) -> int:
        """Play what begins at `at`; where the next begins."""
        step = history[at]
        if step.kind in RULES:
            return await self._group(history, at)
        numbers = self._numbers(step)
        if step.kind == "together":
            self._together = 2 + numbers.below(3)
        elif step.kind == "crash_inside":
            self._point = numbers.of(INSIDE)
        elif step.kind == "crash":
            self.story.append("the daemon is killed")
            self._copy()
            await self._reborn(numbers)
        else:
            await self._look(numbers)
        return at + 1

    async def _group(self, history: Sequence[Step], at: int) -> int:
        """A step, or several whose calls share a transaction; where the next begins."""
        end = at + 1
        while end - at < self._together and end < len(history) and _joins(history[at]) and _joins(history[end]):
            end += 1
        self._together = 0
        steps = history[at:end]
        calls = (call for step in steps for call in RULES[step.kind].make(self.world, self._numbers(step)))
        await self._perform(calls, shared=len(steps) > 1)
        if not _joins(steps[0]):
            self.story.append(f"{steps[0].kind}: it is {self.clock.wall_ms()}")
        return end

    async def _perform(self, calls: Iterator[Call], *, shared: bool = False) -> None:
        """Make calls, each in its own transaction or all in one. Where a crash is due, the first is the last."""
        before = pickle.dumps(self.world.model) if self._point else b""
        batches = iter([list(calls)]) if shared else ([call] for call in calls)
        for batch in filter(None, batches):
            point, self._point = self._point, None
            with self._crashing_at(point):
                await self._ask(batch)
            if point:
                self.story.append(f"the daemon is killed at {point}")
                if point == "commit.before":
                    self.world.model = pickle.loads(before)
                await self._reborn()
                return
        self._check(self.watch.differences(self.world))

    async def _ask(self, calls: Sequence[Call]) -> None:
        """Make calls in one turn of the loop, so that they share a transaction, and compare their answers."""
        self.world.met["calls that share a transaction"] += len(calls) > 1
        asked = [call.ask(self.store) for call in calls]
        if calls[-1].method == "started":  # it waits for company
            asked.append(self.store.touch())
        try:
            async with asyncio.timeout(ANSWER_S):
                answers = await asyncio.gather(*asked, return_exceptions=True)
        except TimeoutError:
            self._check([f"no answer to {[call.method for call in calls]}"])
        wrong = []
        for call, answer in zip(calls, answers, strict=False):
            self.story.append(call)
            if (told := call.read(answer)) != call.foretold:
                wrong.append(f"{call.method} answered {told!r}, should be {call.foretold!r}")
        self._check(wrong)

    def _check(self, wrong: list[str]) -> None:
        if wrong:
            steps = [Step(kind, tuple(numbers.used)) for kind, numbers in self._played]
            raise Broken(steps, [line if isinstance(line, str) else _told(line) for line in self.story], wrong)

    # Crashes

    def _copy(self) -> None:
        """Take the files as they are for the next life."""
        self._lives += 1
        place = self._folder / str(self._lives)
        place.mkdir()
        for file in self._place.iterdir():
            shutil.copyfile(file, place / file.name)

    @contextmanager
    def _crashing_at(self, point: str | None) -> Iterator[None]:
        """Within this, the files are copied when the writer is at `point` for the first time."""
        left = [point]

        def reached(name: str) -> None:
            if name in left:
                left.clear()
                self._copy()

        kept = probes.armed, probes.reached
        probes.armed, probes.reached = point is not None, reached
        try:
            yield
        finally:
            probes.armed, probes.reached = kept

    async def _reborn(self, numbers: Numbers | None = None) -> None:
        """A new daemon on the copy."""
        self.world.met["a daemon was killed"] += 1
        events, posted = self.watch.events, self.watch.posted
        await self.close()
        shutil.rmtree(self._place)
        self._place = self._folder / str(self._lives)
        await self.open(events, posted)
        await self._perform(restart(self.world, numbers or Numbers(())))

    async def _look(self, numbers: Numbers) -> None:
        """What the store tells, on its reader thread."""
        store, model, now = self.store, self.world.model, self.clock.wall_ms()
        project = numbers.of([*model.projects, None])
        quest = numbers.of([*model.quests, "q-none"])
        counts, situation = await store.counts(project), await store.situation(quest, now)
        seen = {
            "counts": {state: number for state, number in counts.items() if number},
            "next_due": await store.next_due(),
            "next_expiry": await store.next_expiry(),
            "open_runs": sorted((run.quest_id, run.attempt, run.owner_session) for run in await store.open_runs()),
            "missing_paths": sorted(key for key, _ in await store.missing_paths()),
            "daemon_paused": await store.daemon_paused() is not None,
            f"gates of {quest}": None if situation is None else {gate.gate for gate in closed_gates(situation)},
            "fault": await store.fault(),
        }
        should = _view(model, project, quest, now)
        self.story.append(f"look at {project} and {quest}")
        self._check([f"{key} is {seen[key]!r}, should be {should[key]!r}" for key in seen if seen[key] != should[key]])


def _view(model: Model, project: str | None, quest: str, now: int) -> dict[str, object]:
    """What a look should show."""
    quests = list(model.quests.values())
    states = Counter(each.state for each in quests if project in (None, each.new.project))
    return {
        "counts": dict(states),
        "next_due": min((each.due for each in quests if model.timed(each)), default=None),
        "next_expiry": min((each.expires or 0 for each in model.running() if not each.own), default=None),
        "open_runs": sorted((each.new.id, each.attempts, each.owner) for each in model.running() if each.own),
        "missing_paths": sorted(key for key, each in model.projects.items() if each.missing and each.path is not None),
        "daemon_paused": model.paused,
        f"gates of {quest}": model.gates(quest, now),
        "fault": None,
    }


def _joins(step: Step) -> bool:
    """Whether a step's calls may share a transaction with another's."""
    return step.kind in RULES and RULES[step.kind].joins


def _told(call: Call) -> str:
    """A call and its answer, without what says nothing in most of them."""
    request = ", ".join(repr(part) for part in call.request)
    return f"{call.method} {_DULL.sub('', request)}: {call.foretold!r}"


_DULL = re.compile(
    r"""policy=Policy\([^)]*\),[ ]
      | ,[ ]\w+=(None|False|0|frozenset\(\)|\(\)|Limits\(role=\{\},[ ]project=None\))(?=[,)])
      | ,[ ](name|task)='(a[ ]quest|true)' | check=<function[^>]*>,[ ] | project='[^']*',[ ](?=role=)""",
    re.VERBOSE,
)
