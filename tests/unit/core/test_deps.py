"""Cycles among dependencies."""

from __future__ import annotations

import itertools
import random

import pytest

from questlined.core.deps import find_cycle


@pytest.mark.parametrize(
    "edges",
    [
        {},
        {"a": []},
        {"a": ["b"], "b": []},
        {"a": ["elsewhere"]},
        {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []},
        {"a": ["b", "b"], "b": ["c", "c"], "c": []},
    ],
)
def test_what_has_no_cycle_gives_none(edges: dict[str, list[str]]) -> None:
    """Diamonds, doubled edges and edges that lead out are no cycles."""
    assert find_cycle(edges) is None


@pytest.mark.parametrize(
    ("edges", "length"),
    [
        ({"a": ["a"]}, 1),
        ({"a": ["b"], "b": ["a"]}, 2),
        ({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"], "y": []}, 3),
        ({"a": ["z", "b"], "z": [], "b": ["z", "c"], "c": ["z", "b"]}, 2),
    ],
)
def test_a_cycle_is_a_closed_path_along_edges(edges: dict[str, list[str]], length: int) -> None:
    """Its first is its last, and what only leads to it is left out."""
    cycle = find_cycle(edges)
    assert cycle is not None
    assert cycle[0] == cycle[-1]
    assert len(cycle) == length + 1
    assert all(after in edges[before] for before, after in itertools.pairwise(cycle))


def test_a_chain_of_thousands_needs_no_recursion() -> None:
    """Far beyond the interpreter's limit, with and without a cycle."""
    chain = {str(number): [str(number + 1)] for number in range(50_000)}
    assert find_cycle(chain) is None
    cycle = find_cycle(chain | {"50000": ["0"]})
    assert cycle is not None
    assert len(cycle) == 50_002


def test_random_graphs_agree_with_a_plain_elimination() -> None:
    """A graph has a cycle when taking away what depends on nothing does not empty it."""
    chance = random.Random(11)
    for _ in range(500):
        names = [str(number) for number in range(chance.randrange(1, 8))]
        edges = {name: chance.sample(names, chance.randrange(min(3, len(names) + 1))) for name in names}
        left = set(names)
        while free := {name for name in left if not left.intersection(edges[name])}:
            left -= free
        assert (find_cycle(edges) is not None) is bool(left), edges
