"""State machines of the memory cache and of leases in Redis, against models."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from service.execution.entry_mac import EntryAuthenticator
from service.execution.leases import Lease, RedisLeases
from service.execution.memory_cache import InMemoryResultCache
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import RedisResultCache
from tests.conftest import RedisServer
from tests.execution.fakes import SEAL_KEY, make_metrics
from tests.timeouts import TEST_TIMEOUT

ENTRIES, BYTES = 4, 40
EXAMPLES = settings(max_examples=60, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow])
DIGESTS = st.sampled_from("abcdefg")
REQUESTERS = st.sampled_from(["one", "two", "three"])


class CacheMachine(RuleBasedStateMachine):
    """State machine of the memory cache. The model is a list of entries in the order of their last use.

    The requester with most results loses its least recently used one. Among equals it is the first by name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cache = InMemoryResultCache(ENTRIES, BYTES)
        self.entries: list[tuple[str, bytes, str]] = []

    def weights(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for _, body, requester in self.entries:
            found[requester] = found.get(requester, 0.0) + len(body) + BYTES / ENTRIES
        return found

    @rule(digest=DIGESTS, length=st.integers(0, BYTES + 5), requester=REQUESTERS)
    def put(self, digest: str, length: int, requester: str) -> None:
        body = digest.encode() * length
        self.cache.put("bounds", digest, body, requester)
        if length > BYTES:
            return
        self.entries = [each for each in self.entries if each[0] != digest] + [(digest, body, requester)]
        while len(self.entries) > ENTRIES or sum(len(each[1]) for each in self.entries) > BYTES:
            weights = self.weights()
            largest = min(weights, key=lambda name: (-weights[name], name))
            evicted = next(each for each in self.entries if each[2] == largest)
            assert self.cache.lookup("bounds", evicted[0]) is None, "the requester with most results gives way"
            self.entries.remove(evicted)

    @rule(digest=DIGESTS)
    def lookup(self, digest: str) -> None:
        found = [each for each in self.entries if each[0] == digest]
        assert self.cache.lookup("bounds", digest) == (found[0][1] if found else None)
        assert self.cache.lookup("curves", digest) is None
        self.entries = [each for each in self.entries if each[0] != digest] + found

    @invariant()
    def limits_hold(self) -> None:
        assert len(self.cache) == len(self.entries) <= ENTRIES
        assert self.cache.size_bytes == sum(len(each[1]) for each in self.entries) <= BYTES


def test_memory_cache_equals_its_model() -> None:
    run_state_machine_as_test(CacheMachine, settings=EXAMPLES)


class LeaseMachine(RuleBasedStateMachine):
    """State machine of leases of processes with wrong clocks.

    The model is the holder of each lease, and its end by the clock of Redis. No lease ends by itself during the test.
    Writers without the key delete and forge entries.
    """

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = SimpleNamespace(now=1e9)
        self.held: dict[str, tuple[Lease, float]] = {}
        self.released: list[Lease] = []
        self.database: Any = redis.Redis.from_url(self.url)
        self.database.flushall()
        self.runner.run(self.start())

    async def start(self) -> None:
        metrics = make_metrics()
        self.link = RedisCircuitBreaker(self.url, TEST_TIMEOUT, metrics)
        await self.link.start()
        authenticator = EntryAuthenticator([SEAL_KEY])
        self.cache = RedisResultCache(self.link, ttl_seconds=60, authenticator=authenticator, metrics=metrics)
        self.leases = RedisLeases(self.link, self.cache, wall_clock=lambda: self.clock.now)

    async def send_release(self, lease: Lease) -> None:
        self.leases.release(lease)
        await self.cache.flush()

    def teardown(self) -> None:
        self.runner.run(self.link.stop())
        self.runner.close()
        self.database.close()

    @rule(digest=DIGESTS, seconds=st.sampled_from([1_000.0, 2_000.0]))
    def acquire(self, digest: str, seconds: float) -> None:
        lease = self.runner.run(self.leases.acquire(digest, seconds))
        held = self.held.get(digest)
        assert (lease is None) == (held is not None and held[1] > self.clock.now)
        if lease is not None:
            if held is not None:
                self.released.append(held[0])
            self.held[digest] = lease, self.clock.now + seconds

    @rule(digest=DIGESTS)
    def release(self, digest: str) -> None:
        if digest in self.held:
            lease, _ = self.held.pop(digest)
            self.runner.run(self.send_release(lease))
            self.released.append(lease)

    @rule(number=st.integers(0, 100))
    def release_late(self, number: int) -> None:
        """Release a lease a second time, which must not end the lease of the next holder."""
        if self.released:
            self.runner.run(self.send_release(self.released[number % len(self.released)]))

    @rule(seconds=st.sampled_from([-3_600.0, -600.0, 600.0, 3_600.0]))
    def set_clock(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(digest=DIGESTS, forged=st.binary(max_size=600))
    def forge(self, digest: str, forged: bytes) -> None:
        self.database.set(f"privacy_bounds:lease:{digest}", forged, px=60_000)
        if digest in self.held:
            self.released.append(self.held.pop(digest)[0])


@pytest.mark.thorough
def test_leases_equal_their_model(own_redis: RedisServer) -> None:
    run_state_machine_as_test(
        type("OwnLeaseMachine", (LeaseMachine,), {"url": own_redis.url}), settings=settings(EXAMPLES, max_examples=25)
    )
