"""Shared cache of expensive results in Redis, with leases that decide which process computes a result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from service.execution.leases import Lease, RedisLeases
from service.execution.redis_client import ROUND_TRIPS, RedisUnavailable
from service.execution.result_cache import RedisResultCache
from service.execution.worker_admission import COST_UNITS_PER_SECOND

FIRST_POLL_SECONDS: Final = 0.005
LONGEST_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SharedCache:
    """Shared results of computations with a cost of `cost_floor` or more, and leases on them.

    Costs are in microseconds of CPU time. No lease is longer than `longest_lease_seconds`. A computation waits for a
    response of Redis up to `expensive_timeout_seconds` or its own estimated seconds, whichever is shorter, but at least
    for the timeout of the Redis client.
    """

    cache: RedisResultCache
    leases: RedisLeases
    cost_floor: int
    longest_lease_seconds: float
    expensive_timeout_seconds: float

    def timeout_seconds(self, cost: int) -> float:
        """Return the timeout in seconds for one response of Redis to a computation of this cost (microseconds).

        The Redis client replaces a timeout shorter than its own.
        """
        return min(self.expensive_timeout_seconds, cost / COST_UNITS_PER_SECOND)

    async def result_or_lease(self, name: str, digest: str, cost: int) -> bytes | Lease | None:
        """Return the result of a digest from Redis, or the lease (exclusive right) to compute the result.

        The call waits while another process holds the lease. Return None if Redis is unavailable, if the wait was
        longer than a lease (2 s and four times the estimate, at most `longest_lease_seconds`), or if computing is
        faster than four round trips: the caller then computes the result without a lease. `name` is that of the
        resource, and `cost` the estimate in microseconds of CPU time.
        """
        seconds = min(2 + 4 * cost / COST_UNITS_PER_SECOND, self.longest_lease_seconds)
        timeout = self.timeout_seconds(cost)
        loop = asyncio.get_running_loop()
        give_up, pause = loop.time() + seconds, FIRST_POLL_SECONDS
        try:  # the first late response ends the attempt
            body = await self.cache.fetch(name, digest, timeout)
            if body is not None:
                return body
            if cost / COST_UNITS_PER_SECOND < ROUND_TRIPS * self.cache.round_trip_seconds:
                return None  # a lease takes two more round trips
            while loop.time() < give_up:
                lease = await self.leases.acquire(digest, seconds, timeout)
                # Fetch after the lease was acquired: a holder stores its result before it releases the lease.
                body = await self.cache.fetch(name, digest, timeout)
                if body is not None:
                    if lease is not None:
                        self.leases.release(lease)
                    return body
                if lease is not None:
                    return lease
                await asyncio.sleep(pause)
                pause = min(1.6 * pause, LONGEST_POLL_SECONDS)
        except RedisUnavailable:
            pass
        return None
