"""The short form of the benchmark: it fails only where a figure is twice off its bar."""

from __future__ import annotations

from tests.bench.__main__ import short
from tests.bench.figures import Figure, show


def test_no_figure_is_twice_off_its_bar() -> None:
    """Rates and latencies are judged by their ratio to what the machine does in the same run without questline."""
    figures = show(short())
    assert not [figure.line() for figure in figures if figure.portable and figure.off > 2]


def test_a_figure_that_is_off_its_bar_says_by_how_much() -> None:
    assert Figure("x", "ms", [4, 5, 6], 2.5).off == 2
    assert Figure("x", "/s", [100, 250], 350, "high").off == 2
    assert Figure("x", "ms", [20, 20], 2.5, base=[4, 4]).off == 2
    assert Figure("x", "ms", [20, 20]).off == 0
