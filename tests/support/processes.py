"""Work of one kind on every core: for tests that are long by the number of their steps."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
PROCESSES = 2  # fixed, so that a run does not depend on the machine


def shared_out(work: Callable[[int], T]) -> list[T]:
    """What `work(share)` gives for each share, 0 to PROCESSES - 1, each in a process of its own where there are so
    many cores. `work` is a function of a module. Raises what it raises."""
    at_once = min(PROCESSES, os.cpu_count() or 1)
    with ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        return list(pool.map(work, range(PROCESSES)))
