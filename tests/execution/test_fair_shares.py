"""Fair shares: admission under random arrivals, disconnects and ends, and waiting times by a simulated clock."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from service.execution import worker_admission as admission_module
from service.execution.errors import QueueFull
from service.execution.fair_queue import Lane, QueuedComputation
from service.execution.worker_admission import COST_UNITS_PER_SECOND, WorkerAdmission

SEED = 20263
SEEDS = 60
STEPS = 150
REQUESTERS = "abcdef"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(admission_module, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


@dataclass(eq=False)
class PendingComputation:
    """A computation in progress, in the model."""

    work: QueuedComputation
    end: asyncio.Event = field(default_factory=asyncio.Event)
    lane: Lane | None = None
    task: asyncio.Task[None] | None = None


class Model:
    """Model of the admission queue: arrivals, joins, disconnects and ends of computations in random order.

    An arrival may raise only QueueFull.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.room: dict[Lane, int] = {"ordinary": self.random.randint(1, 3), "reserve": self.random.randint(0, 1)}
        self.admission = WorkerAdmission(
            max_cost=10**9,
            worker_count=self.room["ordinary"],
            reserve_count=self.room["reserve"],
            queue_limit=self.random.randint(1, 5),
            queue_wait_limit_seconds=self.random.choice((1.0, 1e9)),
        )
        self.asked: list[PendingComputation] = []
        self.refused = self.served = self.left = 0

    def arrive(self) -> None:
        asked = PendingComputation(QueuedComputation(self.random.choice(REQUESTERS)))
        asked.task = asyncio.create_task(self._compute(asked, self.random.choice((10, 200_000, 300_000, 9_000_000))))
        self.asked.append(asked)

    async def _compute(self, asked: PendingComputation, cost: int) -> None:
        async with self.admission.slot(asked.work, cost) as lane:
            assert lane == "ordinary" or cost <= 250_000
            asked.lane = lane
            running = Counter(each.lane for each in self.asked if each.lane)
            assert all(running[each] <= self.room[each] for each in self.room)
            await asked.end.wait()
            asked.lane = None

    def join(self) -> None:
        if self.asked:
            self.admission.join(self.random.choice(self.asked).work, self.random.choice(REQUESTERS))

    def leave(self) -> None:
        """Cancel one of the clients that wait for a computation. The last one ends the computation."""
        if self.asked:
            asked = self.random.choice(self.asked)
            self.admission.leave(asked.work, self.random.choice(tuple(asked.work.requesters)))
            if not asked.work.requesters:
                self._hang_up(asked)

    def hang_up(self) -> None:
        if self.asked:
            self._hang_up(self.random.choice(self.asked))

    def _hang_up(self, asked: PendingComputation) -> None:
        assert asked.task is not None
        asked.lane = None
        asked.task.cancel()
        self._forget(asked)

    def end(self) -> None:
        running = [each for each in self.asked if each.lane]
        if running:
            self.random.choice(running).end.set()

    def _forget(self, asked: PendingComputation) -> None:
        self.asked.remove(asked)
        self.forgotten.append(asked)

    forgotten: list[PendingComputation]

    async def run(self) -> None:
        self.forgotten = []
        steps = (self.arrive, self.arrive, self.join, self.leave, self.hang_up, self.end)
        for _ in range(STEPS):
            self.random.choice(steps)()
            for _ in range(self.random.randint(0, 3)):
                await asyncio.sleep(0)
            self._look()
        while self.asked:
            for each in self.asked:
                each.end.set()
            await asyncio.sleep(0)
            self._look()
        await asyncio.gather(*(each.task for each in self.forgotten if each.task), return_exceptions=True)

    def _look(self) -> None:
        """Check that ended computations ended correctly. While work waits, no worker that can take it is idle."""
        for asked in [each for each in self.asked if each.task is not None and each.task.done()]:
            assert asked.task is not None
            error = asked.task.exception()
            assert error is None or isinstance(error, QueueFull), repr(error)
            self.refused += error is not None
            self.served += error is None
            self._forget(asked)


