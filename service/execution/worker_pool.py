"""Pool of worker processes for expensive computations, started in advance and limited in time and memory.

Each worker is a Pebble pool of one process. The processes of a larger pool share one pipe, so that the death of an idle
process would break all of them. With one process per pool, a death affects one computation, and the worker is replaced.
Processes are forked from a fork server that has loaded `preloaded_modules`, so that a replacement takes a fraction of a
second. The fork server has one thread and shares no state with this process. Pebble pickles calls and results between
this process and its own children. No other data reaches these pipes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

from pebble import ProcessExpired, ProcessPool
from pydantic import BaseModel

from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.forking import start_fork_server
from service.execution.worker import WorkerError, WorkerResult, execute, initialise, ping
from service.resources.abstract import BodyProducer
from service.telemetry.metrics import Metrics

CALLS_BEFORE_REPLACEMENT: Final = 1_000
START_LIMIT_SECONDS: Final = 300.0
MAX_RETAINED_SHARE: Final = 0.25
"""Share of the memory limit that a process may retain after a computation. A process that retains more is replaced."""
SUPERVISION_INTERVAL_SECONDS: Final = 1.0

_Call: TypeAlias = tuple[BodyProducer, BaseModel, str, str, float, bool]
"""Arguments of `worker.execute`."""


@final
class WorkerPool:
    """Pool of `worker_count` worker processes. The most recently used idle process is used first."""

    def __init__(
        self,
        *,
        worker_count: int,
        time_limit_seconds: float,
        memory_limit_bytes: int,
        niceness: int,
        preloaded_modules: tuple[str, ...],
        metrics: Metrics,
        warm_up: Callable[[], None] | None = None,
    ) -> None:
        """Set up a pool without starting processes.

        Each process calls `warm_up`, which must be a function at module level, before its first computation. Each
        process imports `preloaded_modules` and has the `niceness` of the operating system. The limits are in seconds
        and bytes, for each computation and each process.
        """
        self.worker_count = worker_count
        self._time_limit_seconds = time_limit_seconds
        self._memory_limit_bytes = memory_limit_bytes
        self._initial_arguments = (memory_limit_bytes, niceness, preloaded_modules, warm_up)
        self._metrics = metrics
        self._idle: asyncio.LifoQueue[ProcessPool | None] = asyncio.LifoQueue()
        for _ in range(worker_count):
            self._idle.put_nowait(None)
        self._started: set[ProcessPool] = set()
        self._starting: set[asyncio.Task[ProcessPool]] = set()
        self._disposals: set[asyncio.Task[None]] = set()
        self._vacancy = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the first worker and wait for it. The other workers start in the background.

        Raise RuntimeError if the first worker does not start.
        """
        worker = self._idle.get_nowait()
        try:
            worker = await self._replace(worker)
        finally:
            self._idle.put_nowait(worker)
        self._supervisor = asyncio.get_running_loop().create_task(self._replace_missing_workers())

    @property
    def alive(self) -> bool:
        """Whether the pool of worker processes accepts computations."""
        return not self._closed

    @property
    def started(self) -> int:
        """Number of started worker processes of the pool, idle or busy."""
        return len(self._started)

    async def compute(
        self,
        computation: BodyProducer,
        request: BaseModel,
        digest: str,
        engine_version: str,
        limit_seconds: float | None = None,
        *,
        ends_early: bool = False,
    ) -> WorkerResult:
        """Return the response body of a request with its measurements, computed in a worker process.

        The call waits for an idle process if necessary. `limit_seconds` replaces the time limit of the pool.
        `ends_early` is passed to `worker.execute`. Raise the errors of the computation, OutOfTime, OutOfMemory, or
        WorkerDied if the process ends, cannot be started or the pool is closed. Cancelling the call kills the worker.
        """
        call = computation, request, digest, engine_version, limit_seconds or self._time_limit_seconds, ends_early
        worker = await self._idle.get()
        try:
            if worker is None or not worker.active:
                worker = await self._replace(worker)
            try:
                outcome = await self._call(worker, call)
            except (BrokenProcessPool, RuntimeError):
                # The process died while idle, before it received this call, so the call is repeated in a new process.
                self._metrics.count_worker_loss("idle")
                worker = await self._replace(worker)
                outcome = await self._call(worker, call)
            if outcome.retained_bytes > MAX_RETAINED_SHARE * self._memory_limit_bytes:
                self._dispose(worker)
                worker = None
                self._vacancy.set()
        except (BrokenProcessPool, RuntimeError) as error:
            raise WorkerDied from error
        finally:
            self._idle.put_nowait(worker)
        if isinstance(outcome, WorkerResult):
            return outcome
        if issubclass(outcome.error_type, MemoryError):
            self._metrics.count_worker_loss("memory_limit")
            raise OutOfMemory(self._memory_limit_bytes)
        raise outcome.restore()

    async def close(self) -> None:
        """Kill all workers, with the computations that they run."""
        self._closed = True
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await asyncio.gather(*self._starting, return_exceptions=True)
        for worker in tuple(self._started):
            self._dispose(worker)
        await asyncio.gather(*self._disposals)

    async def _replace_missing_workers(self) -> None:
        while True:
            # No await between taking and returning the workers, so that no caller finds the queue empty.
            idle = [self._idle.get_nowait() for _ in range(self._idle.qsize())]
            missing = next((place for place, worker in enumerate(idle) if worker is None or not worker.active), None)
            worker = None if missing is None else idle.pop(missing)
            for other in reversed(idle):
                self._idle.put_nowait(other)
            if missing is not None:
                if worker is not None:
                    self._metrics.count_worker_loss("idle")
                try:
                    worker = await self._replace(worker)
                    continue
                except RuntimeError:
                    worker = None  # the next pass or the next computation tries again
                finally:
                    self._idle.put_nowait(worker)
            self._vacancy.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._vacancy.wait(), SUPERVISION_INTERVAL_SECONDS)

    async def _call(self, worker: ProcessPool, call: _Call) -> WorkerResult | WorkerError:
        limit = call[4]
        future = worker.schedule(execute, call, timeout=limit)
        try:
            return await asyncio.wrap_future(future)
        except TimeoutError as error:
            self._metrics.count_worker_loss("time_limit")
            raise OutOfTime(limit) from error
        except ProcessExpired as error:
            self._metrics.count_worker_loss("died")
            raise WorkerDied from error

    async def _replace(self, worker: ProcessPool | None) -> ProcessPool:
        if worker is not None:
            self._dispose(worker)
        if self._closed:
            raise RuntimeError("the worker pool is closed")
        # Starting a process takes tenths of a second, too long for the event loop. The caller may be cancelled
        # meanwhile, but the process starts nevertheless, and close() must know it.
        starting = asyncio.get_running_loop().create_task(self._start_worker())
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._dispose_unused)
            raise

    def _dispose_unused(self, starting: asyncio.Task[ProcessPool]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._dispose(starting.result())

    async def _start_worker(self) -> ProcessPool:
        fresh = await asyncio.to_thread(_start_worker, self._initial_arguments)
        self._started.add(fresh)
        return fresh

    def _dispose(self, worker: ProcessPool) -> None:
        self._started.discard(worker)
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(_stop, worker))
        self._disposals.add(task)
        task.add_done_callback(self._disposals.discard)


def _start_worker(initial_arguments: tuple[Any, ...]) -> ProcessPool:
    worker = ProcessPool(
        max_workers=1,
        max_tasks=CALLS_BEFORE_REPLACEMENT,
        initializer=initialise,
        initargs=initial_arguments,
        context=start_fork_server(initial_arguments[2]),
    )
    try:
        worker.schedule(ping, timeout=START_LIMIT_SECONDS).result(START_LIMIT_SECONDS)
    except Exception as error:
        _stop(worker)
        raise RuntimeError("a worker did not start") from error
    return worker


def _stop(worker: ProcessPool) -> None:
    worker.stop()
    worker.join()
