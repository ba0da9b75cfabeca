"""Admission control for workers: cost limit, choice of the lane, order of the queue, and queue limits.

A *lane* is a kind of worker: ordinary workers, or reserve workers for short computations only.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, final

from service.execution.errors import ComputeBudgetExceeded, QueueFull
from service.execution.fair_queue import FairQueue, Lane, QueuedComputation, QueueEntry

COST_UNITS_PER_SECOND = 1_000_000
SHORT_WORK_SECONDS: Final = 0.25
"""Largest estimated cost of work that may run in the reserve."""


@dataclass(frozen=True, slots=True)
class _RunningComputation:
    requester: str
    lane: Lane
    seconds: float
    started: float

    def remaining_seconds(self, now: float) -> float:
        # a computation that has run for t seconds, longer than estimated, is expected to run for another t seconds
        elapsed = now - self.started
        return self.seconds - elapsed if elapsed < self.seconds else elapsed


@final
class WorkerAdmission:
    """Admission control of the worker processes. Costs are units of about one microsecond of CPU time.

    Computations above `max_cost` are rejected. `worker_count` computations run at once in ordinary workers, and
    `reserve_count` short computations in workers reserved for them. At most `queue_limit` entries of ordinary
    computations and as many of short computations wait; a computation has an entry for each requester. A computation
    whose estimated wait exceeds `queue_wait_limit_seconds` is rejected. Requesters share the workers by seconds of work
    (`fair_queue.py`). In a full queue, a requester with fewer entries replaces the last entry of the requester with the
    most entries. Computations that the event loop runs itself bypass this class.
    """

    def __init__(
        self,
        *,
        max_cost: int,
        worker_count: int,
        queue_limit: int,
        queue_wait_limit_seconds: float,
        reserve_count: int = 0,
    ) -> None:
        self._max_cost = max_cost
        self._worker_counts: dict[Lane, int] = {"ordinary": worker_count, "reserve": reserve_count}
        self._queue_limit = queue_limit
        self._queue_wait_limit_seconds = queue_wait_limit_seconds
        self._queues: dict[Lane, FairQueue] = {lane: FairQueue() for lane in self._worker_counts}
        self._waiting: set[QueuedComputation] = set()
        self._running: dict[QueuedComputation, _RunningComputation] = {}

    @property
    def admitted(self) -> int:
        """Number of computations that run in a worker process or wait for a worker."""
        return len(self._running) + len(self._waiting)

    def is_within_budget(self, cost: int) -> bool:
        """Return whether `cost` (microseconds of CPU time) is at most `max_cost`."""
        return cost <= self._max_cost

    def ensure_within_budget(self, cost: int) -> None:
        """Raise ComputeBudgetExceeded if `cost` is above `max_cost`, the limit in microseconds."""
        if not self.is_within_budget(cost):
            raise ComputeBudgetExceeded(cost, self._max_cost)

    @asynccontextmanager
    async def slot(self, work: QueuedComputation, cost: int) -> AsyncGenerator[Lane]:
        """Wait for a worker for `work`, and hold the worker until the block ends.

        `cost` is the estimate in microseconds of CPU time. Yield the kind of worker, ordinary or reserve. Raise
        QueueFull if the queue has no room, if the estimated wait is above its limit, or if the entries of `work` are
        evicted.
        """
        work.seconds = cost / COST_UNITS_PER_SECOND
        work.is_short = self._worker_counts["reserve"] > 0 and work.seconds <= SHORT_WORK_SECONDS
        lane: Lane | None = next((lane for lane in self._lanes_of(work) if self._has_free_worker(lane)), None)
        if lane is None:
            lane = await self._wait_for_slot(work)
        else:
            self._start(work, next(iter(work.requesters)), lane)
        try:
            yield lane
        finally:
            self._release(work)

    def join(self, work: QueuedComputation, requester: str) -> None:
        """Add a requester to a computation that is queued or running.

        A queued computation gets another entry, unless this requester has one or the queue rejects it.
        """
        work.requesters[requester] += 1
        if work.is_waiting and requester not in work.entries:
            with suppress(QueueFull):  # the entries of the other requesters remain
                self._enqueue(work, requester)

    def leave(self, work: QueuedComputation, requester: str) -> None:
        """Remove a requester from a computation.

        The queue entry of the requester is removed as well, unless the remaining requesters have no other entry.
        """
        work.requesters[requester] -= 1
        if not work.requesters[requester]:
            del work.requesters[requester]
            if len(work.entries) > 1 and requester in work.entries:
                self._remove(work.entries[requester])

    async def _wait_for_slot(self, work: QueuedComputation) -> Lane:
        work.granted = asyncio.get_running_loop().create_future()
        refusal: QueueFull | None = None
        for requester in tuple(work.requesters):
            try:
                self._enqueue(work, requester)
            except QueueFull as error:
                refusal = error
        if refusal is not None and not work.entries:
            work.granted = None
            raise refusal
        self._waiting.add(work)
        try:
            return await work.granted
        except BaseException:
            self._waiting.discard(work)
            self._remove_entries(work)
            self._release(work)  # a worker may have been granted while the wait was cancelled
            raise
        finally:
            work.granted = None

    def _enqueue(self, work: QueuedComputation, requester: str) -> None:
        too_long = self._estimated_wait_seconds(work, requester) - self._queue_wait_limit_seconds
        if too_long > 0:
            raise QueueFull(_whole_seconds(too_long), "wait")
        entry = work.entries[requester] = QueueEntry(requester, work)
        for lane in self._lanes_of(work):
            self._queues[lane].append(entry)
        if self._is_over_full(work):
            for abandoned in [other for other in self._waiting if not other.is_waiting]:
                self._remove_entries(abandoned)
        if self._is_over_full(work):
            displaced = self._queues["ordinary"].eviction_candidate(requester, is_short=work.is_short)
            self._remove(displaced or entry)
            if displaced is None:
                raise QueueFull(self._seconds_until_free(), "queue")
            if not displaced.work.entries and displaced.work.granted is not None:
                self._waiting.discard(displaced.work)
                displaced.work.granted.set_exception(QueueFull(self._seconds_until_free(), "share"))

    def _is_over_full(self, work: QueuedComputation) -> bool:
        entries = self._queues["ordinary"]  # all work may run there
        return sum(entry.work.is_short is work.is_short for entry in entries) > self._queue_limit

    def _remove(self, entry: QueueEntry) -> None:
        for queue in self._queues.values():
            queue.remove(entry)
        del entry.work.entries[entry.requester]

    def _remove_entries(self, work: QueuedComputation) -> None:
        for entry in tuple(work.entries.values()):
            self._remove(entry)

    def _lanes_of(self, work: QueuedComputation) -> list[Lane]:
        return ["ordinary", "reserve"] if work.is_short else ["ordinary"]

    def _has_free_worker(self, lane: Lane) -> bool:
        return sum(run.lane == lane for run in self._running.values()) < self._worker_counts[lane]

    def _start(self, work: QueuedComputation, requester: str, lane: Lane) -> None:
        self._queues[lane].start(requester, work)
        self._waiting.discard(work)
        self._running[work] = _RunningComputation(requester, lane, work.seconds, time.monotonic())

    def _release(self, work: QueuedComputation) -> None:
        run = self._running.pop(work, None)
        if run is not None:
            self._queues[run.lane].finish(run.requester, work, time.monotonic() - run.started)
        for lane, queue in self._queues.items():
            while self._has_free_worker(lane) and (entry := queue.next_entry()) is not None:
                self._remove_entries(entry.work)
                if (
                    entry.work.granted is not None and entry.work.is_waiting
                ):  # else nobody waits, and it is about to leave
                    self._start(entry.work, entry.requester, lane)
                    entry.work.granted.set_result(lane)

    def _estimated_wait_seconds(self, work: QueuedComputation, requester: str) -> float:
        now = time.monotonic()
        waits: list[float] = []
        for lane in self._lanes_of(work):
            running = sum(run.remaining_seconds(now) for run in self._running.values() if run.lane == lane)
            before = self._queues[lane].work_ahead_seconds(requester, work)
            waits.append((running + before) / self._worker_counts[lane])
        return min(waits)

    def _seconds_until_free(self) -> int:
        now = time.monotonic()
        return _whole_seconds(min((run.remaining_seconds(now) for run in self._running.values()), default=0.0))


def _whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
