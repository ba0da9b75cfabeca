"""Time slicing for coroutine steps that occupy the event loop for milliseconds.

An event loop runs all ready callbacks before it polls its connections again. Hundreds of short steps that become ready
together would block all other connections, so the slicer lets the loop poll between slices.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, final

SLICE_SECONDS: Final = 0.005


@final
class LoopTimeSlicer:
    """Gate for short steps of coroutines, so that the event loop can serve its connections between them.

    Steps run at once during a slice of `SLICE_SECONDS` (5 ms). After the slice, the event loop admits one waiting step
    in each of its rounds.
    """

    def __init__(self) -> None:
        self._slice_started: float | None = None
        """Time of `perf_counter` at which the current slice started. None before the first step of a slice."""
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait until the caller may run its next step in the event loop: the code up to the next suspending `await`."""
        if self._slice_started is None:
            self._start_slice()
        elif self._waiters or time.perf_counter() - self._slice_started > SLICE_SECONDS:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _start_slice(self) -> None:
        self._slice_started = time.perf_counter()
        asyncio.get_running_loop().call_soon(self._yield_to_loop)

    def _yield_to_loop(self) -> None:
        self._slice_started = None
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # a done future was cancelled by its disconnected client
                waiter.set_result(None)
                self._start_slice()
                return
