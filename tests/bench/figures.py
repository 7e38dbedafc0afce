"""A figure, its baseline and its bar; and the table that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """Samples of one thing. The bar is for their median, or with `base` for its ratio to the median of `base`.

    `value` is shown and judged instead of the median where it is given (a percentile, a total). Without `bar` the
    figure is for information.
    """

    name: str
    unit: str
    samples: Sequence[float]
    bar: float | None = None
    better: Literal["low", "high"] = "low"
    base: Sequence[float] = ()
    base_name: str = ""
    value: float | None = None

    @property
    def median(self) -> float:
        """What is shown: the median, or what was given instead of it."""
        return statistics.median(self.samples) if self.value is None else self.value

    @property
    def ratio(self) -> float | None:
        """To the baseline's median, None without one."""
        return self.median / statistics.median(self.base) if self.base else None

    @property
    def off(self) -> float:
        """How many times off its bar: 1 or less is met, 0 is for information."""
        if self.bar is None:
            return 0.0
        judged = self.median if self.ratio is None else self.ratio
        if self.better == "low":
            return judged / self.bar
        return self.bar / judged if judged else float("inf")

    @property
    def portable(self) -> bool:
        """Whether it can be judged on a slow or busy machine, too: a ratio, a size, or seconds with a wide margin."""
        return bool(self.base) or self.unit in ("s", "MiB")

    def line(self) -> str:
        """The figure as a row of the table."""
        quartiles = statistics.quantiles(self.samples, n=4) if len(self.samples) > 1 else [self.samples[0]] * 3
        spread = f"{_short(quartiles[0])}–{_short(quartiles[2])}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} × {self.base_name} ({_short(_median(self.base))})"
        sign = "≤" if self.better == "low" else "≥"
        bar = "" if self.bar is None else f"{sign} {_short(self.bar)}{' ×' if self.base else ''}"
        verdict = "" if self.bar is None else "met" if self.off <= 1 else f"MISSED ({self.off:.2f})"
        shown = f"{_short(self.median)} {self.unit}"
        return f"{self.name:<44} {shown:>12}  {spread:<13} {ratio:<36} {bar:<9} {verdict}".rstrip()


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that `share` of all do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(figures: Iterable[Figure]) -> list[Figure]:
    """Print each as it comes, and give them all."""
    print(f"{'':<44} {'median':>12}  {'quartiles':<13} {'ratio':<36} {'bar':<9}")
    shown = []
    for figure in figures:
        print(figure.line(), flush=True)
        shown.append(figure)
    return shown


def _median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def _short(number: float) -> str:
    if number >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}" if number >= 1 else f"{number:.3f}"
