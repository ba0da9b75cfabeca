"""Two result stores with one protocol and the same guarantees, and entries that another writer has corrupted."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

import pytest
import redis
import structlog

from service.execution.entry_mac import EntryAuthenticator
from service.execution.memory_cache import InMemoryResultCache
from service.execution.redis_client import RedisCircuitBreaker, RedisUnavailable
from service.execution.result_cache import (
    MAX_ENTRY_BYTES,
    MAX_INLINE_MAC_BYTES,
    RedisResultCache,
    ResultCache,
)
from tests.conftest import RedisServer, stopped
from tests.execution.fakes import FAKE, SEAL_KEY, FakeResponse, counted, make_metrics
from tests.timeouts import TEST_TIMEOUT

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


def body_of(digest: str, value: float = 1.0) -> bytes:
    return FakeResponse(digest=digest, engine_version="1", value=value).json_bytes()


def sealed(body: bytes, name: str = DIGEST, kind: str = "result:fake", key: str = SEAL_KEY) -> bytes:
    """Return a signed entry as it is stored in Redis."""
    return EntryAuthenticator([key]).sign(kind, name, body)


FORGED = {
    "bytes": b"\x80\x04\x95not json",
    "truncated": sealed(body_of(DIGEST))[:-3],
    "truncated and closed": sealed(body_of(DIGEST))[:-4] + b"}",
    "a digit changed": sealed(body_of(DIGEST)).replace(b"1.0", b"2.0"),
    "a digit of the seal changed": sealed(body_of(DIGEST)).replace(b'":"', b'":"0', 1).replace(b'","', b'","', 1),
    "longer": sealed(body_of(DIGEST)) + b" }",
    "not sealed": body_of(DIGEST),
    "another's name": sealed(body_of(OTHER), OTHER),
    "another computation's": sealed(body_of(DIGEST), kind="result:other"),
    "an entry of digits": sealed(body_of(DIGEST), kind="digits:fake"),
    "without a key": b'{"sha256":"' + hashlib.sha256(body_of(DIGEST)).hexdigest().encode() + b'","result":{}}',
    "another key": sealed(body_of(DIGEST), key="another key, which is also long enough"),
    "null": b"null",
    "deep": b"[" * 3000,
    "encoding": '{"digest": "\xfc"}'.encode("latin-1"),
    "long": sealed(body_of(DIGEST) + bytes(MAX_INLINE_MAC_BYTES), key="another key, which is also long enough"),
    "longer than anything written": sealed(bytes(MAX_ENTRY_BYTES)),
}


@pytest.fixture(params=["memory", "redis"])
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[ResultCache]:
    if request.param == "memory":
        yield InMemoryResultCache(10, 10_000)
        return
    metrics = make_metrics()
    link = RedisCircuitBreaker(request.getfixturevalue("redis_url"), TEST_TIMEOUT, metrics)
    await link.start()
    yield RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    await link.stop()


async def test_stored_result_is_found(cache: ResultCache) -> None:
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    assert await cache.get(FAKE.name, DIGEST) == body_of(DIGEST)


async def test_missing_result_is_none(cache: ResultCache) -> None:
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    assert await cache.get(FAKE.name, OTHER) is None
    assert await cache.get("other", DIGEST) is None


async def test_last_put_wins(cache: ResultCache) -> None:
    cache.put(FAKE.name, DIGEST, body_of(DIGEST, 1.0))
    cache.put(FAKE.name, DIGEST, body_of(DIGEST, 2.0))
    await cache.flush()
    assert await cache.get(FAKE.name, DIGEST) == body_of(DIGEST, 2.0)


@pytest.mark.parametrize("entry", FORGED.values(), ids=FORGED)
async def test_corrupt_entry_is_a_miss(redis_url: str, entry: bytes) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"privacy_bounds:result:fake:{DIGEST}", entry)
    assert await cache.get(FAKE.name, DIGEST) is None
    assert counted(metrics, "privacy_bounds_redis_bad_entries_total") == 1
    await link.stop()


async def test_key_of_other_redis_type_is_a_miss_and_redis_stays_in_use(redis_url: str) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    with redis.Redis.from_url(redis_url) as client:
        client.rpush(f"privacy_bounds:result:fake:{DIGEST}", "list")
    assert await cache.get(FAKE.name, DIGEST) is None
    assert link.available
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    assert await cache.get(FAKE.name, DIGEST) == body_of(DIGEST)
    await link.stop()


async def test_entries_are_json(redis_url: str) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        entry = client.get(f"privacy_bounds:result:fake:{DIGEST}")
    assert isinstance(entry, bytes)
    assert entry == sealed(body_of(DIGEST))
    assert json.loads(entry)["sealed"] == json.loads(body_of(DIGEST))
    await link.stop()


async def test_entries_expire(redis_url: str) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        assert 0 < client.ttl(f"privacy_bounds:result:fake:{DIGEST}") <= 60
    await link.stop()


@pytest.mark.parametrize("size", [0, MAX_INLINE_MAC_BYTES, 2**22])
async def test_values_of_any_length_round_trip(redis_url: str, size: int) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    body = body_of(DIGEST) + bytes(size)
    cache.put(FAKE.name, DIGEST, body)
    await cache.flush()
    assert await cache.get(FAKE.name, DIGEST) == body
    await link.stop()


async def test_killed_redis_is_a_miss_until_it_is_back(own_redis: RedisServer) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(own_redis.url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    assert await cache.get(FAKE.name, DIGEST) is not None

    own_redis.kill()
    assert await cache.get(FAKE.name, DIGEST) is None
    assert not link.available
    assert counted(metrics, 'privacy_bounds_redis_failures_total{operation="get"}') == 1
    assert counted(metrics, "privacy_bounds_redis_available") == 0
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    assert await cache.get(FAKE.name, DIGEST) is None
    assert counted(metrics, 'privacy_bounds_redis_failures_total{operation="get"}') == 1, "nobody asks while it is away"

    own_redis.start()
    async with asyncio.timeout(TEST_TIMEOUT):
        while not link.available:
            await asyncio.sleep(0.05)
    cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    await cache.flush()
    assert await cache.get(FAKE.name, DIGEST) == body_of(DIGEST)
    await link.stop()


async def test_hanging_redis_is_avoided_after_three_timeouts(own_redis: RedisServer) -> None:
    """A Redis that hangs is not used after three timeouts, and every change of state is logged once, with its cause."""
    metrics = make_metrics()
    with structlog.testing.capture_logs() as events:
        await _hang_and_go_on(own_redis, RedisCircuitBreaker(own_redis.url, 0.05, metrics, structlog.get_logger()))
    circuits = [event["circuit"] for event in events]
    assert circuits in (["answers", "slow", "answers"], ["answers", "slow", "away", "answers"])
    assert all(event["event"] == "redis" and event["cause"] for event in events)
    assert "0.05 s" in events[1]["cause"]


async def _hang_and_go_on(own_redis: RedisServer, link: RedisCircuitBreaker) -> None:
    await link.start()
    assert own_redis.process is not None
    with stopped(own_redis.process.pid):
        for _ in range(5):
            with pytest.raises(RedisUnavailable):
                await link.call("get", lambda client: client.get("x"))
        assert not link.available
    async with asyncio.timeout(TEST_TIMEOUT):
        while not link.available:
            await asyncio.sleep(0.05)
    await link.stop()


async def test_missing_redis_blocks_nothing(own_redis: RedisServer) -> None:
    own_redis.kill()
    metrics = make_metrics()
    link = RedisCircuitBreaker(own_redis.url, TEST_TIMEOUT, metrics)
    await link.start()
    assert not link.available
    with pytest.raises(RedisUnavailable):
        await link.call("get", lambda client: client.get("x"))
    await link.stop()


async def test_full_write_queue_drops_and_counts(redis_url: str) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([SEAL_KEY]), metrics=metrics)
    for _ in range(RedisResultCache.MAX_QUEUED + 7):
        cache.put(FAKE.name, DIGEST, body_of(DIGEST))
    assert counted(metrics, 'privacy_bounds_redis_failures_total{operation="write"}') == 7
    await cache.flush()
    await link.stop()
