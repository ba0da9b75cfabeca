"""Worker processes for dear computations: killed at their time limit, limited in memory, started when first needed.

Each worker is a Pebble pool of one process. A pool of several processes shares one pipe, so that the death of an idle
process breaks it for all; one process a pool keeps every death to one computation, and the next one gets a new pool.
Pebble pickles calls and results between this process and its own children; nothing else ever reaches those pipes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures.process import BrokenProcessPool
from typing import Any, final

from pebble import ProcessExpired, ProcessPool
from pydantic import BaseModel

from service.computations.abstract import Computation
from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.worker import Computed, Raised, initialise, run
from service.telemetry.metrics import Metrics

CALLS_BEFORE_REPLACEMENT = 1_000


@final
class WorkerPool:
    """At most `worker_count` processes; the one used last is used first, so that few do all of a light load."""

    def __init__(
        self,
        *,
        worker_count: int,
        time_limit_seconds: float,
        memory_limit_bytes: int,
        niceness: int,
        preloaded_modules: tuple[str, ...],
        metrics: Metrics,
    ) -> None:
        self.worker_count = worker_count
        self._time_limit_seconds = time_limit_seconds
        self._memory_limit_bytes = memory_limit_bytes
        self._initial_arguments = (memory_limit_bytes, niceness, preloaded_modules)
        self._metrics = metrics
        self._idle: asyncio.LifoQueue[ProcessPool | None] = asyncio.LifoQueue()
        for _ in range(worker_count):
            self._idle.put_nowait(None)
        self._started: set[ProcessPool] = set()
        self._starting: set[asyncio.Task[ProcessPool]] = set()
        self._retiring: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether computations are taken. Workers need not have started for that."""
        return not self._closed

    @property
    def started(self) -> int:
        """Worker processes that have been started and not been replaced."""
        return len(self._started)

    async def compute(
        self, computation: Computation[Any, Any], request: BaseModel, digest: str, engine_version: str
    ) -> Computed:
        """Compute one response body in a worker; waits for a free one.

        Raises what the computation raises, OutOfTime, OutOfMemory or WorkerDied. Cancelling kills the worker.
        """
        worker = await self._idle.get()
        try:
            if worker is None or not worker.active:
                worker = await self._replace(worker)
            try:
                outcome = await self._call(worker, computation, request, digest, engine_version)
            except (BrokenProcessPool, RuntimeError):
                # The process died while idle, before it took this call: the call is innocent and gets a new process.
                self._metrics.worker_lost("idle")
                worker = await self._replace(worker)
                outcome = await self._call(worker, computation, request, digest, engine_version)
        except (BrokenProcessPool, RuntimeError) as error:
            raise WorkerDied from error
        finally:
            self._idle.put_nowait(worker)
        if isinstance(outcome, Computed):
            return outcome
        if issubclass(outcome.error_type, MemoryError):
            self._metrics.worker_lost("memory_limit")
            raise OutOfMemory(self._memory_limit_bytes)
        raise outcome.rebuild()

    async def close(self) -> None:
        """Kill all workers; what they compute is lost."""
        self._closed = True
        await asyncio.gather(*self._starting, return_exceptions=True)
        for worker in tuple(self._started):
            self._retire(worker)
        await asyncio.gather(*self._retiring)

    async def _call(
        self, worker: ProcessPool, computation: Computation[Any, Any], request: BaseModel, digest: str, version: str
    ) -> Computed | Raised:
        future = worker.schedule(run, (computation, request, digest, version), timeout=self._time_limit_seconds)
        try:
            return await asyncio.wrap_future(future)
        except TimeoutError as error:
            self._metrics.worker_lost("time_limit")
            raise OutOfTime(self._time_limit_seconds) from error
        except ProcessExpired as error:
            self._metrics.worker_lost("died")
            raise WorkerDied from error

    async def _replace(self, worker: ProcessPool | None) -> ProcessPool:
        if worker is not None:
            self._retire(worker)
        if self._closed:
            raise RuntimeError("the worker pool is closed")
        # Starting a process takes tens of milliseconds, too long for the event loop. Who waits for it may be cancelled;
        # the process is there all the same, and close() has to know it.
        starting = asyncio.get_running_loop().create_task(self._start())
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        return await asyncio.shield(starting)

    async def _start(self) -> ProcessPool:
        fresh = await asyncio.to_thread(_start, self._initial_arguments)
        self._started.add(fresh)
        return fresh

    def _retire(self, worker: ProcessPool) -> None:
        self._started.discard(worker)
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(_stop, worker))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


def _start(initial_arguments: tuple[Any, ...]) -> ProcessPool:
    worker = ProcessPool(
        max_workers=1,
        max_tasks=CALLS_BEFORE_REPLACEMENT,
        initializer=initialise,
        initargs=initial_arguments,
        context=multiprocessing.get_context("spawn"),
    )
    if not worker.active:  # asking is what starts it
        raise RuntimeError("a worker did not start")
    return worker


def _stop(worker: ProcessPool) -> None:
    worker.stop()
    worker.join()
