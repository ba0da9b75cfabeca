"""Leases in Redis: of several processes that need the same dear result, one computes it and the others wait.

A lease is a key with a random token that expires by itself, so a holder that is killed blocks nobody for longer than
the lease. It is given back by compare-and-delete: who comes too late deletes nothing of the next holder.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import final

from service.execution.redis_link import RedisLink
from service.execution.result_cache import KEY_PREFIX, RedisResultCache

RELEASE_SCRIPT = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to compute one result until it expires."""

    key: str
    token: str


@final
class RedisLeases:
    """Leases on results by digest."""

    def __init__(self, link: RedisLink, cache: RedisResultCache) -> None:
        self._link = link
        self._cache = cache

    async def acquire(self, digest: str, seconds: float) -> Lease | None:
        """A lease, or None while another process has it. Raises RedisAway."""
        lease = Lease(f"{KEY_PREFIX}:lease:{digest}", secrets.token_hex(16))
        taken = await self._link.attempt(
            "lease", lambda client: client.set(lease.key, lease.token, nx=True, px=max(1, round(seconds * 1000)))
        )
        return lease if taken else None

    def release(self, lease: Lease) -> None:
        """Give a lease back soon, after the results written before."""
        self._cache.write("EVAL", RELEASE_SCRIPT, 1, lease.key, lease.token)
