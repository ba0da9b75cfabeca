"""Connection pool for Redis, and response times that exclude the time to open a connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from typing_extensions import override

Answer = TypeVar("Answer")

MAX_CONNECTIONS = 64


class _ResponseTimer:
    # `begin` is called when the connection is open, so that the time to open it is not measured
    def __init__(self, seconds: float, limit: asyncio.Timeout) -> None:
        self._seconds = seconds
        self._limit = limit
        self._began = time.perf_counter()

    def begin(self) -> None:
        self._began = time.perf_counter()
        if not self._limit.expired():  # an expired timeout cancels the caller at its next step
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def seconds(self) -> float:
        return time.perf_counter() - self._began


_wait: ContextVar[_ResponseTimer | None] = ContextVar("_wait", default=None)


class _TimedConnectionPool(BlockingConnectionPool):
    @override
    async def get_connection(self, *_: Any, **__: Any) -> Any:
        connection = await cast("Any", super()).get_connection()
        wait = _wait.get()
        if wait is not None:
            wait.begin()
        return connection


def build_client(url: str, socket_timeout: float) -> Redis:
    """Return a Redis client that sends every command once, without retries. `socket_timeout` is in seconds."""
    pool = cast("Any", _TimedConnectionPool).from_url(  # its stubs leave keywords without types
        url,
        max_connections=MAX_CONNECTIONS,
        timeout=socket_timeout,
        socket_timeout=socket_timeout,
        socket_connect_timeout=socket_timeout,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
    )
    return Redis.from_pool(pool)


async def call_timed(client: Redis, call: Callable[[Redis], Awaitable[Answer]], seconds: float) -> tuple[Answer, float]:
    """Return the response to the command that `call` sends by `client`, and its seconds on an open connection.

    Opening a connection may take up to `seconds` in addition. Raise TimeoutError after `seconds`, and the errors of the
    client.
    """
    async with asyncio.timeout(seconds) as limit:
        wait = _ResponseTimer(seconds, limit)
        token = _wait.set(wait)
        try:
            answer = await call(client)
        finally:
            _wait.reset(token)
    return answer, wait.seconds()
