"""Leases in Redis: of several processes that need the same dear result, one computes it and the others wait.

A lease is a key that expires by itself, so a holder that is killed blocks nobody for longer than the lease. Its value
is sealed (`seals.py`) and says when it ends: a lease that nobody with the key gave, or one that was kept beyond its
end by whoever can write to Redis, is not waited for. It is given back by compare-and-delete: who comes too late
deletes nothing of the next holder.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import Final, final

from service.execution.redis_link import RedisLink
from service.execution.result_cache import KEY_PREFIX, RedisResultCache

RELEASE_SCRIPT = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
KIND: Final = "lease"
LONGEST_LEASE_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to compute one result until it expires."""

    key: str
    value: bytes


@final
class RedisLeases:
    """Leases on results by digest. Times of day of the processes that share them should agree to a second."""

    def __init__(self, link: RedisLink, cache: RedisResultCache) -> None:
        self._link = link
        self._cache = cache

    async def acquire(self, digest: str, seconds: float, timeout_seconds: float | None = None) -> Lease | None:
        """A lease, or None while another process has it. Raises RedisAway."""
        key = f"{KEY_PREFIX}:{KIND}:{digest}"
        said = json.dumps({"token": secrets.token_hex(16), "until": time.time() + seconds}).encode()
        lease = Lease(key, self._cache.seals.seal(KIND, digest, said))
        milliseconds = max(1, round(seconds * 1000))
        taken = await self._link.attempt(
            "lease", lambda client: client.set(key, lease.value, nx=True, px=milliseconds), timeout_seconds
        )
        if taken:
            return lease
        held = await self._link.attempt(
            "lease", lambda client: client.getrange(key, 0, LONGEST_LEASE_BYTES), timeout_seconds
        )
        if self._is_valid(digest, held):
            return None
        await self._link.attempt("lease", lambda client: client.set(key, lease.value, px=milliseconds), timeout_seconds)
        return lease

    def release(self, lease: Lease) -> None:
        """Give a lease back soon, after the results written before."""
        self._cache.write("EVAL", RELEASE_SCRIPT, 1, lease.key, lease.value)

    def _is_valid(self, digest: str, held: bytes | str) -> bool:
        """Whether a holder of the key gave this lease, and it has not ended."""
        said = self._cache.seals.open(KIND, digest, held)
        return said is not None and json.loads(said)["until"] > time.time()
