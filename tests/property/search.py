"""Histories from a seed, many of them played, and a failing one made short.

Hypothesis's state machines were tried with the same steps and left. Their own work, 0.2 ms a step beside 1 ms for the
store and the checks, would do. But their draws lean to few and small numbers: of a cascade that stops at the first
level they saw nothing in 12,000 steps, where plain chance shows it within 300, and a fault that both find took them 42
seconds to shrink, here a few. A history that is plain data also needs no database and no blob to be played again.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from questlined.store.sqlite.store import SqliteStore
from tests.property.play import FILE, OTHERS, Broken, Play
from tests.property.steps import RULES
from tests.property.world import Step
from tests.support.clock import ManualClock

NUMBERS = 40  # of a step; an add of three quests takes about that many
PLAYS_MAX = 400  # to shrink one; 30 to 200 are usual
History = list[Step]


def history(seed: str, length: int) -> History:
    """The same steps for the same seed, on any machine. Each history favours some kinds of steps over others."""
    chance = random.Random(seed)
    weights = {kind: rule.weight for kind, rule in RULES.items()} | OTHERS
    leaning = [weight * chance.choice((0.2, 1, 1, 3)) for weight in weights.values()]
    kinds = ["add"] * 4 + chance.choices(list(weights), leaning, k=length - 4)
    return [Step(kind, tuple(chance.randbytes(NUMBERS))) for kind in kinds]


class Field:
    """A directory to play in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / FILE
        self._played = 0
        self.met: Counter[str] = Counter()
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        store = await SqliteStore.open(self._template, ManualClock())
        await store.close()

    def play(self, steps: History) -> Broken | None:
        """What is wrong, None where nothing is."""
        self._played += 1
        folder = self._folder / f"play-{self._played}"
        folder.mkdir()
        play = Play(folder, self._template)
        try:
            asyncio.run(play.run(steps))
        except Broken as broken:
            return broken
        finally:
            shutil.rmtree(folder)
            self.met += play.world.met
        return None


def shrink(steps: History, fails: Callable[[History], Broken | None]) -> Broken:
    """A short history that fails, too: without the steps that it can do without, with small numbers."""
    broken = fails(steps)
    assert broken is not None, "it fails"
    left = iter(range(PLAYS_MAX))

    def bounded(candidate: History) -> Broken | None:
        return fails(candidate) if next(left, None) is not None else None

    while True:
        before = broken.steps
        broken = _smaller(_shorter(broken, bounded), bounded)
        if broken.steps == before:
            return broken


def _shorter(broken: Broken, fails: Callable[[History], Broken | None]) -> Broken:
    """Halves, quarters and so on are left out while it keeps failing; single steps until none can go."""
    size = len(broken.steps) // 2
    while size:
        place = len(broken.steps) - 1  # the last step is where it shows
        while place > 0:
            place = min(max(0, place - size), len(broken.steps) - 1)
            found = fails(broken.steps[:place] + broken.steps[place + size :])
            broken = found or broken
        size //= 2
    return broken


def _smaller(broken: Broken, fails: Callable[[History], Broken | None]) -> Broken:
    """Each step's numbers are set to zero while it keeps failing: all, halves of them, and so on, single ones."""
    place = 0
    while place < len(broken.steps):
        size = len(broken.steps[place].numbers)
        while size and place < len(broken.steps):
            for start in range(0, len(broken.steps[place].numbers), size):
                broken = _without(broken, place, start, size, fails)
                if place == len(broken.steps):
                    break
            size //= 2
        place += 1
    return broken


def _without(broken: Broken, place: int, start: int, size: int, fails: Callable[[History], Broken | None]) -> Broken:
    """With these numbers of a step set to zero, if that fails, too."""
    kind, numbers = broken.steps[place]
    zeroed = tuple(0 if start <= index < start + size else number for index, number in enumerate(numbers))
    if zeroed == numbers:
        return broken
    found = fails([*broken.steps[:place], Step(kind, zeroed), *broken.steps[place + 1 :]])
    return found if found is not None and len(found.steps) <= len(broken.steps) else broken
