"""Worker processes with the queue before them, and the reserve: a process that takes short work only.

Which work is short is an estimate, and nothing rests on it. The reserve has tight limits of time and memory; work that
meets one of them takes its turn in the ordinary queue, with a price that is never short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from pydantic import BaseModel

from service.computations.abstract import Computation, Computes
from service.execution.admission import COST_UNITS_PER_SECOND, Admission
from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.fair_queue import QueuedWork
from service.execution.worker import Computed
from service.execution.worker_pool import WorkerPool

RESERVE_SECONDS: Final = 1.0
"""Time limit of the reserve: four times the price of the longest short work."""
RESERVE_MEMORY_BYTES: Final = 384 * 2**20
_COST_BEYOND_RESERVE: Final = int(RESERVE_SECONDS * COST_UNITS_PER_SECOND)


def _nothing() -> None:
    """Do nothing after a change of the queue."""


@final
class Workers:
    """`admission` says whose turn it is in which pool; it has a reserve where there is a pool for it."""

    def __init__(
        self,
        pool: WorkerPool,
        admission: Admission,
        reserve: WorkerPool | None = None,
        changed: Callable[[], None] = _nothing,
    ) -> None:
        """`changed` is called after each change of the queue."""
        self.admission = admission
        self._pool = pool
        self._reserve = reserve
        self._changed = changed
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until one worker is warm; the others and the reserve follow. Raise RuntimeError where none starts."""
        await self._pool.start()
        self._starting = asyncio.create_task(self._start_reserve())

    async def close(self) -> None:
        """Kill all workers; what they compute is lost."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in (self._pool, self._reserve) if pool is not None))

    async def compute(
        self, work: QueuedWork, cost: int, computation: Computes, request: BaseModel, digest: str, engine_version: str
    ) -> Computed:
        """Compute one response body when it is the turn of this work. Raise QueueFull and what `WorkerPool` raises."""
        call = computation, request, digest, engine_version
        early = isinstance(computation, Computation) and computation.ends_early
        try:
            async with self.admission.place(work, cost) as lane:
                self._changed()
                if lane == "ordinary" or self._reserve is None:
                    return await self._pool.compute(*call, ends_early=early)
                try:
                    return await self._reserve.compute(*call)
                except (OutOfTime, OutOfMemory, WorkerDied):
                    pass  # the price was too low: what the work does beyond these limits is for the ordinary workers
            async with self.admission.place(work, max(cost, _COST_BEYOND_RESERVE)):
                self._changed()
                return await self._pool.compute(*call, ends_early=early)
        finally:
            self._changed()

    async def _start_reserve(self) -> None:
        if self._reserve is not None:
            with suppress(RuntimeError):  # tried again by the first short work that is given to it
                await self._reserve.start()
