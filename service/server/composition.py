"""Composition of the services that routes use, from start to stop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from structlog.typing import FilteringBoundLogger

from service.api.dependencies import AppServices
from service.api.readiness import Readiness
from service.api.renderings import ChartRenderer, RenderingService
from service.api.request_reading import LARGEST_BODIES_AT_ONCE, LARGEST_UPLOADS_AT_ONCE
from service.engine_version import ENGINE_VERSION
from service.execution.cross_check import CrossChecker
from service.execution.entry_mac import EntryAuthenticator
from service.execution.leases import RedisLeases
from service.execution.memory_cache import InMemoryResultCache
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.resource_budget import ResourceBudget
from service.execution.result_cache import RedisResultCache
from service.execution.result_owners import ResultOwners
from service.execution.runner import ComputationRunner
from service.execution.shared_cache import SharedCache
from service.execution.shared_quarantine import share_quarantine
from service.execution.sibling_processes import SiblingProcesses, supervised_folder
from service.execution.stored_results import StoredResults
from service.execution.work_limits import WorkLimits
from service.execution.worker_pool import WorkerPool
from service.execution.workers import RESERVE_MEMORY_BYTES, RESERVE_SECONDS, Workers
from service.importers.catalogue import validate_with_imports
from service.preloaded import LOADED_FOR_PRICES
from service.rendering import chart_images
from service.self_test import REFERENCE_CASES
from service.server.cross_checks import LOWEST_PRIORITY, build_cross_checker, build_quarantine
from service.server.jobs import job_niceness, open_audit, run_jobs
from service.server.pools import build_admission, pool_factory
from service.settings import Settings
from service.telemetry.audit import AuditStream
from service.telemetry.loop_lag import measure_loop_lag
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from service.signing.verification import Signer

SECONDS_PER_DAY = 86_400
Entered = TypeVar("Entered")
LEASE_BEYOND_TIME_LIMIT_SECONDS = 5.0


@asynccontextmanager
async def run_services(
    settings: Settings,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    version: str,
    tracing: Tracing | None = None,
    *,
    are_results_private: bool = False,
) -> AsyncGenerator[AppServices]:
    """Start the services of an application, yield them, and stop them.

    `are_results_private`: callers have credentials, and read only results that their group has received.
    """
    make_pool = pool_factory(settings, metrics)
    pool = make_pool(worker_count=settings.worker_count, niceness=settings.worker_niceness)
    async with (
        _ended_aside(open_audit(settings, metrics, logger)) as audit,
        _run_work_limits(settings, metrics, logger) as work_limits,
        _connect_redis(settings, metrics, logger) as (link, shared),
    ):
        memory = InMemoryResultCache(settings.memory_cache_entries, settings.memory_cache_bytes)
        owners = ResultOwners(settings.memory_cache_entries, shared) if are_results_private else None
        siblings = _build_sibling_processes(memory, owners)
        workers = _build_workers(settings, metrics, pool, make_pool)
        signer = None if settings.signing_keys is None else _read_signer(settings.signing_keys)
        results = _build_results(settings, logger, memory, shared, siblings, owners, keeps_requests=signer is not None)
        runner = _build_runner(settings, results, workers, metrics, tracing)
        checking = make_pool(worker_count=1, niceness=LOWEST_PRIORITY)
        checker = build_cross_checker(settings, runner, checking, metrics, logger)
        board = _build_chart_renderer(settings, metrics)
        readiness = _build_readiness(settings, pool, link, results, audit)
        for_jobs = partial(make_pool, worker_count=settings.job_workers, niceness=job_niceness(settings))
        async with (
            _run_processes(workers, board, readiness, metrics),
            _run_exchange(siblings, checker, shared, results),
            run_jobs(settings, for_jobs, runner, metrics, logger, audit, tracing) as running_jobs,
        ):
            readiness.jobs = running_jobs.condition
            yield AppServices(
                settings=settings,
                runner=runner,
                renderings=RenderingService(runner, board, memory, settings.worker_count),
                upload_memory=_build_body_budget(LARGEST_UPLOADS_AT_ONCE * settings.max_upload_bytes, metrics),
                json_memory=_build_body_budget(LARGEST_BODIES_AT_ONCE * settings.max_body_bytes, metrics),
                readiness=readiness,
                jobs=running_jobs,
                validate=validate_with_imports,
                metrics=metrics,
                version=version,
                work_limits=work_limits,
                audit=audit,
                signer=signer,
            )


def _build_workers(
    settings: Settings, metrics: Metrics, pool: WorkerPool, make_pool: Callable[..., WorkerPool]
) -> Workers:
    reserve = make_pool(
        worker_count=1,
        niceness=settings.worker_niceness // 2,  # ahead of long work
        time_limit_seconds=min(settings.time_limit_seconds, RESERVE_SECONDS),
        memory_limit_bytes=min(settings.worker_memory_limit_bytes, RESERVE_MEMORY_BYTES),
    )
    admission = build_admission(settings, settings.worker_count, reserve_count=1)
    return Workers(
        pool,
        admission,
        reserve,
        on_change=lambda: metrics.queue_depth.set(admission.admitted),
        on_wait=metrics.observe_queue_wait,
    )


@asynccontextmanager
async def _run_processes(
    workers: Workers, board: ChartRenderer, readiness: Readiness, metrics: Metrics
) -> AsyncGenerator[None]:
    watching = asyncio.create_task(measure_loop_lag(metrics))
    try:
        await _preload(workers, readiness)
        yield
    finally:
        watching.cancel()
        await workers.close()
        await board.close()


@asynccontextmanager
async def _run_exchange(
    siblings: SiblingProcesses | None, checker: CrossChecker, shared: SharedCache | None, results: StoredResults
) -> AsyncGenerator[None]:
    async with (
        nullcontext() if siblings is None else siblings.serve(),
        checker.run(),
        nullcontext() if shared is None else share_quarantine(shared.cache, results.quarantine),
    ):
        yield


@asynccontextmanager
async def _ended_aside(block: AbstractContextManager[Entered]) -> AsyncGenerator[Entered]:
    # the end of the block may wait for a disk
    entered = block.__enter__()
    try:
        yield entered
    finally:
        await asyncio.to_thread(block.__exit__, None, None, None)


@asynccontextmanager
async def _run_work_limits(
    settings: Settings, metrics: Metrics, logger: FilteringBoundLogger
) -> AsyncGenerator[WorkLimits | None]:
    if settings.work_limit is None:
        yield None
        return
    url = None if settings.redis_url is None else settings.redis_url.get_secret_value()
    limits = WorkLimits(settings.work_limit, url, metrics, logger)
    try:
        yield limits
    finally:
        await limits.close()


@asynccontextmanager
async def _connect_redis(
    settings: Settings, metrics: Metrics, logger: FilteringBoundLogger
) -> AsyncGenerator[tuple[RedisCircuitBreaker | None, SharedCache | None]]:
    if settings.redis_url is None:
        yield None, None
        return
    link = RedisCircuitBreaker(settings.redis_url.get_secret_value(), settings.redis_timeout_seconds, metrics, logger)
    await link.start()
    shared = _build_shared_cache(settings, link, metrics)
    try:
        yield link, shared
    finally:
        await shared.cache.flush()
        await link.stop()


def _build_body_budget(size: int, metrics: Metrics) -> ResourceBudget:
    return ResourceBudget(size, partial(metrics.count_rejection, "share"))


def _build_results(
    settings: Settings,
    logger: FilteringBoundLogger,
    memory: InMemoryResultCache,
    shared: SharedCache | None,
    siblings: SiblingProcesses | None,
    owners: ResultOwners | None,
    *,
    keeps_requests: bool,
) -> StoredResults:
    return StoredResults(
        ENGINE_VERSION,
        memory,
        shared,
        siblings=siblings,
        owners=owners,
        quarantine=build_quarantine(settings, logger),
        keeps_requests=keeps_requests,
    )


def _build_runner(
    settings: Settings, results: StoredResults, workers: Workers, metrics: Metrics, tracing: Tracing | None
) -> ComputationRunner:
    return ComputationRunner(
        results=results,
        workers=workers,
        metrics=metrics,
        max_remembered_bodies=settings.memory_cache_entries,
        validate=validate_with_imports,
        tracing=tracing,
    )


def _build_readiness(
    settings: Settings,
    pool: WorkerPool,
    link: RedisCircuitBreaker | None,
    results: StoredResults,
    audit: AuditStream | None,
) -> Readiness:
    readiness = Readiness(
        REFERENCE_CASES, pool, link, are_results_shared=bool(settings.seal_key), quarantine=results.quarantine
    )
    readiness.audit_trouble = None if audit is None else audit.trouble
    return readiness


def _read_signer(path: Path) -> Signer:
    from service.signing.keys import read_signing_keys  # loads what only services with a key need
    from service.signing.verification import Signer

    return Signer(read_signing_keys(path))


def _build_sibling_processes(memory: InMemoryResultCache, owners: ResultOwners | None) -> SiblingProcesses | None:
    folder = supervised_folder()
    if folder is None:
        return None
    if owners is None:
        return SiblingProcesses(folder, memory.lookup)
    owners.siblings = SiblingProcesses(folder, owners.lookup_with(memory.lookup))
    return owners.siblings


async def _preload(workers: Workers, readiness: Readiness) -> None:
    # the first request then does not wait for the modules
    warming = asyncio.create_task(workers.start())
    await asyncio.to_thread(lambda: [import_module(name) for name in LOADED_FOR_PRICES])
    await asyncio.to_thread(readiness.report)
    await warming
    gc.freeze()  # what is loaded by now stays; collections need not look at it again


def _build_chart_renderer(settings: Settings, metrics: Metrics) -> ChartRenderer:
    pool = WorkerPool(
        worker_count=1,
        time_limit_seconds=min(settings.time_limit_seconds, chart_images.TIME_LIMIT_SECONDS),
        memory_limit_bytes=chart_images.MEMORY_LIMIT_BYTES,
        niceness=settings.worker_niceness,
        preloaded_modules=(chart_images.__name__,),
        metrics=metrics,
        warm_up=chart_images.warm_up,
    )
    return ChartRenderer(pool, Workers(pool, build_admission(settings, 1)))


def _build_shared_cache(settings: Settings, link: RedisCircuitBreaker, metrics: Metrics) -> SharedCache:
    cache = RedisResultCache(
        link,
        ttl_seconds=settings.result_ttl_seconds,
        ground_truth_ttl_seconds=settings.ground_truth_ttl * SECONDS_PER_DAY,
        authenticator=EntryAuthenticator([key.get_secret_value() for key in settings.seal_key]),
        metrics=metrics,
    )
    return SharedCache(
        cache=cache,
        leases=RedisLeases(link, cache),
        cost_floor=settings.redis_cost_floor,
        longest_lease_seconds=settings.time_limit_seconds + LEASE_BEYOND_TIME_LIMIT_SECONDS,
        expensive_timeout_seconds=settings.redis_expensive_timeout_seconds,
    )
