"""Worker of a cluster (`privacy-bounds worker`), which computes chunks of jobs whenever a Celery message wakes it.

The main thread runs the Celery consumer. A second thread runs an event loop, which claims, computes and saves chunks
(`chunk_worker.py`). Processing a message takes as long as there are chunks to compute.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, final

from celery import Celery, signals
from structlog.typing import FilteringBoundLogger

from service.execution.client import ANONYMOUS_OWNER, owner_of
from service.execution.entry_mac import EntryAuthenticator
from service.execution.errors import ResultQuarantined
from service.execution.quarantine import MARKER
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import RedisResultCache
from service.execution.result_owners import entry_name
from service.execution.shared_quarantine import read_shared_runs
from service.execution.worker_pool import WorkerPool
from service.jobs.celery.celery_app import make_celery_app, wake_workers
from service.jobs.celery.migration import migrate
from service.jobs.celery.store import RedisStore
from service.jobs.celery.transport import TASK
from service.jobs.chunk_worker import ChunkWorker, Housekeeping, WorkerContext, worker_name
from service.jobs.errors import JobsUnavailable
from service.jobs.job_plan import JobConstraints
from service.parsing import RequestValidator
from service.resources.abstract import Computation
from service.resources.disputed import NO_RUNS, Runs, rests_on
from service.settings import Settings
from service.telemetry.audit import AuditStream
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracing

PERIOD_SECONDS: Final = 2.0
UNREADABLE: Final = "Redis has changed it, or it was sealed with another key"
MAX_MESSAGE_WAIT_SECONDS: Final = 6.0
"""Seconds without a message after which an idle worker starts by itself, if there are chunks to compute."""


def open_store(settings: Settings) -> RedisStore:
    """Return the storage of jobs in the Redis server that the settings name."""
    return RedisStore(_redis_url(settings), _authenticator(settings))


def run_worker(
    settings: Settings,
    *,
    limits: JobConstraints,
    engine_version: str,
    make_pool: Callable[[], WorkerPool],
    validate: RequestValidator,
    describe: Callable[[Exception], bytes],
    metrics: Metrics,
    logger: FilteringBoundLogger,
    audit: AuditStream | None = None,
    tracing: Tracing | None = None,
) -> int:
    """Compute chunks (ranges of points of jobs) until a signal stops the process, and return the exit code.

    `settings` name the Redis server, and `limits` are those of jobs. `make_pool` builds the processes that compute, and
    `describe` converts an error to a problem document. The exit code is that of the Celery consumer, or 1 if the
    computing thread ended because of an error.
    """

    def dropped(reason: str) -> None:
        metrics.count_bad_entry()
        logger.warning("jobs", state="message dropped", cause=reason)

    answers, store = SharedResultStore(settings, metrics, logger), open_store(settings)
    context = WorkerContext(
        repository=store,
        limits=limits,
        engine_version=engine_version,
        validate=validate,
        describe=describe,
        find_answer=answers.find,
        store_answer=answers.store,
        metrics=metrics,
        logger=logger,
        worker=worker_name(),
        disputed_runs=answers.disputed_runs,
        audit=audit,
        tracing=tracing,
    )
    app = make_celery_app(settings, engine_version, dropped)
    computing = ComputeThread(context, app, store, make_pool, answers.link)

    @app.task(name=TASK)
    def work() -> None:
        computing.compute_available()

    computing.start()
    signals.worker_shutting_down.connect(lambda **_: computing.stop(), weak=False)
    code = _run_consumer(app, settings.job_workers)
    computing.stop()
    computing.join()
    return code if computing.has_worked else 1


@final
class SharedResultStore:
    """Access of a worker to the result cache that all instances of the service share."""

    def __init__(self, settings: Settings, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self.link = RedisCircuitBreaker(_redis_url(settings), settings.redis_expensive_timeout_seconds, metrics, logger)
        self._cost_floor = settings.redis_cost_floor
        self._runs = NO_RUNS
        self._cache = RedisResultCache(
            self.link, ttl_seconds=settings.result_ttl_seconds, authenticator=_authenticator(settings), metrics=metrics
        )

    async def find(self, computation: Computation[Any, Any], digest: str) -> bytes | None:
        """Return the stored result of a resource with this request digest, or None.

        `computation` is the resource. The result is None if the entry is missing or forged, or if Redis is unavailable.
        Raise ResultQuarantined for a disputed result, and for a result with a number of a disputed run.
        """
        body = await self._cache.get(computation.name, digest)
        runs = NO_RUNS if body is None else await self.disputed_runs()
        if body == MARKER or (body is not None and runs and await asyncio.to_thread(rests_on, body, runs)):
            raise ResultQuarantined(digest)
        return body

    async def disputed_runs(self) -> Runs:
        """Return the digests of all disputed runs that this worker has read in the list that instances share."""
        self._runs |= await read_shared_runs(self._cache) or NO_RUNS
        return self._runs

    def store(self, computation: Computation[Any, Any], digest: str, body: bytes, cost: int, requester: str) -> None:
        """Enqueue the write of a result, and of a group as its owner, to Redis. Drop results below the cost floor.

        `body` is the response, `cost` its cost in microseconds of CPU time, and `requester` the owner.
        """
        if cost >= self._cost_floor:
            self._cache.put(computation.name, digest, body)
            if owner_of(requester) != ANONYMOUS_OWNER:
                self._cache.put_owner(entry_name(digest, requester))


@final
class ComputeThread:
    """Thread with the event loop of a worker. `has_worked` is False if the thread ended because of an error."""

    def __init__(
        self,
        context: WorkerContext,
        app: Celery,
        store: RedisStore,
        make_pool: Callable[[], WorkerPool],
        link: RedisCircuitBreaker,
    ) -> None:
        self.has_worked = True
        self._context = context
        self._app = app
        self._store = store
        self._make_pool = make_pool
        self._link = link
        self._housekeeping = Housekeeping(context)
        self._ready = threading.Event()
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting_since: float | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="computing")

    def start(self) -> None:
        """Start the thread without waiting for its processes."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, which returns its unfinished chunks to the queue. Further calls have no effect."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopped.set)

    def join(self) -> None:
        """Wait until the thread with the event loop of the worker has ended."""
        self._thread.join()

    def compute_available(self) -> None:
        """Compute chunks (ranges of points of jobs) until none waits.

        The calling Celery thread is blocked meanwhile.
        """
        self._ready.wait()
        with suppress(RuntimeError, CancelledError):
            asyncio.run_coroutine_threadsafe(self._compute_available(), self._loop).result()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except Exception as error:
            self._context.logger.error("jobs", state="worker ended", exc_info=error)
            self.has_worked = False
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            self._loop.close()
            self._ready.set()

    async def _main(self) -> None:
        await self._link.start()
        pool = self._make_pool()
        # The default executor may start 32 threads, which is more than a container may allow.
        self._loop.set_default_executor(ThreadPoolExecutor(2 * pool.worker_count + 4, "storage"))
        self._slots, self._chunk_worker = pool.worker_count, ChunkWorker(self._context, lambda: pool)
        try:
            await pool.start()
            self._ready.set()
            while not self._stopped.is_set():
                await self._tick()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), PERIOD_SECONDS)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await pool.close()
            await self._link.stop()

    async def _tick(self) -> None:
        # Housekeeping also tells whether chunks wait: without a message, this worker then begins by itself.
        try:
            has_work = await asyncio.to_thread(self._run_housekeeping)
        except Exception as error:  # noqa: BLE001 - two libraries raise their own errors while Redis is unavailable
            cause = getattr(error, "reason", type(error).__name__)
            self._context.logger.warning("jobs", state="unavailable", cause=cause)
            has_work = False
        now = self._loop.time()
        free = self._slots - len(self._tasks)
        if not has_work or free <= 0 or self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since > MAX_MESSAGE_WAIT_SECONDS:
            # After an outage of Redis, a Celery consumer may stop fetching messages for ever.
            self._context.logger.warning("jobs", state="worker begins by itself", cause="no message comes")
            for _ in range(free):
                self._tasks.add(self._loop.create_task(self._compute_available()))

    def _run_housekeeping(self) -> bool:
        migrate(self._store, self._context.logger)
        self._housekeeping.run()
        for name in self._store.unreadable_records():
            self._context.metrics.count_bad_entry()
            self._context.logger.error("jobs", state="record given up", job=name, cause=UNREADABLE)
        return wake_workers(self._app, self._store, self._context.engine_version)

    async def _compute_available(self) -> None:
        task = asyncio.current_task()
        if task is None or len(self._tasks - {task}) >= self._slots:
            return
        self._tasks.add(task)
        try:
            while not self._stopped.is_set() and await self._chunk_worker.process_next():
                pass
        except JobsUnavailable as error:
            self._context.logger.warning("jobs", state="unavailable", cause=error.reason)
        finally:
            self._tasks.discard(task)


def _redis_url(settings: Settings) -> str:
    return "" if settings.redis_url is None else settings.redis_url.get_secret_value()


def _authenticator(settings: Settings) -> EntryAuthenticator:
    return EntryAuthenticator([key.get_secret_value() for key in settings.seal_key])


def _run_consumer(app: Celery, threads: int) -> int:
    # A receiver of this signal replaces the logging setup of Celery, so that logging stays unchanged.
    signals.setup_logging.connect(lambda **_: None, weak=False)
    logging.getLogger("celery.worker").setLevel(logging.ERROR)
    main = app.Worker(
        pool="threads",
        concurrency=threads,
        loglevel="ERROR",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    main.start()
    return int(main.exitcode or 0)
