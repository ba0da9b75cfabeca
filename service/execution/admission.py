"""Admission: what a request may cost, where it runs, whose turn it is, and how much may wait."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, final

from service.execution.errors import ComputeBudgetExceeded, QueueFull
from service.execution.fair_queue import FairQueue, Lane, QueuedWork, QueuePlace

COST_UNITS_PER_SECOND = 1_000_000
SHORT_WORK_SECONDS: Final = 0.25
"""Work with a higher price never runs in the reserve."""


@dataclass(frozen=True, slots=True)
class _Run:
    requester: str
    lane: Lane
    seconds: float
    began: float

    def remaining(self, now: float) -> float:
        """Return the expected seconds until the end. Work beyond its price is expected to take as long again."""
        elapsed = now - self.began
        return self.seconds - elapsed if elapsed < self.seconds else elapsed


@final
class Admission:
    """Costs are work units of about one microsecond of CPU time.

    Work up to `max_cost` runs in a worker process, above it is refused; what the event loop may compute itself never
    comes here. As many computations run as there are workers, and `reserve_count` more that are short. `queue_limit`
    computations may wait, and as many short ones, and none that would wait longer than `queue_wait_limit_seconds` by
    the estimates before it. Requesters share the workers by work (`fair_queue.py`); in a full queue a requester that
    has fewer places than another takes the last place of the other.
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
        self._room: dict[Lane, int] = {"ordinary": worker_count, "reserve": reserve_count}
        self._queue_limit = queue_limit
        self._queue_wait_limit_seconds = queue_wait_limit_seconds
        self._queues: dict[Lane, FairQueue] = {lane: FairQueue() for lane in self._room}
        self._waiting: set[QueuedWork] = set()
        self._running: dict[QueuedWork, _Run] = {}

    @property
    def admitted(self) -> int:
        """Computations that run in a worker or wait for one."""
        return len(self._running) + len(self._waiting)

    def admits(self, cost: int) -> bool:
        """Whether the cost is within the budget."""
        return cost <= self._max_cost

    def check(self, cost: int) -> None:
        """Raise ComputeBudgetExceeded above the budget."""
        if not self.admits(cost):
            raise ComputeBudgetExceeded(cost, self._max_cost)

    @asynccontextmanager
    async def place(self, work: QueuedWork, cost: int) -> AsyncGenerator[Lane]:
        """Hold a worker for this work, from its turn until the block ends. Yield which kind. Raise QueueFull."""
        work.seconds = cost / COST_UNITS_PER_SECOND
        work.is_short = self._room["reserve"] > 0 and work.seconds <= SHORT_WORK_SECONDS
        lane: Lane | None = next((lane for lane in self._lanes_of(work) if self._has_room(lane)), None)
        if lane is None:
            lane = await self._turn(work)
        else:
            self._begin(work, next(iter(work.requesters)), lane)
        try:
            yield lane
        finally:
            self._end(work)

    def join(self, work: QueuedWork, requester: str) -> None:
        """Add a requester that waits for work under way, with a place of its own if its share has room."""
        work.requesters[requester] += 1
        if work.is_waiting and requester not in work.places:
            with suppress(QueueFull):  # the places of the others are still there
                self._enter(work, requester)

    def leave(self, work: QueuedWork, requester: str) -> None:
        """Stop waiting. The place of this requester ends, unless it is the only one that those who stay have."""
        work.requesters[requester] -= 1
        if not work.requesters[requester]:
            del work.requesters[requester]
            if len(work.places) > 1 and requester in work.places:
                self._remove(work.places[requester])

    async def _turn(self, work: QueuedWork) -> Lane:
        work.turn = asyncio.get_running_loop().create_future()
        refusal: QueueFull | None = None
        for requester in tuple(work.requesters):
            try:
                self._enter(work, requester)
            except QueueFull as error:
                refusal = error
        if refusal is not None and not work.places:
            work.turn = None
            raise refusal
        self._waiting.add(work)
        try:
            return await work.turn
        except BaseException:
            self._waiting.discard(work)
            self._withdraw(work)
            self._end(work)  # its turn may have come in the moment in which it was given up
            raise
        finally:
            work.turn = None

    def _enter(self, work: QueuedWork, requester: str) -> None:
        """Take a place in the queue. Raise QueueFull."""
        too_long = self._expected_wait(work, requester) - self._queue_wait_limit_seconds
        if too_long > 0:
            raise QueueFull(_whole_seconds(too_long), "wait")
        place = work.places[requester] = QueuePlace(requester, work)
        for lane in self._lanes_of(work):
            self._queues[lane].append(place)
        if self._is_over_full(work):
            for abandoned in [other for other in self._waiting if not other.is_waiting]:
                self._withdraw(abandoned)
        if self._is_over_full(work):
            displaced = self._queues["ordinary"].last_of_largest(requester, is_short=work.is_short)
            self._remove(displaced or place)
            if displaced is None:
                raise QueueFull(self._seconds_until_free(), "queue")
            if not displaced.work.places and displaced.work.turn is not None:
                self._waiting.discard(displaced.work)
                displaced.work.turn.set_exception(QueueFull(self._seconds_until_free(), "share"))

    def _is_over_full(self, work: QueuedWork) -> bool:
        places = self._queues["ordinary"]  # all work may run there
        return sum(place.work.is_short is work.is_short for place in places) > self._queue_limit

    def _remove(self, place: QueuePlace) -> None:
        for queue in self._queues.values():
            queue.remove(place)
        del place.work.places[place.requester]

    def _withdraw(self, work: QueuedWork) -> None:
        for place in tuple(work.places.values()):
            self._remove(place)

    def _lanes_of(self, work: QueuedWork) -> list[Lane]:
        return ["ordinary", "reserve"] if work.is_short else ["ordinary"]

    def _has_room(self, lane: Lane) -> bool:
        return sum(run.lane == lane for run in self._running.values()) < self._room[lane]

    def _begin(self, work: QueuedWork, requester: str, lane: Lane) -> None:
        self._queues[lane].begin(requester, work)
        self._waiting.discard(work)
        self._running[work] = _Run(requester, lane, work.seconds, time.monotonic())

    def _end(self, work: QueuedWork) -> None:
        run = self._running.pop(work, None)
        if run is not None:
            self._queues[run.lane].end(run.requester, work, time.monotonic() - run.began)
        for lane, queue in self._queues.items():
            while self._has_room(lane) and (place := queue.first()) is not None:
                self._withdraw(place.work)
                if place.work.turn is not None and place.work.is_waiting:  # else nobody waits, and it is about to leave
                    self._begin(place.work, place.requester, lane)
                    place.work.turn.set_result(lane)

    def _expected_wait(self, work: QueuedWork, requester: str) -> float:
        """Return the seconds until this work would have its turn: the shorter of the lanes that take it."""
        now = time.monotonic()
        waits: list[float] = []
        for lane in self._lanes_of(work):
            running = sum(run.remaining(now) for run in self._running.values() if run.lane == lane)
            before = self._queues[lane].seconds_before(requester, work)
            waits.append((running + before) / self._room[lane])
        return min(waits)

    def _seconds_until_free(self) -> int:
        now = time.monotonic()
        return _whole_seconds(min((run.remaining(now) for run in self._running.values()), default=0.0))


def _whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
