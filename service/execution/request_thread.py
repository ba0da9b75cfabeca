"""Thread that validates long requests and estimates their cost outside the event loop.

The thread makes one call at a time, round robin over requesters (groups or addresses). Each call is short, but many
long bodies at once would block the event loop and every other client.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar, final

from service.execution.errors import QueueFull

INLINE_BODY_BYTES: Final = 8_192
"""Largest body that the event loop parses itself, in less time than handing it to a busy thread takes."""
MAX_QUEUED_CALLS: Final = 128
"""Largest number of waiting calls, each of which may hold a body."""
RETRY_SECONDS: Final = 1

Result = TypeVar("Result")
Grant = asyncio.Future[None]


@final
class RequestThread:
    """Single thread of one event loop, with one queue of calls for each requester (group or address)."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "aside")
        self._queues: OrderedDict[str, deque[Grant]] = OrderedDict()
        self._is_busy = False

    async def call(self, requester: str, function: Callable[..., Result], *values: Any) -> Result:
        """Call `function` with `values` in the thread and return its result, accounted to `requester`.

        Raise the errors of the function, and QueueFull. When 128 calls wait, a requester with at least two waiting
        calls fewer replaces the last call of the requester with the most, whose call raises QueueFull.
        """
        loop = asyncio.get_running_loop()
        if self._is_busy:
            await self._wait(requester, loop.create_future())
        self._is_busy = True
        try:
            return await loop.run_in_executor(self._thread, partial(function, *values))
        finally:
            self._grant_next()

    async def _wait(self, requester: str, grant: Grant) -> None:
        self._evict_for(requester)
        self._queues.setdefault(requester, deque()).append(grant)
        try:
            await grant
        except BaseException:
            if requester in self._queues and grant in self._queues[requester]:
                self._leave(requester, grant)
            elif grant.done() and not grant.cancelled() and grant.exception() is None:
                self._grant_next()  # the thread was granted while the wait was cancelled
            raise

    def _evict_for(self, newcomer: str) -> None:
        if sum(map(len, self._queues.values())) < MAX_QUEUED_CALLS:
            return
        largest = max(self._queues, key=lambda requester: len(self._queues[requester]))
        if len(self._queues[largest]) <= len(self._queues.get(newcomer, ())) + 1:
            raise QueueFull(RETRY_SECONDS)
        last = self._queues[largest][-1]
        self._leave(largest, last)
        if not last.done():  # a done future was cancelled by its disconnected client
            last.set_exception(QueueFull(RETRY_SECONDS))

    def _leave(self, requester: str, grant: Grant) -> None:
        self._queues[requester].remove(grant)
        if not self._queues[requester]:
            del self._queues[requester]

    def _grant_next(self) -> None:
        self._is_busy = False
        while self._queues and not self._is_busy:
            requester, queue = self._queues.popitem(last=False)
            grant = queue.popleft()
            if queue:
                self._queues[requester] = queue
            if not grant.done():
                self._is_busy = True
                grant.set_result(None)
