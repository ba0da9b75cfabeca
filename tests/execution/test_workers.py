"""The reserve pool: short work does not wait for long work, and an underestimate harms nobody. Real processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.execution.client import WaitingClient
from service.execution.errors import QueueFull, WorkerDied
from service.execution.runner import ComputationRunner
from service.telemetry.metrics import Metrics
from tests.execution.fakes import (
    DEAR,
    FAKE,
    FakeRequest,
    computations_logged,
    counted,
    logged,
    make_pool,
    make_runner,
)
from tests.timeouts import TEST_TIMEOUT

LONG = 900_000
MEBIBYTE = 2**20


@pytest.fixture
async def runner(metrics: Metrics) -> AsyncIterator[ComputationRunner]:
    """Yield a runner with one worker, and a reserve with a limit of half a second for sleeping computations."""
    pool = make_pool(metrics)
    reserve = make_pool(metrics, time_limit_seconds=TEST_TIMEOUT, memory_limit_bytes=384 * MEBIBYTE)
    await reserve.start()
    yield make_runner(metrics, pool, reserve=reserve)
    await pool.close()
    await reserve.close()


async def test_short_work_does_not_wait_for_the_only_worker(runner: ComputationRunner, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    request = FakeRequest(action="wait", gate=str(gate), cost=LONG, log=str(log))
    long = asyncio.create_task(runner.run(FAKE, request, WaitingClient("one")))
    await logged(log)
    for number in range(20):
        short = FakeRequest(amount=float(number), cost=DEAR)
        assert (await runner.run(FAKE, short, WaitingClient("two"))).cache == "computed"
    assert not long.done()
    gate.touch()
    assert (await long).cache == "computed"


async def test_underestimated_work_moves_to_ordinary_worker(
    runner: ComputationRunner, metrics: Metrics, tmp_path: Path
) -> None:
    """Underestimated work of the reserve moves to an ordinary worker.

    The reserve ends the work at its time limit, and the ordinary worker computes it.
    """
    log, gate, slow = tmp_path / "log", tmp_path / "gate", tmp_path / "slow"
    assert runner._workers._reserve is not None
    runner._workers._reserve._time_limit_seconds = 0.3
    request = FakeRequest(action="wait", gate=str(gate), cost=LONG, log=str(log))
    long = asyncio.create_task(runner.run(FAKE, request, WaitingClient("one")))
    await logged(log)
    priced_low = FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(slow))
    wrong = asyncio.create_task(runner.run(FAKE, priced_low, WaitingClient("two")))
    async with asyncio.timeout(TEST_TIMEOUT):
        while not counted(metrics, 'privacy_bounds_worker_losses_total{reason="time_limit"}'):
            await asyncio.sleep(0.01)
    assert counted(metrics, "privacy_bounds_queue_depth") == 2
    gate.touch()
    assert {(await long).cache, (await wrong).cache} == {"computed"}
    assert computations_logged(slow) == 2
    assert counted(metrics, "privacy_bounds_queue_depth") == 0


@pytest.mark.parametrize(("action", "amount"), [("allocate", 600.0 * MEBIBYTE), ("die", 0.0)])
async def test_work_beyond_reserve_memory_moves_to_ordinary_worker(
    runner: ComputationRunner, tmp_path: Path, action: str, amount: float
) -> None:
    log, gate, more = tmp_path / "log", tmp_path / "gate", tmp_path / "more"
    request = FakeRequest(action="wait", gate=str(gate), cost=LONG, log=str(log))
    long = asyncio.create_task(runner.run(FAKE, request, WaitingClient("one")))
    await logged(log)
    large = FakeRequest.model_validate({"action": action, "amount": amount, "cost": DEAR, "log": str(more)})
    needy = asyncio.create_task(runner.run(FAKE, large, WaitingClient("two")))
    await logged(more)
    gate.touch()
    await long
    if action == "die":
        with pytest.raises(WorkerDied):
            await needy
    else:
        assert (await needy).cache == "computed"
    assert computations_logged(more) == 2


async def test_joined_request_survives_eviction_of_the_first(metrics: Metrics, tmp_path: Path) -> None:
    pool = make_pool(metrics)
    runner = make_runner(metrics, pool, queue_limit=3)
    log, gate = tmp_path / "log", tmp_path / "gate"
    running = asyncio.create_task(
        runner.run(FAKE, FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(log)), WaitingClient("flood"))
    )
    await logged(log)
    asked = FakeRequest(amount=9.0, cost=DEAR)
    others = [FakeRequest(amount=float(number), cost=DEAR) for number in range(2)]
    flood = [asyncio.create_task(runner.run(FAKE, each, WaitingClient("flood"))) for each in (*others, asked)]
    await asyncio.sleep(0.01)
    joined = asyncio.create_task(runner.run(FAKE, asked, WaitingClient("polite")))
    await asyncio.sleep(0.01)
    newcomer = asyncio.create_task(runner.run(FAKE, FakeRequest(amount=20.0, cost=DEAR), WaitingClient("newcomer")))
    await asyncio.sleep(0.01)
    gate.touch()
    assert (await joined).cache == "collapsed"
    outcomes = await asyncio.gather(running, *flood, newcomer, return_exceptions=True)
    assert [type(each) for each in outcomes if isinstance(each, BaseException)] == [QueueFull]
    assert isinstance(outcomes[2], QueueFull), "of the flood, who asks for something else, and came last"
    assert counted(metrics, 'privacy_bounds_rejected_total{reason="share"}') == 1
    await pool.close()