@pytest.mark.usefixtures("clock")
async def test_any_order_of_events_keeps_queue_consistent() -> None:
    refused = served = 0
    for seed in range(SEED, SEED + SEEDS):
        model = Model(seed)
        async with asyncio.timeout(20):
            await model.run()
        for each in model.forgotten:
            assert each.task is not None
            assert each.task.done()
            if not each.task.cancelled():
                assert each.task.exception() is None or isinstance(each.task.exception(), QueueFull)
        assert model.admission.admitted == 0, seed
        for queue in model.admission._queues.values():
            assert not list(queue)
            assert all(account.charged_seconds == account.used_seconds for account in queue._accounts.values())
        refused, served = refused + model.refused, served + model.served
    assert refused > SEEDS
    assert served > SEEDS


async def test_slot_of_disconnected_client_goes_to_next() -> None:
    """The slot of a disconnected client goes to the next request in the queue.

    A newcomer arrives after the task of the client was cancelled and before the task runs again.
    """
    admission = WorkerAdmission(max_cost=10**9, worker_count=1, queue_limit=2, queue_wait_limit_seconds=1e9)
    end = asyncio.Event()

    async def compute(requester: str) -> str:
        async with admission.slot(QueuedComputation(requester), 1_000):
            await end.wait()
            return requester

    tasks = [asyncio.create_task(compute("flood")) for _ in range(3)]
    await asyncio.sleep(0)
    newcomer = asyncio.create_task(compute("newcomer"))
    tasks[2].cancel()
    await asyncio.sleep(0)
    end.set()
    assert await newcomer == "newcomer"
    assert [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)] == [
        str,
        str,
        asyncio.CancelledError,
    ]


class Machine:
    """Workers with a simulated clock: a computation with a slot ends when its seconds have passed."""

    def __init__(self, clock: SimpleNamespace, **limits: int) -> None:
        self._clock = clock
        arguments: dict[str, int] = {"worker_count": 1, "reserve_count": 1, "queue_limit": 64}
        self.admission = WorkerAdmission(max_cost=10**9, queue_wait_limit_seconds=30.0, **(arguments | limits))
        self._ends: list[tuple[float, int, asyncio.Event]] = []
        self._entries = 0

    async def at(self, seconds: float) -> None:
        """Return when the simulated clock shows this time."""
        event = asyncio.Event()
        self._entries += 1
        heapq.heappush(self._ends, (seconds, self._entries, event))
        await event.wait()

    async def compute(self, requester: str, seconds: float, priced: float | None = None) -> float:
        """Run a computation on the simulated machine, and return how long it waited."""
        asked = self._clock.seconds
        async with self.admission.slot(QueuedComputation(requester), int((priced or seconds) * COST_UNITS_PER_SECOND)):
            began = self._clock.seconds
            await self.at(began + seconds)
        return began - asked

    async def run_until(self, seconds: float) -> None:
        while self._ends and self._ends[0][0] <= seconds:
            self._clock.seconds, _, event = heapq.heappop(self._ends)
            event.set()
            for _ in range(10):
                await asyncio.sleep(0)


async def flood(machine: Machine, requester: str, seconds: float, at_once: int = 6) -> None:
    async def again() -> None:
        while True:
            try:
                await machine.compute(requester, seconds)
            except QueueFull as full:
                await machine.at(machine._clock.seconds + full.retry_after_seconds)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(again())


async def polite(machine: Machine, seconds: float, count: int, pause: float) -> list[float]:
    waits: list[float] = []
    for _ in range(count):
        waits.append(await machine.compute("polite", seconds))
        await machine.at(machine._clock.seconds + pause)
    return sorted(waits)


async def waits_beside(machine: Machine, seconds: float, *floods: float, count: int = 200) -> list[float]:
    """Return the seconds for which each of `count` requests of one requester waits beside five other requesters.

    Each of the five sends a flood of requests, and all requests need work of `seconds`.
    """
    flooding = [asyncio.create_task(flood(machine, f"{each}/{number}", each)) for each in floods for number in range(5)]
    await asyncio.sleep(0)
    asking = asyncio.create_task(polite(machine, seconds, count, pause=0.3))
    await asyncio.sleep(0)
    horizon = 0.0
    while not asking.done() and horizon < 10_000:
        horizon += 10.0
        await machine.run_until(horizon)
    for task in flooding:
        task.cancel()
    await asyncio.gather(*flooding, return_exceptions=True)
    assert asking.done(), "it was starved"
    return asking.result()


