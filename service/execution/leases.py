"""Leases in Redis: one of several processes computes an expensive result, and the others wait for the result.

A lease is a key with a time to live, so a killed holder blocks other processes at most for the duration of the lease.
The value is authenticated (`entry_mac.py`) and contains the end of the lease. A process ignores leases that were not
issued with the shared key, and leases that somebody with access to Redis extended beyond their end. A lease is released
by compare-and-delete, so that a late holder cannot delete the lease of the next holder.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import KEY_PREFIX, RedisResultCache

RELEASE_SCRIPT = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
KIND: Final = "lease"
MAX_LEASE_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Lease:
    """Exclusive right to compute one result until the lease expires.

    `key` is its entry in Redis, and `value` the content of the entry, which has a random token of the holder and the
    end of the lease.
    """

    key: str
    value: bytes


@final
class RedisLeases:
    """Leases on results by request digest.

    The clocks of the processes that share leases should agree within a second.
    """

    def __init__(
        self, redis_client: RedisCircuitBreaker, cache: RedisResultCache, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._redis_client = redis_client
        self._cache = cache
        self._wall_clock = wall_clock

    async def acquire(self, digest: str, seconds: float, timeout_seconds: float | None = None) -> Lease | None:
        """Return a lease on a digest for `seconds`, or None while another process holds a lease on that digest.

        A lease is the exclusive right to compute the result with this request digest. A forged or ended lease is
        replaced. `timeout_seconds` is that of each call of Redis; None: the configured one. Raise RedisUnavailable.
        """
        key = f"{KEY_PREFIX}:{KIND}:{digest}"
        payload = json.dumps({"token": secrets.token_hex(16), "until": self._wall_clock() + seconds}).encode()
        lease = Lease(key, self._cache.authenticator.sign(KIND, digest, payload))
        milliseconds = max(1, round(seconds * 1000))
        taken = await self._redis_client.call(
            "lease", lambda client: client.set(key, lease.value, nx=True, px=milliseconds), timeout_seconds
        )
        if taken:
            return lease
        held = await self._redis_client.call(
            "lease", lambda client: client.getrange(key, 0, MAX_LEASE_BYTES), timeout_seconds
        )
        if self._is_valid_lease(digest, held):
            return None
        await self._redis_client.call(
            "lease", lambda client: client.set(key, lease.value, px=milliseconds), timeout_seconds
        )
        return lease

    def release(self, lease: Lease) -> None:
        """Enqueue the release of a lease after all results enqueued before, and return without waiting for Redis.

        A lease is the exclusive right to compute one result.
        """
        self._cache.enqueue("EVAL", RELEASE_SCRIPT, 1, lease.key, lease.value)

    def _is_valid_lease(self, digest: str, held: bytes | str) -> bool:
        payload = self._cache.authenticator.verify(KIND, digest, held)
        return payload is not None and json.loads(payload)["until"] > self._wall_clock()
