"""Computation path: cached or computed, in the event loop or in a worker, once for equal requests and across
processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from service.execution.errors import ComputeBudgetExceeded, OutOfTime, QueueFull
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.runner import ComputationRunner
from service.parsing import DuplicateKeys, InvalidRequest, MalformedJson, NotANumber
from service.privacy.errors import NumericalFailure, OutOfDomain
from service.telemetry.metrics import Metrics
from tests.conftest import RedisServer, stopped
from tests.execution.fakes import (
    DEAR,
    FAKE,
    INLINE,
    FakeRequest,
    FakeResponse,
    computations_logged,
    counted,
    logged,
    make_pool,
    make_runner,
    make_shared,
)
from tests.timeouts import TEST_TIMEOUT

VIOLATIONS = "privacy_bounds_invariant_violations_total"


@pytest.fixture
async def runner(metrics: Metrics) -> AsyncIterator[ComputationRunner]:
    pool = make_pool(metrics)
    yield make_runner(metrics, pool)
    await pool.close()


@pytest.fixture
async def link(redis_url: str, metrics: Metrics) -> AsyncIterator[RedisCircuitBreaker]:
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    yield link
    await link.stop()


def sent(**fields: object) -> bytes:
    return json.dumps({"mechanism": {"type": "fake"}, **fields}).encode()


@pytest.mark.parametrize("cost", [INLINE, DEAR])
async def test_repeated_request_is_answered_from_cache(
    runner: ComputationRunner, metrics: Metrics, tmp_path: Path, cost: int
) -> None:
    log = tmp_path / "log"
    body = sent(cost=cost, log=str(log), amount=3.0)
    first = await runner.answer(FAKE, body)
    again = await runner.answer(FAKE, body)
    spaced = await runner.answer(FAKE, b"  " + body)
    assert (first.cache, again.cache, spaced.cache) == ("computed", "memory", "memory")
    assert first.body == again.body == spaced.body
    assert first.digest == again.digest == spaced.digest == FakeResponse.model_validate_json(first.body).digest
    assert computations_logged(log) == 1
    assert counted(metrics, 'privacy_bounds_results_total{cache="computed",computation="fake"}') == 1
    assert counted(metrics, 'privacy_bounds_results_total{cache="memory",computation="fake"}') == 2


async def test_inexpensive_work_runs_in_loop_and_expensive_in_worker(runner: ComputationRunner, tmp_path: Path) -> None:
    for cost, here in ((8_000, True), (8_001, False)):
        log = tmp_path / str(cost)
        await runner.run(FAKE, FakeRequest(cost=cost, log=str(log)))
        assert (int(log.read_text()) == os.getpid()) is here


async def test_event_loop_serves_while_worker_computes(runner: ComputationRunner, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    dear = asyncio.create_task(runner.run(FAKE, FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(log))))
    await logged(log)
    for turn in range(30):
        assert (await runner.run(FAKE, FakeRequest(amount=float(turn)))).cache == "computed"
        await asyncio.sleep(0.005)
    assert not dear.done()
    gate.touch()
    assert (await dear).cache == "computed"


async def test_request_beyond_budget_is_rejected_before_it_runs(
    runner: ComputationRunner, metrics: Metrics, tmp_path: Path
) -> None:
    with pytest.raises(ComputeBudgetExceeded):
        await runner.run(FAKE, FakeRequest(cost=1_000_001, log=str(tmp_path / "log")))
    assert computations_logged(tmp_path / "log") == 0
    assert counted(metrics, 'privacy_bounds_rejected_total{reason="budget"}') == 1


async def test_full_queue_rejects_and_drains(runner: ComputationRunner, metrics: Metrics) -> None:
    held = [
        asyncio.create_task(runner.run(FAKE, FakeRequest(action="sleep", amount=0.2 + 0.01 * n, cost=DEAR)))
        for n in range(3)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await runner.run(FAKE, FakeRequest(amount=9.0, cost=DEAR))
    assert counted(metrics, 'privacy_bounds_rejected_total{reason="queue"}') == 1
    assert len(await asyncio.gather(*held)) == 3
    assert (await runner.run(FAKE, FakeRequest(amount=9.0, cost=DEAR))).body
    assert counted(metrics, "privacy_bounds_queue_depth") == 0


async def test_equal_requests_in_flight_compute_once(runner: ComputationRunner, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    request = FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(log))
    asked = [asyncio.create_task(runner.run(FAKE, request)) for _ in range(20)]
    await logged(log)
    gate.touch()
    answers = await asyncio.gather(*asked)
    assert computations_logged(log) == 1
    assert len({answer.body for answer in answers}) == 1
    assert sorted(answer.cache for answer in answers) == ["collapsed"] * 19 + ["computed"]


async def test_shared_error_keeps_its_traceback_length(runner: ComputationRunner, tmp_path: Path) -> None:
    """An error that several requests receive keeps the length of its traceback.

    Each waiting request sees where the error was raised, and no frames of the others.
    """
    lengths: list[int] = []

    async def ask() -> None:
        try:
            await runner.run(FAKE, FakeRequest(action="fail", cost=DEAR))
        except OutOfDomain as error:
            frames = traceback.extract_tb(error.__traceback__)
            assert "_compute_in_worker" in {frame.name for frame in frames}
            lengths.append(len(frames))

    await asyncio.gather(*(ask() for _ in range(20)))
    assert len(lengths) == 20
    assert len(set(lengths)) == 1


async def test_disconnected_client_does_not_cancel_shared_computation(
    runner: ComputationRunner, tmp_path: Path
) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    request = FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(log))
    leaving = asyncio.create_task(runner.run(FAKE, request))
    await logged(log)
    staying = asyncio.create_task(runner.run(FAKE, request))
    await asyncio.sleep(0.05)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    gate.touch()
    answer = await staying
    assert (answer.cache, bool(answer.body)) == ("collapsed", True)
    assert computations_logged(log) == 1


@pytest.mark.parametrize("cost", [INLINE, DEAR])
async def test_failures_are_not_cached(runner: ComputationRunner, metrics: Metrics, tmp_path: Path, cost: int) -> None:
    log = tmp_path / "log"
    for _ in range(2):
        with pytest.raises(OutOfDomain):
            await runner.answer(FAKE, sent(action="fail", cost=cost, log=str(log)))
    assert computations_logged(log) == 2
    assert counted(metrics, 'privacy_bounds_computation_failures_total{computation="fake",error="OutOfDomain"}') == 2


@pytest.mark.parametrize("cost", [INLINE, DEAR])
async def test_violated_invariant_is_a_failure_and_counted(
    runner: ComputationRunner, metrics: Metrics, cost: int
) -> None:
    await runner.run(FAKE, FakeRequest(cost=cost))
    with pytest.raises(OutOfDomain):
        await runner.run(FAKE, FakeRequest(action="fail", cost=cost))
    assert counted(metrics, VIOLATIONS) == 0
    with pytest.raises(NumericalFailure, match="out of order"):
        await runner.run(FAKE, FakeRequest(action="violate", cost=cost))
    assert counted(metrics, VIOLATIONS) == 1
    failures = 'privacy_bounds_computation_failures_total{computation="fake",error="NumericalFailure"}'
    assert counted(metrics, failures) == 1


@pytest.mark.parametrize("cost", [INLINE, DEAR])
async def test_survived_invariant_violation_is_counted_once(
    runner: ComputationRunner, metrics: Metrics, cost: int
) -> None:
    for outcome in ("computed", "memory"):
        answer = await runner.run(FAKE, FakeRequest(action="doubt", cost=cost))
        assert (answer.cache, counted(metrics, VIOLATIONS)) == (outcome, 1)


async def test_time_limit_fails_like_other_errors(metrics: Metrics) -> None:
    pool = make_pool(metrics, time_limit_seconds=0.2)
    runner = make_runner(metrics, pool)
    with pytest.raises(OutOfTime):
        await runner.run(FAKE, FakeRequest(action="sleep", amount=600.0, cost=DEAR))
    pool._time_limit_seconds = TEST_TIMEOUT  # A fast computation meets no limit, however busy the machine is.
    assert (await runner.run(FAKE, FakeRequest(cost=DEAR))).cache == "computed"
    await pool.close()


async def test_field_order_and_explicit_defaults_do_not_change_digest(runner: ComputationRunner) -> None:
    first = await runner.answer(FAKE, b'{"amount": 1.0, "mechanism": {"type": "fake"}}')
    second = await runner.answer(FAKE, b'{"mechanism": {"type": "fake"}, "action": "echo", "amount": 1}')
    assert (second.digest, second.cache) == (first.digest, "memory")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", MalformedJson),
        (b"{", MalformedJson),
        (b"\xff\xfe", MalformedJson),
        (b"[" * 3000, MalformedJson),
        (b"[]", InvalidRequest),
        (sent(amount="1.0"), InvalidRequest),
        (sent(amount=False), InvalidRequest),
        (b'{"amount": NaN}', NotANumber),
        (b'{"amount": 1.0, "more": [{"deep": -Infinity}]}', NotANumber),
        (b'{"amount": "NaN"}', InvalidRequest),
        (b'{"amount": 1e999}', InvalidRequest),
        (b'{"amount": 1.0, "amount": 2.0}', DuplicateKeys),
    ],
)
async def test_invalid_body_raises(runner: ComputationRunner, body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        await runner.answer(FAKE, body)


async def test_duplicate_keys_have_pointers(runner: ComputationRunner) -> None:
    body = b'{"mechanism": {"type": "fake", "type": "fake"}, "cost": 1, "cost": 2, "cost": 3}'
    with pytest.raises(DuplicateKeys) as raised:
        await runner.answer(FAKE, body)
    assert raised.value.pointers == ("/cost", "/mechanism/type")


async def test_results_are_found_by_digest(runner: ComputationRunner) -> None:
    answer = await runner.answer(FAKE, sent(amount=4.0))
    assert await runner.results.find(("other", FAKE.name), answer.digest) == answer.body
    assert await runner.results.find((FAKE.name,), "sha256:" + "0" * 64) is None


async def test_result_of_another_process_is_used(metrics: Metrics, link: RedisCircuitBreaker, tmp_path: Path) -> None:
    pool = make_pool(metrics)
    log = tmp_path / "log"
    for expected in ("computed", "redis"):
        shared = make_shared(link, metrics)
        answer = await make_runner(metrics, pool, shared).answer(FAKE, sent(cost=DEAR, log=str(log)))
        assert answer.cache == expected
        await shared.cache.flush()
    assert computations_logged(log) == 1
    await pool.close()


async def test_inexpensive_results_bypass_redis(metrics: Metrics, link: RedisCircuitBreaker, redis_url: str) -> None:
    """Inexpensive results are not stored in Redis, so that a flood of them evicts nothing from a full Redis."""
    pool = make_pool(metrics)
    for digits in (None, 25):
        for _ in range(2):
            shared = make_shared(link, metrics, cost_floor=INLINE + 1)
            answer = await make_runner(metrics, pool, shared).run(FAKE, FakeRequest(digits=digits))
            assert answer.cache == "computed"
            await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        assert list(client.scan_iter("privacy_bounds:*")) == []
    await pool.close()


async def test_lease_of_expensive_work_holds_under_load(metrics: Metrics, redis_url: str, tmp_path: Path) -> None:
    """The lease of expensive work holds while Redis is slow.

    Redis answers later than inexpensive work waits, so inexpensive work goes on without Redis. Expensive work waits
    longer and keeps using it.
    """
    links = [RedisCircuitBreaker(redis_url, 0.003, metrics) for _ in range(2)]
    pool, log = make_pool(metrics, worker_count=2), tmp_path / "log"
    await pool.start()
    busy = True

    async def load() -> None:
        while busy:
            time.sleep(0.005)  # noqa: ASYNC251 - this is the load
            await asyncio.sleep(0)

    for link in links:
        await link.start()
    loading = asyncio.create_task(load())
    runners = [make_runner(metrics, pool, make_shared(link, metrics, expensive_timeout_seconds=1.0)) for link in links]
    for number in range(3):
        request = FakeRequest(action="sleep", amount=0.3 + number / 100, cost=20 * DEAR, log=str(log))
        cheap = [runner.run(FAKE, FakeRequest(amount=float(number))) for runner in runners]
        answers = await asyncio.gather(*(runner.run(FAKE, request) for runner in runners), *cheap)
        assert answers[0].body == answers[1].body
    busy = False
    await loading
    assert computations_logged(log) == 3
    await pool.close()
    for link in links:
        await link.stop()


async def test_corrupt_entry_is_recomputed_and_replaced(
    metrics: Metrics, link: RedisCircuitBreaker, redis_url: str, tmp_path: Path
) -> None:
    pool, log = make_pool(metrics), tmp_path / "log"
    shared = make_shared(link, metrics)
    first = await make_runner(metrics, pool, shared).answer(FAKE, sent(cost=DEAR, log=str(log)))
    await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"privacy_bounds:result:fake:{first.digest}", first.body)
        again = await make_runner(metrics, pool, shared).answer(FAKE, sent(cost=DEAR, log=str(log)))
        await shared.cache.flush()
        replaced = client.get(f"privacy_bounds:result:fake:{first.digest}")
        assert isinstance(replaced, bytes)
        assert first.body in replaced
    assert (again.cache, again.body) == ("computed", first.body)
    assert computations_logged(log) == 2
    await pool.close()


async def test_lease_is_released_after_failure(metrics: Metrics, link: RedisCircuitBreaker, redis_url: str) -> None:
    pool = make_pool(metrics)
    shared = make_shared(link, metrics)
    runner = make_runner(metrics, pool, shared)
    with pytest.raises(OutOfDomain):
        await runner.answer(FAKE, sent(action="fail", cost=DEAR))
    await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        assert list(client.scan_iter("privacy_bounds:lease:*")) == []
    await pool.close()


async def test_lease_of_other_holder_is_not_released(
    metrics: Metrics, link: RedisCircuitBreaker, redis_url: str
) -> None:
    shared = make_shared(link, metrics)
    lease = await shared.leases.acquire("sha256:0", 30.0)
    assert lease is not None
    assert await shared.leases.acquire("sha256:0", 30.0) is None
    with redis.Redis.from_url(redis_url) as client:
        client.set(lease.key, "another holder")
        shared.leases.release(lease)
        await shared.cache.flush()
        assert client.get(lease.key) == b"another holder"


async def test_killed_holder_blocks_others_only_until_lease_ends(
    metrics: Metrics, link: RedisCircuitBreaker, redis_url: str
) -> None:
    pool = make_pool(metrics)
    shared = make_shared(link, metrics)
    runner = make_runner(metrics, pool, shared)
    digest = (await runner.run(FAKE, FakeRequest(amount=5.0, cost=DEAR))).digest
    await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        client.delete(f"privacy_bounds:result:fake:{digest}")
    # Lease of a process that has ended: nobody will store a result or release the lease.
    assert await shared.leases.acquire(digest, 0.5) is not None
    answer = await make_runner(metrics, pool, shared).run(FAKE, FakeRequest(amount=5.0, cost=DEAR))
    assert answer.cache == "computed"
    await pool.close()


async def test_redis_lost_during_computation_changes_no_answer(
    own_redis: RedisServer, metrics: Metrics, tmp_path: Path
) -> None:
    link = RedisCircuitBreaker(own_redis.url, TEST_TIMEOUT, metrics)
    await link.start()
    pool = make_pool(metrics)
    shared = make_shared(link, metrics)
    runner = make_runner(metrics, pool, shared)
    log, gate = tmp_path / "log", tmp_path / "gate"
    request = FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(log))
    under_way = asyncio.create_task(runner.run(FAKE, request))
    await logged(log)
    own_redis.kill()
    gate.touch()
    assert (await under_way).cache == "computed"
    assert (await runner.run(FAKE, FakeRequest(amount=1.0, cost=DEAR))).cache == "computed"
    assert (await runner.run(FAKE, FakeRequest(amount=1.0, cost=DEAR))).cache == "memory"
    await pool.close()
    await link.stop()


async def test_request_waits_for_at_most_one_timeout(own_redis: RedisServer, metrics: Metrics) -> None:
    link = RedisCircuitBreaker(own_redis.url, 0.05, metrics)
    await link.start()
    pool = make_pool(metrics)
    shared = make_shared(link, metrics)
    runner = make_runner(metrics, pool, shared)
    assert link.available
    assert own_redis.process is not None
    with stopped(own_redis.process.pid):
        assert (await runner.run(FAKE, FakeRequest(amount=1.0, cost=DEAR))).cache == "computed"
        assert counted(metrics, 'privacy_bounds_redis_failures_total{operation="get"}') == 1
        assert counted(metrics, 'privacy_bounds_redis_failures_total{operation="lease"}') == 0
    await shared.cache.flush()
    await pool.close()
    await link.stop()


OTHER_PROCESS = """
import asyncio, sys
from service.execution import redis_client
from service.execution.redis_client import RedisCircuitBreaker
from tests.execution.fakes import *

