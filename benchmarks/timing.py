"""CPU seconds of this process. Other load on a shared machine disturbs them less than wall-clock time."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

Prepared = TypeVar("Prepared")

REPEATS = 9
LEAST_REPEATS = 3
BUDGET_SECONDS = 3.0
"""Expensive work is repeated less often, but at least LEAST_REPEATS times."""


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def median_cpu_seconds(work: Callable[[], object]) -> float:
    return median_cpu_seconds_after(lambda: None, lambda _: work())


def median_cpu_seconds_after(prepare: Callable[[], Prepared], work: Callable[[Prepared], object]) -> float:
    """Return the median CPU seconds of `work` on a fresh result of `prepare`. Preparation is not counted."""
    found: list[float] = []
    while len(found) < REPEATS and (len(found) < LEAST_REPEATS or sum(found) < BUDGET_SECONDS):
        prepared = prepare()
        found.append(cpu_seconds(lambda prepared=prepared: work(prepared)))
    return median(found)
