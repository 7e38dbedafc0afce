"""Identifiers."""

from __future__ import annotations

import pytest

from questlined.core.ids import ENTROPY_BYTES, Entropy, attempt_id, marker, quest_id, split_attempt


def test_an_id_has_48_random_bits() -> None:
    """All of them are used."""
    assert quest_id(bytes.fromhex("00ff10a0b0c0")) == "q-00ff10a0b0c0"
    assert ENTROPY_BYTES * 8 == 48


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("q-1/2", ("q-1", 2)),
        ("q-1/0", ("q-1", 0)),
        ("a/b/3", ("a/b", 3)),
        ("q-1", None),
        ("/3", None),
        ("q-1/", None),
        ("q-1/-1", None),
        ("q-1/x", None),
        ("q-1/٣", None),
        ("q-1/" + "9" * 16, None),
    ],
)
def test_an_attempts_id_is_taken_apart(text: str, parts: tuple[str, int] | None) -> None:
    """Or refused; no number is too long for the database."""
    assert split_attempt(text) == parts


def test_an_attempts_id_comes_back() -> None:
    """What one makes the other reads."""
    assert split_attempt(attempt_id("q-00ff", 12)) == ("q-00ff", 12)


def test_a_marker_names_store_quest_and_generation() -> None:
    """So that a sweep kills only its own."""
    assert marker("uuid", "q-1", 7) == "uuid:q-1:7"


def test_entropy_is_given_once() -> None:
    """And all of it in its order, in the lengths that are asked for; a long one comes from the source alone."""
    asked: list[int] = []

    def source(number: int) -> bytes:
        asked.append(number)
        return bytes(len(asked) * 50 + one % 50 for one in range(number))

    entropy = Entropy(source)
    pieces = [entropy(6) for _ in range(682)]
    assert b"".join(pieces) == bytes(50 + one % 50 for one in range(4092))
    assert entropy(6) == bytes(100 + one for one in range(6))
    assert entropy(5000) == bytes(150 + one % 50 for one in range(5000))
    assert asked == [4096, 4096, 5000]
