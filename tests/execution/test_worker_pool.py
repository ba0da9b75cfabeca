"""Worker processes that end or are killed affect only their own computation. Every death here is a real one."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pebble import ProcessPool

from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.worker import ForeignError, WorkerResult
from service.execution.worker_pool import WorkerPool
from service.privacy.errors import OutOfDomain
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics
from tests.execution.fakes import (
    DEAR,
    ENGINE_VERSION,
    FAKE,
    FakeRequest,
    FakeResponse,
    counted,
    logged,
    make_pool,
)


@pytest.fixture
async def pool(metrics: Metrics) -> AsyncIterator[WorkerPool]:
    pool = make_pool(metrics)
    yield pool
    await pool.close()


async def compute(pool: WorkerPool, limit_seconds: float | None = None, **fields: object) -> WorkerResult:
    request = FakeRequest.model_validate({"cost": DEAR, **fields})
    return await pool.compute(FAKE, request, "sha256:0", ENGINE_VERSION, limit_seconds)


async def process_of(pool: WorkerPool, log: Path) -> int:
    await compute(pool, log=str(log))
    return int(log.read_text().splitlines()[-1])


async def test_body_is_computed_in_another_process(pool: WorkerPool, tmp_path: Path) -> None:
    assert pool.started == 0, "no process before it is needed"
    computed = await compute(pool, amount=2.5)
    assert FakeResponse.model_validate_json(computed.body).value == 2.5
    assert computed.seconds >= 0
    assert await process_of(pool, tmp_path / "log") != os.getpid()
    assert pool.started == 1


async def test_errors_arrive_as_they_were_raised(pool: WorkerPool) -> None:
    with pytest.raises(OutOfDomain) as raised:
        await compute(pool, action="fail", amount=7.0)
    error = raised.value
    assert (error.name, error.value, error.domain) == ("amount", 7.0, "in [0, 1]")
    assert vars(error)["pointer"] == "/amount"
    assert str(error) == str(OutOfDomain("amount", 7.0, "in [0, 1]"))
    with pytest.raises(KeyError):
        await compute(pool, action="defect")


async def test_log_shows_worker_traceback_of_defect(pool: WorkerPool) -> None:
    with pytest.raises(KeyError, match="defect") as caught:
        await compute(pool, action="defect")
    written = io.BytesIO()
    make_logger("info", written).error("request", exc_info=caught.value)
    shown = json.loads(written.getvalue())["exception"]
    assert "In the worker process:" in shown
    assert "in compute_fake" in shown


async def test_worker_is_killed_at_its_time_limit(pool: WorkerPool, metrics: Metrics, tmp_path: Path) -> None:
    process = await process_of(pool, tmp_path / "log")
    with pytest.raises(OutOfTime):
        await compute(pool, 0.3, action="sleep", amount=600.0)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert counted(metrics, 'privacy_bounds_worker_losses_total{reason="time_limit"}') == 1
    assert (await compute(pool)).body


async def test_worker_ends_itself_if_service_does_not_kill_it(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = ProcessPool.schedule
    monkeypatch.setattr(ProcessPool, "schedule", lambda pool, call, args=(), **_: schedule(pool, call, args))
    with pytest.raises(WorkerDied):
        await compute(pool, 0.1, action="sleep", amount=600.0)
    assert (await compute(pool)).body


async def test_worker_beyond_memory_limit_raises_out_of_memory(metrics: Metrics) -> None:
    pool = make_pool(metrics, memory_limit_bytes=300 * 2**20)
    with pytest.raises(OutOfMemory):
        await compute(pool, action="allocate", amount=400.0 * 2**20)
    assert counted(metrics, 'privacy_bounds_worker_losses_total{reason="memory_limit"}') == 1
    assert (await compute(pool, action="allocate", amount=2.0**20)).body
    await pool.close()


async def test_worker_that_retains_much_memory_is_replaced(metrics: Metrics, tmp_path: Path) -> None:
    pool = make_pool(metrics, memory_limit_bytes=512 * 2**20)
    await pool.start()
    first = await process_of(pool, tmp_path / "log")
    assert (await compute(pool, action="keep", amount=64.0 * 2**20)).retained_bytes >= 64 * 2**20
    assert await process_of(pool, tmp_path / "log") == first
    assert (await compute(pool, action="keep", amount=128.0 * 2**20)).body
    second = await process_of(pool, tmp_path / "log")
    assert second != first
    assert (await compute(pool)).retained_bytes < 64 * 2**20
    # Between computations, so that nothing is lost. The replacement is ready before the next request.
    assert (await compute(pool, action="keep", amount=200.0 * 2**20)).body
    while pool.started != 1:
        await asyncio.sleep(0.01)
    third = await process_of(pool, tmp_path / "log")
    assert third not in (first, second)
    for reason in ("idle", "died", "memory_limit"):
        assert counted(metrics, f'privacy_bounds_worker_losses_total{{reason="{reason}"}}') == 0
    await pool.close()


async def test_worker_killed_at_work_fails_only_its_computation(metrics: Metrics, tmp_path: Path) -> None:
    pool = make_pool(metrics, worker_count=2)
    victim_log, other_log, gate = tmp_path / "victim", tmp_path / "other", tmp_path / "gate"
    victim = asyncio.create_task(compute(pool, action="sleep", amount=600.0, log=str(victim_log)))
    other = asyncio.create_task(compute(pool, action="wait", gate=str(gate), log=str(other_log)))
    process = await logged(victim_log)
    await logged(other_log)
    os.kill(process, signal.SIGKILL)
    with pytest.raises(WorkerDied):
        await victim
    assert not other.done()
    gate.touch()
    assert (await other).body
    assert counted(metrics, 'privacy_bounds_worker_losses_total{reason="died"}') == 1
    for _ in range(3):
        assert (await compute(pool)).body
    await pool.close()


async def test_worker_that_exits_fails_only_its_computation(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDied):
        await compute(pool, action="die")
    assert (await compute(pool)).body


@pytest.mark.parametrize("noticed", [False, True])
async def test_idle_worker_that_is_killed_is_replaced(pool: WorkerPool, tmp_path: Path, noticed: bool) -> None:
    process = await process_of(pool, tmp_path / "log")
    os.kill(process, signal.SIGKILL)
    if noticed:
        await asyncio.sleep(0.5)
    assert await process_of(pool, tmp_path / "log") != process
    assert (await compute(pool)).body


async def test_cancelled_computation_stops_its_worker(pool: WorkerPool, tmp_path: Path) -> None:
    task = asyncio.create_task(compute(pool, action="sleep", amount=60.0, log=str(tmp_path / "log")))
    process = await logged(tmp_path / "log")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await compute(pool)).body
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_closed_pool_rejects_computations(metrics: Metrics, tmp_path: Path) -> None:
    pool = make_pool(metrics)
    process = await process_of(pool, tmp_path / "log")
    await pool.close()
    assert not pool.alive
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(WorkerDied):
        await compute(pool)


async def test_unpicklable_error_is_named(pool: WorkerPool) -> None:
    with pytest.raises(ForeignError, match="ValidationError") as raised:
        await compute(pool, action="misfit")
    assert "2 validation errors for FakeResponse" in raised.value.__notes__[0]
    assert "compute_fake" in raised.value.__notes__[0]
    assert (await compute(pool, action="echo")).body
