"""Who has no key seals nothing; whose key was replaced is still read."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from service.execution import leases as leases_module
from service.execution.entry_mac import EntryAuthenticator
from service.execution.leases import RedisLeases
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import RedisResultCache
from tests.execution.fakes import make_metrics
from tests.timeouts import TEST_TIMEOUT

OLD, NEW = "the key of last year, which is long", "the key of this year, which is long"


def test_the_first_key_seals_and_all_open() -> None:
    old, both, new = EntryAuthenticator([OLD]), EntryAuthenticator([NEW, OLD]), EntryAuthenticator([NEW])
    entry = old.sign("result:bounds", "name", b"{}")
    assert both.verify("result:bounds", "name", entry) == b"{}"
    assert new.verify("result:bounds", "name", entry) is None
    assert new.verify("result:bounds", "name", both.sign("result:bounds", "name", b"{}")) == b"{}"
    assert old.verify("result:bounds", "name", both.sign("result:bounds", "name", b"{}")) is None


def test_without_keys_nobody_else_can_open() -> None:
    one, two = EntryAuthenticator(), EntryAuthenticator()
    assert not one.shared
    assert one.verify("k", "n", one.sign("k", "n", b"body")) == b"body"
    assert two.verify("k", "n", one.sign("k", "n", b"body")) is None


def test_kind_name_and_body_do_not_run_into_each_other() -> None:
    seals = EntryAuthenticator([OLD])
    entry = seals.sign("ab", "cd", b"ef")
    for kind, name in (("a", "bcd"), ("abc", "d"), ("", "abcd"), ("abcd", "")):
        assert seals.verify(kind, name, entry) is None


def test_no_single_change_goes_unnoticed() -> None:
    seals, rng = EntryAuthenticator([OLD]), random.Random(11)
    body = b'{"value": 0.84, "more": "' + bytes(rng.randrange(97, 123) for _ in range(60)) + b'"}'
    entry = seals.sign("result:bounds", "name", body)
    for place in range(len(entry)):
        for changed in (
            entry[:place] + bytes([entry[place] ^ 1]) + entry[place + 1 :],
            entry[:place] + entry[place + 1 :],
        ):
            assert seals.verify("result:bounds", "name", changed) is None, place


async def with_redis(url: str) -> tuple[RedisCircuitBreaker, RedisLeases, RedisResultCache]:
    metrics = make_metrics()
    link = RedisCircuitBreaker(url, TEST_TIMEOUT, metrics)
    await link.start()
    cache = RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([OLD]), metrics=metrics)
    return link, RedisLeases(link, cache), cache


@pytest.mark.parametrize(
    "forged",
    [b"somebody", b"", b"x" * 5000, EntryAuthenticator([NEW]).sign("lease", "sha256:0", b'{"token":"a","until":9e99}')],
)
async def test_a_lease_that_nobody_gave_is_not_waited_for(redis_url: str, forged: bytes) -> None:
    link, leases, _ = await with_redis(redis_url)
    await link.call("lease", lambda client: client.set("privacy_bounds:lease:sha256:0", forged, px=60_000))
    assert await leases.acquire("sha256:0", 5.0) is not None
    await link.stop()


async def test_a_lease_kept_beyond_its_end_is_not_waited_for(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1e9)
    monkeypatch.setattr(leases_module, "time", SimpleNamespace(time=lambda: clock.now))
    link, leases, _ = await with_redis(redis_url)
    lease = await leases.acquire("sha256:0", 0.3)
    assert lease is not None
    await link.call("lease", lambda client: client.set(lease.key, lease.value, px=60_000))  # by who can write there
    assert await leases.acquire("sha256:0", 5.0) is None
    clock.now += 0.31
    assert await leases.acquire("sha256:0", 5.0) is not None
    await link.stop()


async def test_a_lease_of_another_result_is_not_one_of_this(redis_url: str) -> None:
    link, leases, _ = await with_redis(redis_url)
    other = await leases.acquire("sha256:1", 60.0)
    assert other is not None
    await link.call("lease", lambda client: client.set("privacy_bounds:lease:sha256:0", other.value, px=60_000))
    assert await leases.acquire("sha256:0", 5.0) is not None
    await link.stop()
