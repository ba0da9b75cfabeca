"""Admission: what a request may cost, where it runs, and how much may wait. Decided from the estimate alone."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from service.execution.errors import ComputeBudgetExceeded, QueueFull

COST_UNITS_PER_SECOND = 1_000_000


@final
class Admission:
    """Costs are work units of about one microsecond of CPU time.

    Work up to `inline_cost_limit` runs in the event loop, up to `max_cost` in a worker process, above it is refused.
    Of the work for worker processes, `queue_limit` computations may wait, and none that would wait longer than
    `queue_wait_limit_seconds` by the estimates before it.
    """

    def __init__(
        self,
        *,
        inline_cost_limit: int,
        max_cost: int,
        worker_count: int,
        queue_limit: int,
        queue_wait_limit_seconds: float,
    ) -> None:
        self._inline_cost_limit = inline_cost_limit
        self._max_cost = max_cost
        self._worker_count = worker_count
        self._queue_limit = queue_limit
        self._queue_wait_limit_seconds = queue_wait_limit_seconds
        self._admitted = 0
        self._admitted_cost = 0

    @property
    def admitted(self) -> int:
        """Computations that run in a worker or wait for one."""
        return self._admitted

    def runs_inline(self, cost: int) -> bool:
        """Whether work of this cost may run in the event loop. Raises ComputeBudgetExceeded above the budget."""
        if cost > self._max_cost:
            raise ComputeBudgetExceeded(cost, self._max_cost)
        return cost <= self._inline_cost_limit

    @contextmanager
    def place(self, cost: int) -> Generator[None]:
        """A place in the queue for the workers, held until the block ends. Raises QueueFull."""
        waiting = max(0, self._admitted - self._worker_count + 1)
        wait_seconds = self._admitted_cost / COST_UNITS_PER_SECOND / self._worker_count if waiting else 0.0
        if waiting > self._queue_limit or wait_seconds > self._queue_wait_limit_seconds:
            raise QueueFull(retry_after_seconds=max(1, math.ceil(wait_seconds)))
        self._admitted += 1
        self._admitted_cost += cost
        try:
            yield
        finally:
            self._admitted -= 1
            self._admitted_cost -= cost
