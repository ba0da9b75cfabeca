"""Admission: what a request may cost, where it runs, whose turn it is, and how much may wait."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import final

from service.execution.errors import ComputeBudgetExceeded, QueueFull
from service.execution.fair_queue import FairQueue, Waiting

COST_UNITS_PER_SECOND = 1_000_000


@final
class Admission:
    """Costs are work units of about one microsecond of CPU time.

    Work up to `max_cost` runs in a worker process, above it is refused; what the event loop may compute itself never
    comes here. As many computations run in workers as there are workers; of the others, `queue_limit` may wait, and
    none that would wait longer than `queue_wait_limit_seconds` by the estimates before it. Clients have their turns one
    after another; in a full queue a client that has less than another takes the other's last place.
    """

    def __init__(
        self,
        *,
        max_cost: int,
        worker_count: int,
        queue_limit: int,
        queue_wait_limit_seconds: float,
    ) -> None:
        self._max_cost = max_cost
        self._worker_count = worker_count
        self._queue_limit = queue_limit
        self._queue_wait_limit_seconds = queue_wait_limit_seconds
        self._queue = FairQueue()
        self._running: dict[Waiting, float] = {}
        """Since when each computation runs."""

    @property
    def admitted(self) -> int:
        """Computations that run in a worker or wait for one."""
        return len(self._running) + len(self._queue)

    def admits(self, cost: int) -> bool:
        """Whether the cost is within the budget."""
        return cost <= self._max_cost

    def check(self, cost: int) -> None:
        """Raises ComputeBudgetExceeded above the budget."""
        if not self.admits(cost):
            raise ComputeBudgetExceeded(cost, self._max_cost)

    @asynccontextmanager
    async def place(self, client: str, cost: int) -> AsyncGenerator[None]:
        """A worker for this computation, from when it is this client's turn until the block ends. Raises QueueFull."""
        waiting = Waiting(client, cost / COST_UNITS_PER_SECOND)
        if len(self._running) < self._worker_count:
            self._running[waiting] = time.monotonic()
        else:
            self._enter(waiting)
            try:
                await waiting.turn
            except BaseException:
                self._queue.remove(waiting)
                self._end(waiting)  # its turn may have come in the moment in which it was given up
                raise
        try:
            yield
        finally:
            self._end(waiting)

    def _enter(self, waiting: Waiting) -> None:
        wait_seconds = (self._remaining_seconds() + self._queue.seconds_before(waiting.client)) / self._worker_count
        too_long = wait_seconds - self._queue_wait_limit_seconds
        if too_long > 0:
            raise QueueFull(_whole_seconds(too_long))
        if len(self._queue) >= self._queue_limit:
            displaced = self._queue.newest_of_largest(waiting.client)
            if displaced is None:
                raise QueueFull(self._seconds_until_free())
            self._queue.remove(displaced)
            displaced.turn.set_exception(QueueFull(self._seconds_until_free()))
        self._queue.append(waiting)

    def _end(self, waiting: Waiting) -> None:
        self._running.pop(waiting, None)
        while len(self._running) < self._worker_count and (following := self._queue.pop()) is not None:
            if not following.turn.done():  # else its client has gone, and it is about to leave
                self._running[following] = time.monotonic()
                following.turn.set_result(None)

    def _remaining_seconds(self) -> float:
        now = time.monotonic()
        return sum(_remaining(waiting.seconds, now - since) for waiting, since in self._running.items())

    def _seconds_until_free(self) -> int:
        now = time.monotonic()
        remaining = (_remaining(waiting.seconds, now - since) for waiting, since in self._running.items())
        return _whole_seconds(min(remaining, default=0.0))


def _remaining(expected: float, elapsed: float) -> float:
    """Expected seconds until the end; what takes longer than was expected is expected to take as long again."""
    return expected - elapsed if elapsed < expected else elapsed


def _whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
