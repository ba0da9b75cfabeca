"""Worker pools behind the admission queue: the ordinary pool, and a reserve for short computations.

The estimated cost decides which computations are short, and a wrong estimate does no harm. The reserve has tight time
and memory limits. A computation that exceeds one of them is queued again for the ordinary pool as long work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from pydantic import BaseModel

from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.fair_queue import QueuedComputation
from service.execution.worker import WorkerResult
from service.execution.worker_admission import COST_UNITS_PER_SECOND, WorkerAdmission
from service.execution.worker_pool import WorkerPool
from service.resources.abstract import BodyProducer

RESERVE_SECONDS: Final = 1.0
"""Time limit of the reserve: four times the largest estimate of short work."""
RESERVE_MEMORY_BYTES: Final = 384 * 2**20
_COST_BEYOND_RESERVE: Final = int(RESERVE_SECONDS * COST_UNITS_PER_SECOND)


def _do_nothing(*_: object) -> None:
    """Do nothing. This is the default callback for changes and waits of the queue."""


@final
class Workers:
    """Worker pools with their admission control, which must have a reserve lane if `reserve` is given."""

    def __init__(
        self,
        pool: WorkerPool,
        admission: WorkerAdmission,
        reserve: WorkerPool | None = None,
        on_change: Callable[[], None] = _do_nothing,
        on_wait: Callable[[float], None] = _do_nothing,
    ) -> None:
        """Combine pools and admission control. `on_change` is called after each change of the queue length.

        `on_wait` is called with the seconds that each computation waited for a worker. `reserve` is the pool for short
        computations while all processes of `pool` are busy.
        """
        self.admission = admission
        self._pool = pool
        self._reserve = reserve
        self._on_change = on_change
        self._on_wait = on_wait
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the first worker and wait for it; the others and the reserve start in the background.

        Raise RuntimeError if the first worker does not start.
        """
        await self._pool.start()
        self._starting = asyncio.create_task(self._start_reserve())

    async def close(self) -> None:
        """Kill all workers, with the computations that they run."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in (self._pool, self._reserve) if pool is not None))

    async def compute(
        self,
        work: QueuedComputation,
        cost: int,
        computation: BodyProducer,
        request: BaseModel,
        digest: str,
        engine_version: str,
        *,
        ends_early: bool = False,
    ) -> WorkerResult:
        """Wait for a worker, and return the response body of a request with its measurements.

        `work` is the entry of the queue, and `cost` the estimate in microseconds of CPU time. With
        `ends_early`, the response has what is known at three quarters of the time limit. A short computation that
        exceeds a limit of the reserve, or whose process dies there, is queued again for the ordinary pool. Raise
        QueueFull and the errors of `WorkerPool.compute`.
        """
        call = computation, request, digest, engine_version
        queued = time.monotonic()
        try:
            async with self.admission.slot(work, cost) as lane:
                work.started_at = time.monotonic()
                self._on_wait(work.started_at - queued)
                self._on_change()
                if lane == "ordinary" or self._reserve is None:
                    return await self._pool.compute(*call, ends_early=ends_early)
                try:
                    return await self._reserve.compute(*call)
                except (OutOfTime, OutOfMemory, WorkerDied):
                    pass  # the estimate was too low: the ordinary pool repeats the computation
            async with self.admission.slot(work, max(cost, _COST_BEYOND_RESERVE)):
                self._on_change()
                return await self._pool.compute(*call, ends_early=ends_early)
        finally:
            self._on_change()

    async def _start_reserve(self) -> None:
        if self._reserve is not None:
            with suppress(RuntimeError):  # the first short computation tries again
                await self._reserve.start()
