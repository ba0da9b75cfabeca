"""CPU seconds of this process, which neighbours on a shared machine disturb less than a clock on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

Prepared = TypeVar("Prepared")

REPEATS = 9
LEAST_REPEATS = 3
BUDGET_SECONDS = 3.0
"""Work that is dear is repeated less often, never less than LEAST_REPEATS times."""


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def median_cpu_seconds(work: Callable[[], object]) -> float:
    return median_cpu_seconds_after(lambda: None, lambda _: work())


def median_cpu_seconds_after(prepare: Callable[[], Prepared], work: Callable[[Prepared], object]) -> float:
    """CPU seconds of `work`, which gets what `prepare` makes anew each time; preparing is not counted."""
    found: list[float] = []
    while len(found) < REPEATS and (len(found) < LEAST_REPEATS or sum(found) < BUDGET_SECONDS):
        prepared = prepare()
        found.append(cpu_seconds(lambda prepared=prepared: work(prepared)))
    return median(found)
