"""The only module that knows every room. Importing it starts nothing; `create_app` makes one application."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib import import_module
from importlib.metadata import version as distribution_version
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from service.api import problem_responses
from service.api.connections import Connections
from service.api.dependencies import AppServices
from service.api.fast_routes import FastPathApplication
from service.api.head_as_get import HeadAsGet
from service.api.jobs import routes as job_routes
from service.api.openapi import document
from service.api.operators import operator_application
from service.api.readiness import Readiness
from service.api.renderings import ChartRenderer, RenderingService
from service.api.request_reading import LARGEST_BODIES_AT_ONCE, LARGEST_UPLOADS_AT_ONCE
from service.api.routes import (
    computations,
    decisions,
    discovery,
    documentation_pages,
    explorer_page,
    operations,
    results,
)
from service.computations.catalogue import resources
from service.engine_version import ENGINE_VERSION
from service.execution.client import requester_from_scope
from service.execution.entry_mac import EntryAuthenticator
from service.execution.leases import RedisLeases
from service.execution.memory_cache import InMemoryResultCache
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.resource_budget import ResourceBudget
from service.execution.result_cache import RedisResultCache
from service.execution.runner import ComputationRunner
from service.execution.shared_cache import SharedCache
from service.execution.sibling_processes import SiblingProcesses, supervised_folder
from service.execution.worker_admission import WorkerAdmission
from service.execution.worker_pool import WorkerPool
from service.execution.workers import RESERVE_MEMORY_BYTES, RESERVE_SECONDS, Workers
from service.importers.catalogue import validate_with_imports
from service.jobs.job_plan import JobConstraints
from service.jobs.local.backend import local_jobs
from service.jobs.service import JobService
from service.preloaded import LOADED_FOR_PRICES, preloaded_modules
from service.problems import problem_of
from service.rendering import chart_images
from service.self_test import REFERENCE_CASES, warm_up
from service.server.draining import DrainingServer, serve_on_socket
from service.settings import Settings
from service.telemetry.http import HttpTelemetry
from service.telemetry.logs import make_logger
from service.telemetry.loop_lag import measure_loop_lag
from service.telemetry.metrics import Metrics
from service.telemetry.metrics_server import serve_metrics

if TYPE_CHECKING:
    import socket

DISTRIBUTION = "privacy-bounds"
SECONDS_PER_DAY = 86_400
LEASE_BEYOND_TIME_LIMIT_SECONDS = 5.0
LARGEST_NICENESS, NICER = 19, 5

DESCRIPTION = (
    "A request says what a training run or a release did with the data; every answer is a number with two ends, and it "
    "is proved that the truth lies between them. The guide of a running service is at `/guide`: how to read an answer, "
    "which request to send, and why the numbers may be believed."
)


def create_app(settings: Settings, operators: socket.socket | None = None) -> FastAPI:
    """The service as an ASGI application; what it holds starts and stops with its lifespan. `operators`: the socket
    on which they are served meanwhile.
    """
    version = distribution_version(DISTRIBUTION)
    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    logger = make_logger(settings.log_level)
    draining = Event()
    telemetry = partial(
        HttpTelemetry,
        metrics=metrics,
        logger=logger,
        unknown_error=problem_responses.unknown_error,
        cancelled=problem_responses.shutting_down,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, AppServices]]:
        async with _running(settings, metrics, logger, version) as services:
            services.readiness.is_draining = draining.is_set
            by_operator = partial(telemetry, requester_of=lambda _: "operator")
            async with serve_on_socket(operator_application(services, by_operator), operators):
                logger.info("started", version=version, engine_version=ENGINE_VERSION)
                yield {"services": services}
        logger.info("stopped")

    app = _framework(version, lifespan)
    offered = resources()
    app.router.routes[:0] = map(computations.route_of, offered)  # asked most, matched first
    people = (explorer_page.router, documentation_pages.router(*documentation_pages.GUIDE))
    stored = (results.router(offered), decisions.router)
    ready = operations.details_router if settings.operator_bind is None else operations.verdict_router
    for router in (job_routes.router, *stored, discovery.router(offered), operations.router, ready, *people):
        app.include_router(router)
    document.install(app, tuple(computation.request_type for computation in offered))
    problem_responses.install(app)
    app.add_middleware(HeadAsGet)
    by_address = partial(telemetry, requester_of=requester_from_scope)
    app.add_middleware(by_address)
    app.enable_fast_path(by_address)
    app.state.metrics = metrics  # for the server, which counts what never comes as far as the application
    app.state.draining = draining
    return app


def _framework(
    version: str, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[dict[str, AppServices]]]
) -> FastPathApplication:
    return FastPathApplication(
        title="Privacy bounds",
        summary="Certified bounds on what an attacker can learn from a differentially private release.",
        description=DESCRIPTION,
        version=version,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=document.TAGS,
        openapi_url=None,  # the published document is a file of the package
        lifespan=lifespan,
        docs_url=None,  # ours loads nothing from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours, below
        generate_unique_id_function=lambda route: route.name,
    )


def create_server(settings: Settings, host: str, port: int, operators: socket.socket | None = None) -> uvicorn.Server:
    """The server of the application, with the limits on connections."""
    app = create_app(settings, operators)
    connections = Connections(settings, app.state.metrics)
    configuration = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=cast("Any", connections.protocol),
        ws="none",
        access_log=False,  # one event per request is written by the service itself, with what uvicorn cannot know
        log_config=None,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_timeout_seconds,
    )
    return DrainingServer(configuration, settings.drain_seconds, app.state.draining)


@asynccontextmanager
async def _running(
    settings: Settings, metrics: Metrics, logger: FilteringBoundLogger, version: str
) -> AsyncGenerator[AppServices]:
    """The services of an application, from start to stop."""
    make_pool = _pool_maker(settings, metrics)
    refused = partial(metrics.count_rejection, "share")
    pool = make_pool(worker_count=settings.worker_count, niceness=settings.worker_niceness)
    reserve = make_pool(
        worker_count=1,
        niceness=settings.worker_niceness // 2,  # ahead of long work
        time_limit_seconds=min(settings.time_limit_seconds, RESERVE_SECONDS),
        memory_limit_bytes=min(settings.worker_memory_limit_bytes, RESERVE_MEMORY_BYTES),
    )
    async with _redis(settings, metrics, logger) as (link, shared):
        memory = InMemoryResultCache(settings.memory_cache_entries, settings.memory_cache_bytes)
        admission = _admission(settings, settings.worker_count, reserve_count=1)
        siblings = _siblings(memory)
        workers = Workers(pool, admission, reserve, lambda: metrics.queue_depth.set(admission.admitted))
        runner = _runner(settings, memory, shared, siblings, workers, metrics)
        board = _drawing_board(settings, metrics)
        readiness = Readiness(REFERENCE_CASES, pool, link, are_results_shared=bool(settings.seal_key))
        watching = asyncio.create_task(measure_loop_lag(metrics))
        try:
            await _warmed(workers, readiness)
            for_jobs = partial(make_pool, worker_count=settings.job_workers, niceness=job_niceness(settings))
            async with (
                nullcontext() if siblings is None else siblings.serve(),
                _jobs(settings, for_jobs, runner, metrics, logger) as running_jobs,
            ):
                readiness.jobs = running_jobs.condition
                yield AppServices(
                    settings=settings,
                    runner=runner,
                    renderings=RenderingService(runner, board, memory, settings.worker_count),
                    upload_memory=ResourceBudget(LARGEST_UPLOADS_AT_ONCE * settings.max_upload_bytes, refused),
                    json_memory=ResourceBudget(LARGEST_BODIES_AT_ONCE * settings.max_body_bytes, refused),
                    readiness=readiness,
                    jobs=running_jobs,
                    validate=validate_with_imports,
                    metrics=metrics,
                    version=version,
                )
        finally:
            watching.cancel()
            await workers.close()
            await board.close()


@asynccontextmanager
async def _redis(
    settings: Settings, metrics: Metrics, logger: FilteringBoundLogger
) -> AsyncGenerator[tuple[RedisCircuitBreaker | None, SharedCache | None]]:
    """The link to Redis and what is shared through it, where one is set."""
    if settings.redis_url is None:
        yield None, None
        return
    link = RedisCircuitBreaker(settings.redis_url.get_secret_value(), settings.redis_timeout_seconds, metrics, logger)
    await link.start()
    shared = _shared_results(settings, link, metrics)
    try:
        yield link, shared
    finally:
        await shared.cache.flush()
        await link.stop()


def _runner(
    settings: Settings,
    memory: InMemoryResultCache,
    shared: SharedCache | None,
    siblings: SiblingProcesses | None,
    workers: Workers,
    metrics: Metrics,
) -> ComputationRunner:
    return ComputationRunner(
        engine_version=ENGINE_VERSION,
        memory=memory,
        shared=shared,
        siblings=siblings,
        workers=workers,
        metrics=metrics,
        max_remembered_bodies=settings.memory_cache_entries,
        validate=validate_with_imports,
    )


def _siblings(memory: InMemoryResultCache) -> SiblingProcesses | None:
    folder = supervised_folder()
    return None if folder is None else SiblingProcesses(folder, memory.lookup)


def _admission(settings: Settings, worker_count: int, reserve_count: int = 0) -> WorkerAdmission:
    return WorkerAdmission(
        max_cost=settings.max_cost,
        worker_count=worker_count,
        reserve_count=reserve_count,
        queue_limit=settings.queue_limit,
        queue_wait_limit_seconds=settings.queue_wait_limit_seconds,
    )


def _pool_maker(settings: Settings, metrics: Metrics) -> Callable[..., WorkerPool]:
    """Make pools of workers with the limits of the settings; how many workers and how nice is left open."""
    return partial(
        WorkerPool,
        time_limit_seconds=settings.time_limit_seconds,
        memory_limit_bytes=settings.worker_memory_limit_bytes,
        preloaded_modules=preloaded_modules(),
        metrics=metrics,
        warm_up=warm_up,
    )


async def _warmed(workers: Workers, readiness: Readiness) -> None:
    """Load, here and in the workers at once, what the first request would otherwise wait for."""
    warming = asyncio.create_task(workers.start())
    await asyncio.to_thread(lambda: [import_module(name) for name in LOADED_FOR_PRICES])
    await asyncio.to_thread(readiness.report)
    await warming
    gc.freeze()  # what is loaded by now stays; collections need not look at it again


def _jobs(
    settings: Settings,
    make_pool: Callable[[], WorkerPool],
    runner: ComputationRunner,
    metrics: Metrics,
    logger: FilteringBoundLogger,
) -> AbstractAsyncContextManager[JobService]:
    """Jobs, by the backend that the settings name."""
    if settings.jobs_backend == "celery":
        from service.jobs.celery.backend import celery_jobs

        return celery_jobs(
            settings,
            engine_version=ENGINE_VERSION,
            limits=job_limits(settings),
            validate=validate_with_imports,
            metrics=metrics,
            logger=logger,
        )
    return local_jobs(
        folder=settings.data_folder,
        temporary=supervised_folder(),
        make_pool=make_pool,
        worker_count=settings.job_workers,
        engine_version=ENGINE_VERSION,
        limits=job_limits(settings),
        validate=validate_with_imports,
        describe=describe,
        find_answer=lambda computation, digest: runner.find_stored((computation.name,), digest),
        store_answer=runner.store,
        metrics=metrics,
        logger=logger,
    )


def run_worker(settings: Settings) -> int:
    """Compute pieces of the jobs of a cluster until a signal comes."""
    from service.jobs.celery.worker import run_worker as run

    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    with serve_metrics(settings.operator_address, metrics.exposition):
        return run(
            settings,
            limits=job_limits(settings),
            engine_version=ENGINE_VERSION,
            make_pool=partial(
                _pool_maker(settings, metrics), worker_count=settings.job_workers, niceness=job_niceness(settings)
            ),
            validate=validate_with_imports,
            describe=describe,
            metrics=metrics,
            logger=make_logger(settings.log_level),
        )


def job_niceness(settings: Settings) -> int:
    """Behind those that somebody waits for."""
    return min(settings.worker_niceness + NICER, LARGEST_NICENESS)


def job_limits(settings: Settings) -> JobConstraints:
    """What a job may be."""
    return JobConstraints(
        points=settings.job_points,
        cost=settings.job_max_cost,
        single_seconds=settings.job_time_limit_seconds,
        point_seconds=settings.time_limit_seconds,
        at_once=settings.jobs_at_once,
        kept_seconds=settings.job_ttl_seconds,
        age_seconds=settings.job_age_limit_seconds,
        stored_bytes=settings.job_stored_bytes,
    )


def describe(error: Exception) -> bytes:
    """Why a job, or a point of it, has no answer: a problem in JSON."""
    return problem_of(error, instance="", request_id="").json_bytes()


def _drawing_board(settings: Settings, metrics: Metrics) -> ChartRenderer:
    """What draws pictures: one process, which starts with the first of them."""
    pool = WorkerPool(
        worker_count=1,
        time_limit_seconds=min(settings.time_limit_seconds, chart_images.TIME_LIMIT_SECONDS),
        memory_limit_bytes=chart_images.MEMORY_LIMIT_BYTES,
        niceness=settings.worker_niceness,
        preloaded_modules=(chart_images.__name__,),
        metrics=metrics,
        warm_up=chart_images.warm_up,
    )
    return ChartRenderer(pool, Workers(pool, _admission(settings, 1)))


def _shared_results(settings: Settings, link: RedisCircuitBreaker, metrics: Metrics) -> SharedCache:
    """What this instance shares with others through Redis."""
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
