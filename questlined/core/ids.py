"""Identifiers: a kind's letter and random bits. Chance comes in as bytes."""

from __future__ import annotations

from collections.abc import Callable

ENTROPY_BYTES = 6  # 48 bits: a collision is likely only near 16 million quests, and the key then refuses it


def quest_id(entropy: bytes) -> str:
    """`q-` and twelve hex digits."""
    return "q-" + entropy[:ENTROPY_BYTES].hex()


def recurrence_id(entropy: bytes) -> str:
    """`r-` and twelve hex digits."""
    return "r-" + entropy[:ENTROPY_BYTES].hex()


def attempt_id(quest: str, attempt: int) -> str:
    """`<quest>/<attempt>`."""
    return f"{quest}/{attempt}"


def split_attempt(text: str) -> tuple[str, int] | None:
    """The quest and number of an attempt id, None where it is not one."""
    quest, slash, number = text.rpartition("/")
    if not slash or not quest or not number.isascii() or not number.isdigit() or len(number) > 15:
        return None
    return quest, int(number)


def marker(store: str, quest: str, generation: int) -> str:
    """The value of QUESTLINE_ATTEMPT by which every process of an attempt is known."""
    return f"{store}:{quest}:{generation}"


def attempt_name(quest: str, generation: int) -> str:
    """What an attempt is called where a store need not be named: its cgroup."""
    return f"{quest}-{generation}"


class Entropy:
    """Random bytes out of larger pieces of `source`: a call of the kernel costs more than all else that an id does."""

    PIECE = 4096

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source
        self._piece, self._used = b"", 0

    def __call__(self, number: int) -> bytes:
        """So many bytes, none of them given twice."""
        if len(self._piece) - self._used < number:
            self._piece, self._used = self._source(max(self.PIECE, number)), 0
        start, self._used = self._used, self._used + number
        return self._piece[start : self._used]
