"""The only module that knows every room. Importing it starts nothing; `create_app` makes one application."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version as distribution_version

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from service.api import documentation, problem_responses
from service.api.dependencies import Services
from service.api.readiness import KNOWN_ANSWERS, Readiness
from service.api.routes import (
    audits,
    bounds,
    conversions,
    curves,
    discovery,
    membership_conversions,
    operations,
    pages,
    pmp_exponential,
    pmp_finite,
    pmp_gaussian,
    pmp_simulations,
    results,
)
from service.computations.catalogue import COMPUTATIONS
from service.engine_version import ENGINE_VERSION
from service.execution.admission import Admission
from service.execution.leases import RedisLeases
from service.execution.redis_link import RedisLink
from service.execution.result_cache import InMemoryResultCache, RedisResultCache
from service.execution.runner import ComputationRunner, SharedResults
from service.execution.upload_space import UploadSpace
from service.execution.worker_pool import WorkerPool
from service.settings import Settings
from service.telemetry.http import HttpTelemetry
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics

DISTRIBUTION = "privacy-bounds"
LONGEST_BODY_READ_AGAIN = 256 * 1024
SECONDS_PER_DAY = 86_400
LEASE_BEYOND_TIME_LIMIT_SECONDS = 5.0


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application; what it holds starts and stops with its lifespan."""
    version = distribution_version(DISTRIBUTION)
    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    logger = make_logger(settings.log_level)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, Services]]:
        async with _running(settings, metrics, version) as services:
            logger.info("started", version=version, engine_version=ENGINE_VERSION)
            yield {"services": services}
        logger.info("stopped")

    app = FastAPI(
        title="Privacy bounds",
        summary="Certified bounds on what an attacker can learn from a differentially private release.",
        version=version,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours, below
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    conversion = (conversions.ROUTE, membership_conversions.ROUTE)
    pmp = (pmp_exponential.ROUTE, pmp_finite.ROUTE, pmp_gaussian.ROUTE, pmp_simulations.ROUTE)
    app.router.routes[:0] = [bounds.ROUTE, curves.ROUTE, *conversion, *audits.ROUTES, *pmp]  # asked most, matched first
    for room in (results, discovery, operations, pages):
        app.include_router(room.router)
    documentation.install(app, tuple(computation.request_type for computation in COMPUTATIONS))
    problem_responses.install(app)
    app.add_middleware(
        HttpTelemetry,
        metrics=metrics,
        logger=logger,
        unknown_error=problem_responses.unknown_error,
    )
    return app


@asynccontextmanager
async def _running(settings: Settings, metrics: Metrics, version: str) -> AsyncGenerator[Services]:
    """The services of an application, from start to stop."""
    pool = WorkerPool(
        worker_count=settings.worker_count,
        time_limit_seconds=settings.time_limit_seconds,
        memory_limit_bytes=settings.worker_memory_limit_bytes,
        niceness=settings.worker_niceness,
        preloaded_modules=tuple(computation.function.__module__ for computation in COMPUTATIONS),
        metrics=metrics,
    )
    link: RedisLink | None = None
    shared: SharedResults | None = None
    if settings.redis_url is not None:
        link = RedisLink(settings.redis_url.get_secret_value(), settings.redis_timeout_seconds, metrics)
        await link.start()
        cache = RedisResultCache(
            link,
            ttl_seconds=settings.result_ttl_seconds,
            ground_truth_ttl_seconds=settings.ground_truth_ttl * SECONDS_PER_DAY,
            is_result=_is_result,
            metrics=metrics,
        )
        shared = SharedResults(
            cache=cache,
            leases=RedisLeases(link, cache),
            cost_floor=settings.redis_cost_floor,
            longest_lease_seconds=settings.time_limit_seconds + LEASE_BEYOND_TIME_LIMIT_SECONDS,
        )
    runner = ComputationRunner(
        engine_version=ENGINE_VERSION,
        memory=InMemoryResultCache(settings.memory_cache_entries, settings.memory_cache_bytes),
        shared=shared,
        pool=pool,
        admission=Admission(
            inline_cost_limit=settings.inline_cost_limit,
            max_cost=settings.max_cost,
            worker_count=settings.worker_count,
            queue_limit=settings.queue_limit,
            queue_wait_limit_seconds=settings.queue_wait_limit_seconds,
        ),
        metrics=metrics,
        known_bodies=settings.memory_cache_entries,
    )
    readiness = Readiness(KNOWN_ANSWERS, pool, link)
    readiness.report()  # loads everything that the first request would otherwise wait for
    gc.freeze()  # what is loaded by now stays; collections need not look at it again
    try:
        yield Services(
            settings=settings,
            runner=runner,
            uploads=UploadSpace(settings.max_upload_bytes),
            readiness=readiness,
            metrics=metrics,
            version=version,
        )
    finally:
        await pool.close()
        if shared is not None and link is not None:
            await shared.cache.settle()
            await link.stop()


def _is_result(computation: str, digest: str, body: bytes) -> bool:
    """Whether bytes from outside are the result that a digest names.

    The cache has found the bytes to be what somebody stored. Reading a long result would hold the event loop up, so of
    long ones only the beginning is read.
    """
    if not body.startswith(b'{"digest":"%s",' % digest.encode()):
        return False
    if len(body) > LONGEST_BODY_READ_AGAIN:
        return True
    response_type = next(known.response_type for known in COMPUTATIONS if known.name == computation)
    try:
        response_type.model_validate_json(body)
    except ValidationError:
        return False
    return True