redis_client.PROBE_TIMEOUT_SECONDS = TEST_TIMEOUT

async def main(url, request):
    metrics = make_metrics()
    link = RedisCircuitBreaker(url, TEST_TIMEOUT, metrics)
    await link.start()
    pool, shared = make_pool(metrics), make_shared(link, metrics)
    runner = make_runner(metrics, pool, shared)
    await pool.start()
    print("ready", flush=True)
    sys.stdin.readline()
    answers = await asyncio.gather(*(runner.run(FAKE, FakeRequest.model_validate_json(request)) for _ in range(5)))
    [first] = [answer for answer in answers if answer.cache != "collapsed"]  # any of them may be told by Redis first
    print(first.cache, first.body.decode(), flush=True)
    await shared.cache.flush()
    await pool.close()
    await link.stop()

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


async def start_other_process(directory: Path, url: str, request: FakeRequest) -> asyncio.subprocess.Process:
    script = directory / "other_process.py"
    script.write_text(OTHER_PROCESS)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        url,
        request.model_dump_json(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("digits", [None, 25])
async def test_equal_requests_in_two_processes_compute_once(redis_url: str, tmp_path: Path, digits: int | None) -> None:
    """Equal requests in two processes are computed once.

    The estimated cost is so high that the lease is longer than the wait for the second process.
    """
    log, gate = tmp_path / "log", tmp_path / "gate"
    request = FakeRequest(action="wait", gate=str(gate), cost=20 * DEAR, log=str(log), digits=digits)
    processes = [await start_other_process(tmp_path, redis_url, request) for _ in range(2)]
    asked = [asyncio.create_task(process.communicate(b"go\n")) for process in processes]
    await logged(log)
    await asyncio.sleep(0.2)
    gate.touch()
    outputs = await asyncio.gather(*asked)
    outcomes = [output.decode().split(" ", 1) for output, _ in outputs]
    assert sorted(cache for cache, _ in outcomes) == ["computed", "redis"]
    assert outcomes[0][1] == outcomes[1][1]
    assert computations_logged(log) == 1


async def test_killed_lease_holder_is_replaced(redis_url: str, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    request = FakeRequest(action="wait", gate=str(gate), cost=DEAR, log=str(log))
    holder = await start_other_process(tmp_path, redis_url, request)
    waiter = await start_other_process(tmp_path, redis_url, request)
    assert holder.stdin is not None
    holder.stdin.write(b"go\n")
    os.kill(await logged(log), signal.SIGKILL)
    holder.kill()
    await holder.wait()
    gate.touch()
    output, _ = await waiter.communicate(b"go\n")
    assert output.startswith(b"computed ")
    assert computations_logged(log) == 2
