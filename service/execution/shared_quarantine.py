"""List of disputed runs that instances share through Redis.

Every instance reads the list every few seconds, and writes the list again if it knows further runs. A list that Redis
lost is therefore restored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from service.execution.quarantine import ResultQuarantine
from service.execution.redis_client import RedisUnavailable
from service.execution.result_cache import RedisResultCache
from service.resources.disputed import Runs

KIND, NAME = "quarantine", "runs"
EXCHANGE_SECONDS: Final = 5.0
TIMEOUT_SECONDS: Final = 1.0
REASON: Final = "another instance"


async def read_shared_runs(cache: RedisResultCache) -> Runs | None:
    """Return the digests of disputed runs in the list that instances share in Redis, or None without Redis."""
    try:
        body = await cache.fetch(KIND, NAME, TIMEOUT_SECONDS)
    except RedisUnavailable:
        return None
    return frozenset(json.loads(body)) if body else frozenset()


async def exchange_runs(cache: RedisResultCache, quarantine: ResultQuarantine) -> None:
    """Add the disputed runs of the list in Redis to the quarantine, and those of the quarantine to the list."""
    shared = await read_shared_runs(cache)
    if shared is None:
        return
    for run in shared - quarantine.runs:
        with suppress(OSError):  # this process knows the run nevertheless
            quarantine.add(run, REASON, run)
    if quarantine.runs - shared:
        cache.put(KIND, NAME, json.dumps(sorted(quarantine.runs)).encode())


@asynccontextmanager
async def share_quarantine(cache: RedisResultCache, quarantine: ResultQuarantine) -> AsyncGenerator[None]:
    """Read and write the list of disputed runs every five seconds while the block runs.

    Without a shared key for entries in Redis, the instances share nothing.
    """
    if not cache.authenticator.shared:
        yield
        return

    async def repeat() -> None:
        while True:
            await exchange_runs(cache, quarantine)
            await asyncio.sleep(EXCHANGE_SECONDS)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
