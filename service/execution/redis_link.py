"""The only way to Redis: short waits, and none at all while it is known to be away.

The first failure opens the circuit: requests do without Redis at once, while one background task asks until it answers
again. So a dead Redis costs each request at most one short wait, and most requests nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from service.telemetry.metrics import Metrics, RedisOperation

Answer = TypeVar("Answer")

PROBE_SECONDS = 0.25
PROBE_TIMEOUT_SECONDS = 1.0
LATE_ANSWERS_UNTIL_AWAY = 3
"""A busy event loop can make one answer look late; a Redis that is away makes all of them late."""


_UNTYPED = cast("Any", Redis)
"""The stubs of redis leave keywords without types."""


class RedisAway(Exception):
    """Redis did not answer in time, or is known not to answer. Callers do without."""


@final
class RedisLink:
    """A Redis client with a circuit breaker. `timeout_seconds` bounds every `attempt`."""

    def __init__(self, url: str, timeout_seconds: float, metrics: Metrics) -> None:
        self._client: Redis = _UNTYPED.from_url(
            url,
            socket_timeout=PROBE_TIMEOUT_SECONDS,
            socket_connect_timeout=PROBE_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._timeout_seconds = timeout_seconds
        self._metrics = metrics
        self._available = False
        self._late_answers = 0
        self._probe: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        """Whether Redis answered last time."""
        return self._available

    async def start(self) -> None:
        """Ask once; if there is no answer, go on asking in the background."""
        if await self._answers():
            self._close_circuit()
        else:
            self._open_circuit("connect")

    async def stop(self) -> None:
        """Stop asking and close all connections."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await self._client.aclose()

    async def attempt(
        self,
        operation: RedisOperation,
        call: Callable[[Redis], Awaitable[Answer]],
        timeout_seconds: float | None = None,
    ) -> Answer:
        """The answer of `call`. Raises RedisAway at once while the circuit is open, else after at most the timeout."""
        if not self._available:
            raise RedisAway
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout_seconds):
                answer = await call(self._client)
        except TimeoutError as error:
            self._late_answers += 1
            self._metrics.redis_failed(operation)
            if self._late_answers >= LATE_ANSWERS_UNTIL_AWAY:
                self._open_circuit(operation)
            raise RedisAway from error
        except ResponseError as error:  # it answers, only not this (a key of another type, no memory left)
            self._metrics.redis_failed(operation)
            raise RedisAway from error
        except (RedisError, OSError) as error:
            self._metrics.redis_failed(operation)
            self._open_circuit(operation)
            raise RedisAway from error
        self._late_answers = 0
        return answer

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await cast("Any", self._client).ping()
        except (RedisError, OSError):  # TimeoutError is an OSError
            return False
        return True

    def _close_circuit(self) -> None:
        self._available = True
        self._late_answers = 0
        self._metrics.redis_available.set(1)

    def _open_circuit(self, operation: RedisOperation) -> None:
        self._available = False
        self._metrics.redis_available.set(0)
        if operation == "connect":
            self._metrics.redis_failed(operation)
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._ask_until_it_answers())

    async def _ask_until_it_answers(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            if await self._answers():
                self._close_circuit()
                return
