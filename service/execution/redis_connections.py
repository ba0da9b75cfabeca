"""Connections to Redis that are kept, and waits for its answers that begin when the connection is there."""

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

MOST_CONNECTIONS = 64


class _Wait:
    """The wait for one answer. Opening a connection may take as long as the answer, and is not measured."""

    def __init__(self, seconds: float, limit: asyncio.Timeout) -> None:
        self._seconds = seconds
        self._limit = limit
        self._began = time.perf_counter()

    def begin(self) -> None:
        self._began = time.perf_counter()
        if not self._limit.expired():  # else the connection came too late, and the wait ends at its next step
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def seconds(self) -> float:
        return time.perf_counter() - self._began


_wait: ContextVar[_Wait | None] = ContextVar("_wait", default=None)


class _KeptConnections(BlockingConnectionPool):
    @override
    async def get_connection(self, *_: Any, **__: Any) -> Any:
        connection = await cast("Any", super()).get_connection()
        wait = _wait.get()
        if wait is not None:
            wait.begin()
        return connection


def make_client(url: str, socket_timeout: float) -> Redis:
    """Return a client that tries everything once."""
    pool = cast("Any", _KeptConnections).from_url(  # its stubs leave keywords without types
        url,
        max_connections=MOST_CONNECTIONS,
        timeout=socket_timeout,
        socket_timeout=socket_timeout,
        socket_connect_timeout=socket_timeout,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
    )
    return Redis.from_pool(pool)


async def timed(client: Redis, call: Callable[[Redis], Awaitable[Answer]], seconds: float) -> tuple[Answer, float]:
    """Return an answer and how long it took on its connection. Raise TimeoutError."""
    async with asyncio.timeout(seconds) as limit:
        wait = _Wait(seconds, limit)
        token = _wait.set(wait)
        try:
            answer = await call(client)
        finally:
            _wait.reset(token)
    return answer, wait.seconds()
