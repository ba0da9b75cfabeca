"""Simulation of a queue of chunks with priority classes and a fixed number of workers, to measure how long jobs take.

Jobs arrive as a Poisson process. Each class is first come, first served. At most 64 chunks of one job are queued. A
chunk that ends puts the next chunk of its job behind all others of the class, as the workers do.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.capacity.load import AT_ONCE, PIECE_OVERHEAD_SECONDS, PIECE_SECONDS, Kind
from service.jobs.chunk_sizing import priority_class

LARGEST_CLASS = 16


@dataclass
class Running:
    """Job in progress in the simulation: its chunks that are not yet queued, and its chunks that have not ended."""

    kind: int
    came: float
    unqueued: int
    left: int
    seconds: float
    urgency: int


@dataclass
class Seen:
    """Results of the simulation of a queue of jobs.

    `times` lists the seconds from arrival to end by kind of job. `longest` is the largest number of messages in the
    queue. `busy` is the share of time that workers compute. `queue` has the waiting jobs of each priority class.
    """

    times: list[list[float]]
    longest: int = 0
    busy: float = 0.0
    queue: list[deque[Running]] = field(default_factory=lambda: [deque[Running]() for _ in range(LARGEST_CLASS + 1)])


def simulate(kinds: Sequence[Kind], factor: float, workers: int, hours: float, seed: int) -> Seen:
    """Simulate the queue and the workers for `hours` hours at `factor` times the load of all `kinds` of jobs."""
    source = random.Random(seed)
    seen = Seen([[] for _ in kinds])
    events = list[tuple[float, int, int, Running | None]]()  # (time, order, kind or -1, job whose chunk ends)
    for place, kind in enumerate(kinds):
        time = source.expovariate(factor * kind.an_hour / 3600)
        while time < hours * 3600:
            events.append((time, len(events), place, None))
            time += source.expovariate(factor * kind.an_hour / 3600)
    heapq.heapify(events)
    order, free, worked, last = len(events), workers, 0.0, 0.0
    while events:
        now, _, place, job = heapq.heappop(events)
        last = now
        if job is None:
            job = _begun(kinds[place], place, now)
        else:
            free += 1
            job.left -= 1
            if job.left == 0:
                seen.times[job.kind].append(now - job.came)
            _queue(seen, job, 1)
        seen.longest = max(seen.longest, sum(map(len, seen.queue)))
        if job.left and job.came == now and place >= 0:
            _queue(seen, job, AT_ONCE)
        while free and (following := _next(seen)) is not None:
            free -= 1
            order += 1
            worked += following.seconds
            heapq.heappush(events, (now + following.seconds, order, -1, following))
    seen.busy = worked / (workers * last) if last else 0.0
    return seen


def _begun(kind: Kind, place: int, now: float) -> Running:
    pieces = 1 if kind.points == 1 else max(1, round(kind.work / PIECE_SECONDS))
    seconds = kind.work / pieces + PIECE_OVERHEAD_SECONDS
    return Running(place, now, pieces, pieces, seconds, min(LARGEST_CLASS, priority_class(1e6 * kind.work)))


def _queue(seen: Seen, job: Running, most: int) -> None:
    for _ in range(min(most, job.unqueued)):
        job.unqueued -= 1
        seen.queue[job.urgency].append(job)


def _next(seen: Seen) -> Running | None:
    return next((line.popleft() for line in seen.queue if line), None)
