"""What is refused is refused before anything is computed, and says how much would have been too much."""

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


def test_the_limits_are_the_last_that_is_allowed() -> None:
    admission = make_admission()
    admission.ensure_within_budget(0)
    admission.ensure_within_budget(1_000_000)
    with pytest.raises(ComputeBudgetExceeded) as raised:
        admission.ensure_within_budget(1_000_001)
    assert (raised.value.estimate, raised.value.limit) == (1_000_001, 1_000_000)


class Crowd:
    """Computations of several clients, which run until they are told to end."""

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
        """What became of all that were sent."""
        self._end.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_as_many_wait_as_the_queue_holds() -> None:
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
async def test_clients_have_their_turns_one_after_another() -> None:
    crowd = Crowd(make_admission(worker_count=1, queue_limit=100))
    for client, count in (("flood", 6), ("polite", 2), ("third", 3)):
        await crowd.send(client, count)
    assert await crowd.end() == [None] * 11
    turns = ["polite", "third", "flood", "polite", "third", "flood", "third", "flood", "flood", "flood"]
    assert crowd.served == ["flood", *turns]


async def test_in_a_full_queue_who_has_most_makes_room() -> None:
    crowd = Crowd(make_admission(worker_count=1, queue_limit=10))
    await crowd.send("flood", 80)
    await crowd.send("polite", 3)
    outcomes = await crowd.end()
    assert outcomes[-3:] == [None] * 3
    assert outcomes[:8] == [None] * 8
    assert all(isinstance(outcome, QueueFull) for outcome in outcomes[8:80])
    assert crowd.served[1] == "polite"


async def test_no_client_drives_out_one_that_has_as_little() -> None:
    crowd = Crowd(make_admission(worker_count=1, queue_limit=4))
    for client in ("runs", "a", "b", "c", "d"):
        await crowd.send(client)
    await crowd.send("newcomer")
    outcomes = await crowd.end()
    assert outcomes[:-1] == [None] * 5
    assert isinstance(outcomes[-1], QueueFull)


@pytest.mark.usefixtures("no_time_passes")
async def test_nobody_is_let_in_to_wait_too_long() -> None:
    """And is told when that will have changed: here in half a second, of which whole ones are made."""
    crowd = Crowd(make_admission(worker_count=1, queue_limit=100, queue_wait_limit_seconds=1.5))
    await crowd.send("one", 2, cost=1_000_000)
    with pytest.raises(QueueFull) as raised:
        async with crowd.admission.slot(QueuedComputation("one"), 1_000_000):
            pass
    assert raised.value.retry_after_seconds == 1
    await crowd.end()


@pytest.mark.usefixtures("no_time_passes")
async def test_retry_after_is_the_wait_for_the_next_free_place() -> None:
    crowd = Crowd(make_admission(worker_count=2, queue_limit=1))
    await crowd.send("one", cost=9_000_000)
    await crowd.send("one", cost=3_500_000)
    await crowd.send("one", cost=1)
    with pytest.raises(QueueFull) as raised:
        async with crowd.admission.slot(QueuedComputation("one"), 1):
            pass
    assert raised.value.retry_after_seconds == 4
    await crowd.end()


async def test_who_gives_up_leaves_the_queue() -> None:
    crowd = Crowd(make_admission(worker_count=1))
    await crowd.send("one", 3)
    crowd.tasks[1].cancel()
    await asyncio.sleep(0)
    assert crowd.admission.admitted == 2
    outcomes = await crowd.end()
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]
    assert crowd.admission.admitted == 0


async def test_a_turn_that_comes_as_its_client_leaves_goes_to_the_next() -> None:
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
    await asyncio.sleep(0)  # the turn is given here, and taken in the next round of the loop
    tasks[1].cancel()
    assert await tasks[2] == "served"
    assert admission.admitted == 0


async def test_a_place_is_free_again_after_a_failure() -> None:
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
def test_one_machine_is_one_client(address: str | None, key: str) -> None:
    assert requester_from_address(address) == key
