"""A Redis that is full, read-only, slow, flapping, or has entries of others: answers stay right, and hits come back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis

from service.execution.result_cache import KEY_PREFIX
from tests.conftest import RedisServer, stopped
from tests.execution.delaying_proxy import distant
from tests.system.jobs import SEAL_KEY, wait_for
from tests.system.running_server import running_server

RECOVERY_SECONDS = 30.0
SETTINGS = {
    "seal_key": SEAL_KEY,
    "redis_cost_floor": "0",
    "memory_cache_entries": "1",
    "worker_niceness": "0",
    "worker_count": "1",
    "log_level": "warning",
}
HIT = "privacy-bounds; hit; detail=redis"

pytestmark = pytest.mark.thorough


def body(number: int) -> dict[str, Any]:
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1_000 + number}
    return {"mechanism": run, "questions": [{"type": "epsilon", "delta": 1e-6}]}


class Asker:
    """Client that compares every answer with the first answer to the same request."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self._truths: dict[int, bytes] = {}

    def is_hit(self, number: int) -> bool:
        answer = self._client.post("/v1/bounds", json=body(number))
        assert answer.status_code == 200, answer.text
        assert answer.content == self._truths.setdefault(number, answer.content)
        return answer.headers["cache-status"] == HIT

    def hits(self, *numbers: int) -> int:
        """Send the requests with these numbers in turn, and return the number of results that Redis had."""
        return sum(map(self.is_hit, numbers))

    def is_used(self) -> bool:
        """Return whether Redis has results: ask for two requests, of which the memory holds at most one."""
        return self.hits(0, 1, 0, 1) > 0

    def circuit(self) -> str:
        checks = self._client.get("/readyz?verbose").json()["checks"]
        [found] = [each["status"] for each in checks if each["name"] == "redis"]
        return str(found)


@contextmanager
def asking(url: str, folder: Path, **settings: str) -> Generator[Asker]:
    with running_server(folder, redis_url=url, **SETTINGS, **settings) as client:
        asker = Asker(client)
        yield asker
        assert client.get("/livez").status_code == 200


@pytest.fixture
def database(own_redis: RedisServer) -> Iterator[Any]:
    with redis.Redis.from_url(own_redis.url) as client:
        yield client


def test_full_redis_stores_nothing_and_recovers(own_redis: RedisServer, database: Any, tmp_path: Path) -> None:
    with asking(own_redis.url, tmp_path) as asker:
        wait_for(asker.is_used)
        database.flushall()
        database.config_set("maxmemory-policy", "noeviction")
        database.config_set("maxmemory", 1)
        assert asker.hits(2, 3, 2, 3) == 0
        assert database.dbsize() == 0
        database.config_set("maxmemory", 0)
        assert wait_for(asker.is_used) < RECOVERY_SECONDS


def test_read_only_replica_is_read_and_recovers(own_redis: RedisServer, database: Any, tmp_path: Path) -> None:
    """Results of a read-only replica of Redis are used, and results are stored again once it can be written.

    After a failover the address may lead to a replica for a while.
    """
    with asking(own_redis.url, tmp_path) as asker:
        wait_for(asker.is_used)
        database.config_set("replica-serve-stale-data", "yes")
        database.replicaof("127.0.0.1", 1)
        assert asker.is_used(), "stored results are served"
        before = database.dbsize()
        assert asker.hits(2, 3, 2, 3) == 0
        assert database.dbsize() == before
        database.replicaof("no", "one")
        assert wait_for(lambda: asker.hits(2, 3, 2, 3) > 0) < RECOVERY_SECONDS


def results(database: Any) -> dict[str, bytes]:
    keys = [key for key in database.scan_iter(f"{KEY_PREFIX}:*") if b":lease:" not in key]
    return {key.decode(): database.get(key) for key in keys}


FORGERS: dict[str, Callable[[str, bytes], bytes]] = {
    "wrong seal": lambda _, entry: entry.replace(b'"sealed":', b'"sealed": '),
    "no JSON": lambda *_: b"\x00\xff" * 100,
    "null": lambda *_: b"null",
    "of another version, not sealed anew": lambda _, entry: entry.replace(
        b'"engine_version":"', b'"engine_version":"0'
    ),
}


@pytest.mark.parametrize("forger", FORGERS)
def test_poisoned_entries_are_replaced(own_redis: RedisServer, database: Any, tmp_path: Path, forger: str) -> None:
    with asking(own_redis.url, tmp_path) as asker:
        wait_for(asker.is_used)
        for key, entry in results(database).items():
            forged = FORGERS[forger](key, entry)
            assert forged != entry
            database.set(key, forged)
        assert not asker.is_hit(0)
        assert wait_for(asker.is_used) < RECOVERY_SECONDS


@contextmanager
def slow_link(url: str, round_trip_seconds: float) -> Generator[str]:
    """Yield the address of a proxy that delays every answer, in a thread of its own."""
    ready, done = threading.Event(), threading.Event()
    found: list[str] = []

    async def carry() -> None:
        async with distant(url, round_trip_seconds) as address:
            found.append(address)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(carry(),))
    thread.start()
    assert ready.wait(RECOVERY_SECONDS)
    try:
        yield found[0]
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("round_trip_seconds", [0.05, 2.0])
def test_slow_redis_changes_no_answer(own_redis: RedisServer, tmp_path: Path, round_trip_seconds: float) -> None:
    """A slow Redis changes no answer.

    It answers later than the service waits, or later than a probe of the circuit breaker waits.
    """
    with slow_link(own_redis.url, round_trip_seconds) as url, asking(url, tmp_path) as asker:
        for number in (0, 1, 2, 0, 1, 2):
            asker.is_hit(number)
        if round_trip_seconds > 1:
            assert asker.circuit() == "degraded"


def test_flapping_redis_changes_no_answer(own_redis: RedisServer, tmp_path: Path) -> None:
    """A Redis that hangs, ends and comes back several times changes no answer, and is used again afterwards."""
    with asking(own_redis.url, tmp_path) as asker:
        wait_for(asker.is_used)
        for number in range(4):
            assert own_redis.process is not None
            with stopped(own_redis.process.pid):
                asker.is_hit(number)
                time.sleep(0.3)
                asker.is_hit(number + 1)
            asker.is_hit(number)
            own_redis.kill()
            asker.is_hit(number)
            own_redis.start()
            asker.is_hit(number + 1)
        assert wait_for(asker.is_used) < RECOVERY_SECONDS