async def test_short_work_does_not_wait_for_long_work(clock: SimpleNamespace) -> None:
    waits = await waits_beside(Machine(clock), 0.01, 15.0)
    assert waits[-1] == 0.0


async def test_short_work_waits_only_for_one_turn_of_short_work(clock: SimpleNamespace) -> None:
    """Short work waits for at most one turn of other short work.

    Five requesters send a flood of the most expensive short work, and five one of long work.
    """
    waits = await waits_beside(Machine(clock), 0.01, 15.0, 0.25)
    assert waits[-1] <= 0.25 + 1e-9


async def test_medium_work_waits_for_running_work_and_one_turn(clock: SimpleNamespace) -> None:
    """Medium work waits for running work and one turn of the other requesters.

    Five other requesters request 90 seconds of work each, at any time.
    """
    waits = await waits_beside(Machine(clock), 0.5, 15.0, count=20)
    assert waits[-1] <= 2 * 15.0


@pytest.mark.parametrize("reserve_count", [0, 1])
async def test_long_work_is_not_starved_by_short_work(clock: SimpleNamespace, reserve_count: int) -> None:
    """Long work is computed although short work arrives all the time.

    It is overtaken by at most two seconds of work of each of five other requesters.
    """
    waits = await waits_beside(Machine(clock, reserve_count=reserve_count), 8.0, 0.2, count=1)
    assert waits[-1] <= 5 * 2.0 + 0.2


async def test_underestimated_work_costs_its_requester_later_turns(clock: SimpleNamespace) -> None:
    machine = Machine(clock, reserve_count=0)
    await_all = [asyncio.create_task(machine.compute("wrong", 5.0, priced=0.01)) for _ in range(4)]
    await asyncio.sleep(0)
    others = [asyncio.create_task(machine.compute("right", 1.0)) for _ in range(4)]
    await asyncio.sleep(0)
    await machine.run_until(100.0)
    assert [await each for each in others] == [5.0, 6.0, 7.0, 8.0]
    assert [await each for each in await_all] == [0.0, 9.0, 14.0, 19.0]


async def test_joining_requester_brings_its_earlier_position(clock: SimpleNamespace) -> None:
    """A requester that joins a waiting computation moves it to the requester's own earlier position.

    The first of two equal requests stands far back in the queue of its requester.
    """
    machine = Machine(clock, reserve_count=0)
    tasks = [asyncio.create_task(machine.compute("flood", 1.0)) for _ in range(9)]
    await asyncio.sleep(0)
    work = QueuedComputation("flood")

    async def together() -> float:
        async with machine.admission.slot(work, COST_UNITS_PER_SECOND):
            return clock.seconds

    equal = asyncio.create_task(together())
    await asyncio.sleep(0)
    machine.admission.join(work, "polite")
    await machine.run_until(100.0)
    assert await equal == 1.0
    await asyncio.gather(*tasks)


async def test_evicted_slot_keeps_positions_of_others(clock: SimpleNamespace) -> None:
    machine = Machine(clock, reserve_count=0, queue_limit=4)
    runs = asyncio.create_task(machine.compute("flood", 1.0))
    waits = [asyncio.create_task(machine.compute("flood", 1.0)) for _ in range(2)]
    work = QueuedComputation("flood")

    async def together() -> None:
        async with machine.admission.slot(work, COST_UNITS_PER_SECOND):
            pass

    equal = asyncio.create_task(together())
    await asyncio.sleep(0)
    machine.admission.join(work, "polite")
    newcomer = asyncio.create_task(machine.compute("newcomer", 1.0))
    await asyncio.sleep(0)
    assert set(work.entries) == {"polite"}
    await machine.run_until(100.0)
    await equal
    await asyncio.gather(runs, *waits, newcomer)


async def test_leaving_requester_loses_its_position_unless_last(clock: SimpleNamespace) -> None:
    machine = Machine(clock, reserve_count=0)
    runs = asyncio.create_task(machine.compute("other", 1.0))
    await asyncio.sleep(0)
    work = QueuedComputation("first")

    async def together() -> None:
        async with machine.admission.slot(work, COST_UNITS_PER_SECOND):
            pass

    equal = asyncio.create_task(together())
    await asyncio.sleep(0)
    machine.admission.join(work, "second")
    machine.admission.leave(work, "first")
    assert set(work.entries) == {"second"}
    await machine.run_until(100.0)
    await runs
    await equal
