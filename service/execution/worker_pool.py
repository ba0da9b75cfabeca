"""Worker processes for dear computations: warm before they are needed, killed at their time limit, limited in memory.

Each worker is a Pebble pool of one process. A pool of several processes shares one pipe, so that the death of an idle
process breaks it for all; one process a pool keeps every death to one computation, and the next one gets a new pool.
Processes are forked from a fork server that has loaded `preloaded_modules`, so that a killed one is replaced in a
fraction of a second; that server has one thread and holds nothing of this process.
Pebble pickles calls and results between this process and its own children; nothing else ever reaches those pipes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

from pebble import ProcessExpired, ProcessPool
from pydantic import BaseModel

from service.computations.abstract import Computes
from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.forking import start_fork_server
from service.execution.worker import Computed, Raised, initialise, ready, run
from service.telemetry.metrics import Metrics

CALLS_BEFORE_REPLACEMENT: Final = 1_000
START_LIMIT_SECONDS: Final = 300.0
KEPT_SHARE: Final = 0.25
"""Of its memory limit: a process that keeps more after a computation has too little for the next, and is replaced."""
LOOKED_AFTER_SECONDS: Final = 1.0

_Call: TypeAlias = tuple[Computes, BaseModel, str, str, float, bool]
"""Arguments of `worker.run`."""


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
        warm_up: Callable[[], None] | None = None,
    ) -> None:
        """`warm_up`, a function of a module, is called in each process before it is given work."""
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
        self._retiring: set[asyncio.Task[None]] = set()
        self._missing = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Wait until one worker is warm; the others follow by themselves. Raises RuntimeError where none starts."""
        worker = self._idle.get_nowait()
        try:
            worker = await self._replace(worker)
        finally:
            self._idle.put_nowait(worker)
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    @property
    def alive(self) -> bool:
        """Whether computations are taken."""
        return not self._closed

    @property
    def started(self) -> int:
        """Worker processes that are warm, at work or not."""
        return len(self._started)

    async def compute(
        self,
        computation: Computes,
        request: BaseModel,
        digest: str,
        engine_version: str,
        limit_seconds: float | None = None,
        *,
        ends_early: bool = False,
    ) -> Computed:
        """Compute one response body in a worker; waits for a free one. `limit_seconds`: in place of that of the pool;
        `ends_early`: as of `worker.run`.

        Raises what the computation raises, OutOfTime, OutOfMemory or WorkerDied. Cancelling kills the worker.
        """
        call = computation, request, digest, engine_version, limit_seconds or self._time_limit_seconds, ends_early
        worker = await self._idle.get()
        try:
            if worker is None or not worker.active:
                worker = await self._replace(worker)
            try:
                outcome = await self._call(worker, call)
            except (BrokenProcessPool, RuntimeError):
                # The process died while idle, before it took this call: the call is innocent and gets a new process.
                self._metrics.worker_lost("idle")
                worker = await self._replace(worker)
                outcome = await self._call(worker, call)
            if outcome.kept_bytes > KEPT_SHARE * self._memory_limit_bytes:
                self._retire(worker)
                worker = None
                self._missing.set()
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
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await asyncio.gather(*self._starting, return_exceptions=True)
        for worker in tuple(self._started):
            self._retire(worker)
        await asyncio.gather(*self._retiring)

    async def _keep(self) -> None:
        """Start what has not been started, and replace what died while nobody asked."""
        while True:
            # Without a wait in between, so that nobody finds the queue empty.
            idle = [self._idle.get_nowait() for _ in range(self._idle.qsize())]
            missing = next((place for place, worker in enumerate(idle) if worker is None or not worker.active), None)
            worker = None if missing is None else idle.pop(missing)
            for other in reversed(idle):
                self._idle.put_nowait(other)
            if missing is not None:
                if worker is not None:
                    self._metrics.worker_lost("idle")
                try:
                    worker = await self._replace(worker)
                    continue
                except RuntimeError:
                    worker = None  # tried again later, or by who needs it
                finally:
                    self._idle.put_nowait(worker)
            self._missing.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._missing.wait(), LOOKED_AFTER_SECONDS)

    async def _call(self, worker: ProcessPool, call: _Call) -> Computed | Raised:
        limit = call[4]
        future = worker.schedule(run, call, timeout=limit)
        try:
            return await asyncio.wrap_future(future)
        except TimeoutError as error:
            self._metrics.worker_lost("time_limit")
            raise OutOfTime(limit) from error
        except ProcessExpired as error:
            self._metrics.worker_lost("died")
            raise WorkerDied from error

    async def _replace(self, worker: ProcessPool | None) -> ProcessPool:
        if worker is not None:
            self._retire(worker)
        if self._closed:
            raise RuntimeError("the worker pool is closed")
        # Starting a process takes tenths of a second, too long for the event loop. Who waits for it may be cancelled;
        # the process is there all the same, and close() has to know it.
        starting = asyncio.get_running_loop().create_task(self._start())
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._retire_unused)
            raise

    def _retire_unused(self, starting: asyncio.Task[ProcessPool]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._retire(starting.result())

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
    """A process that is ready for work."""
    worker = ProcessPool(
        max_workers=1,
        max_tasks=CALLS_BEFORE_REPLACEMENT,
        initializer=initialise,
        initargs=initial_arguments,
        context=start_fork_server(initial_arguments[2]),
    )
    try:
        worker.schedule(ready, timeout=START_LIMIT_SECONDS).result(START_LIMIT_SECONDS)
    except Exception as error:
        _stop(worker)
        raise RuntimeError("a worker did not start") from error
    return worker


def _stop(worker: ProcessPool) -> None:
    worker.stop()
    worker.join()
