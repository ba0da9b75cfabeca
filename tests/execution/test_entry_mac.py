"""Authentication of cache entries: without a key nothing verifies; entries of a replaced key still verify."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from service.execution.entry_mac import EntryAuthenticator
from service.execution.leases import RedisLeases
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import RedisResultCache
from tests.execution.fakes import make_metrics
from tests.timeouts import TEST_TIMEOUT

OLD, NEW = "the key of last year, which is long", "the key of this year, which is long"


def test_first_key_signs_and_all_keys_verify() -> None:
    old, both, new = EntryAuthenticator([OLD]), EntryAuthenticator([NEW, OLD]), EntryAuthenticator([NEW])
    entry = old.sign("result:bounds", "name", b"{}")
    assert both.verify("result:bounds", "name", entry) == b"{}"
    assert new.verify("result:bounds", "name", entry) is None
    assert new.verify("result:bounds", "name", both.sign("result:bounds", "name", b"{}")) == b"{}"
    assert old.verify("result:bounds", "name", both.sign("result:bounds", "name", b"{}")) is None


def test_without_keys_no_other_process_can_verify() -> None:
    one, two = EntryAuthenticator(), EntryAuthenticator()
    assert not one.shared
    assert one.verify("k", "n", one.sign("k", "n", b"body")) == b"body"
    assert two.verify("k", "n", one.sign("k", "n", b"body")) is None


def test_kind_name_and_body_are_unambiguously_separated() -> None:
    seals = EntryAuthenticator([OLD])
    entry = seals.sign("ab", "cd", b"ef")
    for kind, name in (("a", "bcd"), ("abc", "d"), ("", "abcd"), ("abcd", "")):
        assert seals.verify(kind, name, entry) is None


def test_every_single_change_is_detected() -> None:
    seals, rng = EntryAuthenticator([OLD]), random.Random(11)
    body = b'{"value": 0.84, "more": "' + bytes(rng.randrange(97, 123) for _ in range(60)) + b'"}'
    entry = seals.sign("result:bounds", "name", body)
    for place in range(len(entry)):
        for changed in (
            entry[:place] + bytes([entry[place] ^ 1]) + entry[place + 1 :],
            entry[:place] + entry[place + 1 :],
        ):
            assert seals.verify("result:bounds", "name", changed) is None, place


async def with_redis(
    url: str, wall_clock: Callable[[], float] = time.time
) -> tuple[RedisCircuitBreaker, RedisLeases, RedisResultCache]:
    metrics = make_metrics()
    link = RedisCircuitBreaker(url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([OLD]), metrics=metrics)
    return link, RedisLeases(link, cache, wall_clock=wall_clock), cache


@pytest.mark.parametrize(
    "forged",
    [b"somebody", b"", b"x" * 5000, EntryAuthenticator([NEW]).sign("lease", "sha256:0", b'{"token":"a","until":9e99}')],
)
async def test_forged_lease_is_ignored(redis_url: str, forged: bytes) -> None:
    link, leases, _ = await with_redis(redis_url)
    await link.call("lease", lambda client: client.set("privacy_bounds:lease:sha256:0", forged, px=60_000))
    assert await leases.acquire("sha256:0", 5.0) is not None
    await link.stop()


async def test_expired_lease_is_ignored(redis_url: str) -> None:
    clock = SimpleNamespace(now=1e9)
    link, leases, _ = await with_redis(redis_url, lambda: clock.now)
    lease = await leases.acquire("sha256:0", 0.3)
    assert lease is not None
    await link.call("lease", lambda client: client.set(lease.key, lease.value, px=60_000))  # a forged write
    assert await leases.acquire("sha256:0", 5.0) is None
    clock.now += 0.31
    assert await leases.acquire("sha256:0", 5.0) is not None
    await link.stop()


@pytest.mark.parametrize("jump", [-3_600.0, 3_600.0])
async def test_clock_jump_neither_extends_nor_blocks_leases(redis_url: str, jump: float) -> None:
    """A jump of a process's clock neither extends nor blocks a lease.

    Redis ends a lease by its own clock. A holder that cannot tell the time keeps others waiting no longer.
    """
    clock = SimpleNamespace(now=1e9)
    link, leases, cache = await with_redis(redis_url, lambda: clock.now)
    first = await leases.acquire("sha256:0", 0.5)
    assert first is not None
    clock.now += jump
    deadline = asyncio.get_running_loop().time() + TEST_TIMEOUT
    while (second := await leases.acquire("sha256:0", 60.0)) is None:
        assert jump < 0, "a lease that ended by this clock is ignored"
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    leases.release(first)
    await cache.flush()
    assert await leases.acquire("sha256:0", 60.0) is None, "a late holder releases only its own lease"
    leases.release(second)
    await cache.flush()
    assert await leases.acquire("sha256:0", 60.0) is not None
    await link.stop()


async def test_lease_of_another_result_is_ignored(redis_url: str) -> None:
    link, leases, _ = await with_redis(redis_url)
    other = await leases.acquire("sha256:1", 60.0)
    assert other is not None
    await link.call("lease", lambda client: client.set("privacy_bounds:lease:sha256:0", other.value, px=60_000))
    assert await leases.acquire("sha256:0", 5.0) is not None
    await link.stop()
