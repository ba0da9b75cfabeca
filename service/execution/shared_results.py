"""Results that processes share through Redis, and leases that decide which process computes one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from service.execution.admission import COST_UNITS_PER_SECOND
from service.execution.leases import Lease, RedisLeases
from service.execution.redis_link import ROUND_TRIPS, RedisAway
from service.execution.result_cache import RedisResultCache

FIRST_POLL_SECONDS: Final = 0.005
LONGEST_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SharedResults:
    """Results of computations that cost `cost_floor` or more, and leases on them.

    Expensive work waits up to `dear_timeout_seconds` for an answer of Redis, but not for longer than it would compute
    itself.
    """

    cache: RedisResultCache
    leases: RedisLeases
    cost_floor: int
    longest_lease_seconds: float
    dear_timeout_seconds: float

    def timeout_seconds(self, cost: int) -> float:
        """Return how long work of this cost waits for one answer of Redis."""
        return min(self.dear_timeout_seconds, cost / COST_UNITS_PER_SECOND)

    async def result_or_lease(self, name: str, digest: str, cost: int) -> bytes | Lease | None:
        """Return the result from Redis, or the lease to compute it. None: Redis is away, or the wait was too long."""
        seconds = min(2 + 4 * cost / COST_UNITS_PER_SECOND, self.longest_lease_seconds)
        timeout = self.timeout_seconds(cost)
        loop = asyncio.get_running_loop()
        give_up, pause = loop.time() + seconds, FIRST_POLL_SECONDS
        try:  # one late answer is all that a request waits for
            body = await self.cache.fetch(name, digest, timeout)
            if body is not None:
                return body
            if cost / COST_UNITS_PER_SECOND < ROUND_TRIPS * self.cache.round_trip_seconds:
                return None  # a lease takes two more round trips
            while loop.time() < give_up:
                lease = await self.leases.acquire(digest, seconds, timeout)
                # Asked after the lease: a holder stores its result before it gives the lease back.
                body = await self.cache.fetch(name, digest, timeout)
                if body is not None:
                    if lease is not None:
                        self.leases.release(lease)
                    return body
                if lease is not None:
                    return lease
                await asyncio.sleep(pause)
                pause = min(1.6 * pause, LONGEST_POLL_SECONDS)
        except RedisAway:
            pass
        return None
