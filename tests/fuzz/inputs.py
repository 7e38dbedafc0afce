"""The mix of inputs: which of them are rubbish, wrong, strange or right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from random import Random

from questlined.operations.registry import METHODS
from tests.fuzz.calls import NAMES, Caller, Memory
from tests.fuzz.mutate import FRAME_MAX, bent, damaged, encoded, junk

# A call that waits takes milliseconds until it is hung up on; a claim seldom waits.
WEIGHTS = {
    name: 3 if method.ends_with_client(more=True) and not name.endswith(".Claim") else 40
    for name, method in METHODS.items()
}


class Inputs:
    """Makes a batch's inputs, and counts them by kind. `without` are methods that are not called."""

    def __init__(self, memory: Memory, *, without: Collection[str] = ()) -> None:
        self.memory = memory
        self._weights = [0 if name in without else WEIGHTS[name] for name in NAMES]
        self.kinds: Counter[str] = Counter()
        self.other = b"{}"  # a frame to splice with

    def batch(self, seed: int, number: int, size: int) -> list[bytes]:
        """As many frames, or a few more. They follow from the seed, the number and what replies have told before."""
        random = Random(seed * 1_000_003 + number)
        caller = Caller(random, self.memory)
        names = random.choices(NAMES, self._weights, k=size)
        ways = random.choices(
            ("junk", "damaged", "bent", "unknown", "strange", "valid", "long"), (150, 270, 470, 78, 20, 11, 1), k=size
        )
        self.kinds.update(ways)
        made = [self._one(random, caller, name, way) for name, way in zip(names, ways, strict=True)]
        return b"\0".join(made).split(b"\0")  # a mutation may have put a NUL into one

    def _one(self, random: Random, caller: Caller, name: str, way: str) -> bytes:  # noqa: PLR0911  one a way
        if way == "junk":
            return junk(random)
        if way == "long":
            return b'{"method":"' + b"x" * (FRAME_MAX + random.choice((-30, -15, -14, 0, 1, 5000))) + b'.X"}'
        if way == "strange":
            return encoded(caller.strange(name) | self._flags(random, name))
        call = caller.call(name)
        if way == "valid":
            return encoded(call | self._flags(random, name))
        if way == "damaged":
            self.other, other = encoded(call), self.other
            return damaged(random, self.other, other)
        if way == "unknown":
            return encoded(call | {"method": random.choice(("io.questline.Quests.Nothing", "a.b.C", "x", "", "ä.ö"))})
        return bent(random, call)

    @staticmethod
    def _flags(random: Random, name: str) -> dict[str, bool]:
        if random.random() < 0.04:
            return {random.choice(("oneway", "upgrade", "more")): random.random() < 0.8}
        return {"more": True} if METHODS[name].stream is not None and random.random() < 0.5 else {}
