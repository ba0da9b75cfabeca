"""A thread beside the event loop that reads and prices long requests: one at a time, requesters in turn.

What it does is short by construction; but many long bodies at once would hold up the loop, and everybody with it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar, final

from service.execution.errors import QueueFull

SHORT_BYTES: Final = 8_192
"""Bodies up to this length are read in the event loop, in less time than a thread needs where it is busy."""
LARGEST_LINE: Final = 128
"""Calls that wait: each may hold a body."""
RETRY_SECONDS: Final = 1

Result = TypeVar("Result")
Turn = asyncio.Future[None]


@final
class Aside:
    """Of one event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "aside")
        self._lines: OrderedDict[str, deque[Turn]] = OrderedDict()
        self._is_busy = False

    async def call(self, requester: str, function: Callable[..., Result], *values: Any) -> Result:
        """What the function returns, called in the thread when it is the turn of this requester. Raises what it raises,
        and QueueFull: in a full line the requester that has most gives its last place to one that has fewer.
        """
        loop = asyncio.get_running_loop()
        if self._is_busy:
            await self._wait(requester, loop.create_future())
        self._is_busy = True
        try:
            return await loop.run_in_executor(self._thread, partial(function, *values))
        finally:
            self._next()

    async def _wait(self, requester: str, turn: Turn) -> None:
        self._make_room(requester)
        self._lines.setdefault(requester, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if requester in self._lines and turn in self._lines[requester]:
                self._leave(requester, turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self._next()  # its turn came in the moment in which it was given up
            raise

    def _make_room(self, newcomer: str) -> None:
        if sum(map(len, self._lines.values())) < LARGEST_LINE:
            return
        largest = max(self._lines, key=lambda requester: len(self._lines[requester]))
        if len(self._lines[largest]) <= len(self._lines.get(newcomer, ())) + 1:
            raise QueueFull(RETRY_SECONDS)
        last = self._lines[largest][-1]
        self._leave(largest, last)
        if not last.done():  # else its client has gone, and it is about to leave
            last.set_exception(QueueFull(RETRY_SECONDS))

    def _leave(self, requester: str, turn: Turn) -> None:
        self._lines[requester].remove(turn)
        if not self._lines[requester]:
            del self._lines[requester]

    def _next(self) -> None:
        """Give the next requester a turn, and put it behind the others."""
        self._is_busy = False
        while self._lines and not self._is_busy:
            requester, line = self._lines.popitem(last=False)
            turn = line.popleft()
            if line:
                self._lines[requester] = line
            if not turn.done():
                self._is_busy = True
                turn.set_result(None)
