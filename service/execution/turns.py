"""Turns of the event loop, for steps that take milliseconds: when many are ready at once, the loop looks up in between.

An event loop runs all that is ready before it looks at its connections again. Each step here is short, but hundreds of
them, ready together, would be one long one for everybody else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, final

SLICE_SECONDS: Final = 0.005


@final
class Turns:
    """Lets steps pass that fit into one slice between two looks; more of them wait in line, one for each look."""

    def __init__(self) -> None:
        self._began: float | None = None
        """When the first step after the last look began."""
        self._line: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Returns when the step of this caller may run: all that it does until it waits for something."""
        if self._began is None:
            self._begin()
        elif self._line or time.perf_counter() - self._began > SLICE_SECONDS:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line.append(turn)
            await turn

    def _begin(self) -> None:
        self._began = time.perf_counter()
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._began = None
        while self._line:
            turn = self._line.popleft()
            if not turn.done():  # else its client has gone
                turn.set_result(None)
                self._begin()
                return
