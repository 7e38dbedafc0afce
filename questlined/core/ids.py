"""Identifiers: a kind's letter and random bits. Chance comes in as bytes."""

from __future__ import annotations

ENTROPY_BYTES = 6  # 48 bits: a collision is likely only near 16 million quests, and the key then refuses it


def quest_id(entropy: bytes) -> str:
    """`q-` and twelve hex digits."""
    return "q-" + entropy[:ENTROPY_BYTES].hex()


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
