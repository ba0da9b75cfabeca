"""Ground truths that services share through a real Redis: computed once, and rejected when altered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
import redis

from tests.conftest import RedisServer
from tests.execution.fakes import SEAL_KEY
from tests.slow_marker import sample_of
from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT

Services = tuple[httpx2.Client, httpx2.Client]
DELTAS = [1e-2, 1e-5, 1e-7, 1e-9]
DIGITS_OF_EPSILON = b"1.8282366665"
"""Digits of epsilon(1e-5), by inversion on two contours in 80-bit arithmetic."""
COMPUTATIONS = "privacy_bounds_computation_duration_seconds_count"
BAD_ENTRIES = "privacy_bounds_redis_bad_entries_total"


def ground_truth(digits: int, deltas: list[float]) -> dict[str, Any]:
    return {
        "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
        "questions": [{"type": "epsilon", "delta": delta} for delta in deltas],
        "method": "ground_truth",
        "digits": digits,
    }


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def empty_redis(own_redis: RedisServer) -> str:
    """Return the address of the Redis without keys."""
    with redis.Redis.from_url(own_redis.url) as store:
        store.flushall()
    return own_redis.url


@pytest.fixture(scope="module")
def services(own_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Yield two services that share a Redis."""
    directory = tmp_path_factory.mktemp("services")
    settings = {
        "redis_url": own_redis.url,
        "seal_key": SEAL_KEY,
        "redis_timeout_seconds": "20",
        "max_cost": "1000000000",
        "time_limit_seconds": str(10 * TEST_TIMEOUT),
        "worker_niceness": "0",
    }
    (directory / "1").mkdir()
    (directory / "2").mkdir()
    with running_server(directory / "1", **settings) as one, running_server(directory / "2", **settings) as two:
        yield one, two


def ask(client: httpx2.Client, request: dict[str, Any]) -> httpx2.Response:
    response = client.post("/v1/bounds", json=request)
    assert response.status_code == 200
    return response


def counted(client: httpx2.Client, metric: str) -> float:
    """Return the sum of all samples of a metric of a service."""
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))


def wait_for(store: redis.Redis, pattern: str) -> bytes:
    """Wait for a key that matches the pattern, and return it."""
    deadline = time.monotonic() + TEST_TIMEOUT
    while True:
        key = next(store.scan_iter(pattern), None)
        if key is not None:
            return key
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.thorough
def test_two_services_compute_ground_truth_once(empty_redis: str, services: Services) -> None:
    """Two services with one Redis compute a ground truth once.

    The computation takes a fortieth of the time for which the other service waits.
    """
    before = sum(counted(client, COMPUTATIONS) for client in services)
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(ask, services, [ground_truth(50, DELTAS[:2])] * 2))
    assert answers[0].content == answers[1].content
    assert DIGITS_OF_EPSILON in answers[0].content
    assert sorted(answer.headers["cache-status"] for answer in answers) == [
        "privacy-bounds; fwd=miss; stored",
        "privacy-bounds; hit; detail=redis",
    ]
    assert sum(counted(client, COMPUTATIONS) for client in services) == before + 1


def last_digit_changed(entry: bytes) -> bytes:
    digit = entry.index(DIGITS_OF_EPSILON) + len(DIGITS_OF_EPSILON) - 1
    return entry[:digit] + b"4" + entry[digit + 1 :]


ALTERATIONS: dict[str, Any] = {
    "one digit": last_digit_changed,
    "half written": lambda entry: entry[: len(entry) // 2],
    "empty": lambda _: b"",
    "without its seal": lambda entry: entry[entry.index(b'"sealed":') + len(b'"sealed":') : -1],
}


@sample_of(2)
@pytest.mark.parametrize("name", ALTERATIONS)
def test_altered_ground_truth_is_recomputed(empty_redis: str, services: Services, name: str) -> None:
    request = ground_truth(
        30 + list(ALTERATIONS).index(name), [1e-5]
    )  # A key of its own, because services cache results.
    one, two = services
    bad_entries = counted(two, BAD_ENTRIES)
    truth = ask(one, request).content
    with redis.Redis.from_url(empty_redis) as store:
        key = wait_for(store, "privacy_bounds:result:bounds:*")
        whole = store.get(key)
        altered = ALTERATIONS[name](whole)
        assert altered != whole
        store.set(key, altered)
        again = ask(two, request)
        assert (again.content, again.headers["cache-status"]) == (truth, "privacy-bounds; fwd=miss; stored")
        assert counted(two, BAD_ENTRIES) > bad_entries or altered == b"", "an empty value is as good as none"
        deadline = time.monotonic() + TEST_TIMEOUT
        while store.get(key) != whole:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_redis_killed_during_computation_costs_no_answer(own_redis: RedisServer, services: Services) -> None:
    """A Redis that is killed during a computation costs no answer.

    The computing service and the waiting service both answer, with the same bytes. The test is the last of this Redis.
    """
    with ThreadPoolExecutor() as threads:
        answers: list[Future[httpx2.Response]] = [
            threads.submit(ask, client, ground_truth(50, DELTAS[1:3])) for client in services
        ]
        with redis.Redis.from_url(own_redis.url) as store:
            wait_for(store, "privacy_bounds:lease:*")
        assert not any(answer.done() for answer in answers)
        own_redis.kill()
        bodies = [answer.result().content for answer in answers]
    assert bodies[0] == bodies[1]
    assert DIGITS_OF_EPSILON in bodies[0]
