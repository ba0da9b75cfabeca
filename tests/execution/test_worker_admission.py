"""Admission is decided before anything is computed, and a rejection states the limit."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from service.execution import worker_admission as admission_module
from service.execution.client import requester_from_address
from service.execution.errors import ComputeBudgetExceeded, QueueFull
from service.execution.fair_queue import QueuedComputation
from service.execution.worker_admission import WorkerAdmission


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_module, "time", SimpleNamespace(monotonic=lambda: 1e6))


def make_admission(
    worker_count: int = 2, queue_limit: int = 3, queue_wait_limit_seconds: float = 100.0
) -> WorkerAdmission:
    return WorkerAdmission(
        max_cost=1_000_000,
        worker_count=worker_count,
        queue_limit=queue_limit,
        queue_wait_limit_seconds=queue_wait_limit_seconds,
    )


def test_cost_equal_to_limit_is_allowed() -> None:
    admission = make_admission()
    admission.ensure_within_budget(0)
    admission.ensure_within_budget(1_000_000)
    with pytest.raises(ComputeBudgetExceeded) as raised:
        admission.ensure_within_budget(1_000_001)
    assert (raised.value.estimate, raised.value.limit) == (1_000_001, 1_000_000)


class Crowd:
    """Computations of several clients, which hold workers until the test ends them."""

    def __init__(self, admission: WorkerAdmission) -> None:
        self.admission = admission
        self.served: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._end = asyncio.Event()

    async def send(self, client: str, count: int = 1, cost: int = 10_000) -> None:
        self.tasks += [asyncio.create_task(self._compute(client, cost)) for _ in range(count)]
        await asyncio.sleep(0)

    async def _compute(self, client: str, cost: int) -> None:
        async with self.admission.slot(QueuedComputation(client), cost):
            self.served.append(client)
            await self._end.wait()

    async def end(self) -> list[BaseException | None]:
        """End all computations of the crowd and return their outcomes."""
        self._end.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_queue_holds_up_to_its_limit() -> None:
    crowd = Crowd(make_admission())
    await crowd.send("one", 5)
    assert crowd.admission.admitted == 5
    with pytest.raises(QueueFull):
        async with crowd.admission.slot(QueuedComputation("one"), 1):
            pass
    assert crowd.admission.admitted == 5
    assert await crowd.end() == [None] * 5
    assert crowd.admission.admitted == 0
    async with crowd.admission.slot(QueuedComputation("one"), 1):
        assert crowd.admission.admitted == 1


@pytest.mark.usefixtures("no_time_passes")
async def test_clients_are_served_in_turn() -> None:
    crowd = Crowd(make_admission(worker_count=1, queue_limit=100))
    for client, count in (("flood", 6), ("polite", 2), ("third", 3)):
        await crowd.send(client, count)
    assert await crowd.end() == [None] * 11
    turns = ["polite", "third", "flood", "polite", "third", "flood", "third", "flood", "flood", "flood"]
    assert crowd.served == ["flood", *turns]


async def test_full_queue_evicts_largest_requester() -> None:
    crowd = Crowd(make_admission(worker_count=1, queue_limit=10))
    await crowd.send("flood", 80)
    await crowd.send("polite", 3)
    outcomes = await crowd.end()
    assert outcomes[-3:] == [None] * 3
    assert outcomes[:8] == [None] * 8
    assert all(isinstance(outcome, QueueFull) for outcome in outcomes[8:80])
    assert crowd.served[1] == "polite"


async def test_equal_client_is_not_evicted_by_newcomer() -> None:
    crowd = Crowd(make_admission(worker_count=1, queue_limit=4))
    for client in ("runs", "a", "b", "c", "d"):
        await crowd.send(client)
    await crowd.send("newcomer")
    outcomes = await crowd.end()
    assert outcomes[:-1] == [None] * 5
    assert isinstance(outcomes[-1], QueueFull)


@pytest.mark.usefixtures("no_time_passes")
async def test_expected_wait_beyond_limit_is_rejected() -> None:
    """A request whose expected wait is beyond the limit is rejected.

    The rejection states when a retry may succeed: in half a second, rounded up to a whole second.
    """
    crowd = Crowd(make_admission(worker_count=1, queue_limit=100, queue_wait_limit_seconds=1.5))
    await crowd.send("one", 2, cost=1_000_000)
    with pytest.raises(QueueFull) as raised:
        async with crowd.admission.slot(QueuedComputation("one"), 1_000_000):
            pass
    assert raised.value.retry_after_seconds == 1
    await crowd.end()


@pytest.mark.usefixtures("no_time_passes")
async def test_retry_after_is_wait_for_next_free_slot() -> None:
    crowd = Crowd(make_admission(worker_count=2, queue_limit=1))
    await crowd.send("one", cost=9_000_000)
    await crowd.send("one", cost=3_500_000)
    await crowd.send("one", cost=1)
    with pytest.raises(QueueFull) as raised:
        async with crowd.admission.slot(QueuedComputation("one"), 1):
            pass
    assert raised.value.retry_after_seconds == 4
    await crowd.end()


async def test_cancelled_computation_leaves_the_queue() -> None:
    crowd = Crowd(make_admission(worker_count=1))
    await crowd.send("one", 3)
    crowd.tasks[1].cancel()
    await asyncio.sleep(0)
    assert crowd.admission.admitted == 2
    outcomes = await crowd.end()
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]
    assert crowd.admission.admitted == 0


async def test_slot_granted_to_leaving_client_goes_to_next() -> None:
    admission = make_admission(worker_count=1)
    leaving_is_told = asyncio.Event()

    async def first() -> None:
        async with admission.slot(QueuedComputation("one"), 1):
            await leaving_is_told.wait()

    async def waits() -> str:
        async with admission.slot(QueuedComputation("one"), 1):
            return "served"

    tasks = [asyncio.create_task(first()), asyncio.create_task(waits()), asyncio.create_task(waits())]
    await asyncio.sleep(0)
    leaving_is_told.set()
    await asyncio.sleep(0)  # The slot is granted here, and taken in the next round of the loop.
    tasks[1].cancel()
    assert await tasks[2] == "served"
    assert admission.admitted == 0


async def test_slot_is_free_after_failure() -> None:
    admission = make_admission()
    with pytest.raises(ZeroDivisionError):
        async with admission.slot(QueuedComputation("one"), 1):
            raise ZeroDivisionError
    assert admission.admitted == 0


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("127.0.0.2", "127.0.0.2"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("testclient", "testclient"),
        (None, "unknown"),
    ],
)
def test_addresses_of_one_machine_share_one_key(address: str | None, key: str) -> None:
    assert requester_from_address(address) == key
