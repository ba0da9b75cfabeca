"""Jobs of the service: the backend that the settings select, and the worker process of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from service.engine_version import ENGINE_VERSION
from service.execution.runner import ComputationRunner
from service.execution.sibling_processes import supervised_folder
from service.execution.worker_pool import WorkerPool
from service.importers.catalogue import validate_with_imports
from service.jobs.job_plan import JobConstraints
from service.jobs.local.backend import local_jobs
from service.jobs.service import JobService
from service.problems import problem_of
from service.resources.disputed import Runs
from service.server.access import metrics_guard
from service.server.pools import pool_factory
from service.server.tracing import make_tracing
from service.settings import Settings
from service.telemetry.audit import AuditStream
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics
from service.telemetry.metrics_server import serve_metrics
from service.telemetry.tracing import Tracing

LARGEST_NICENESS, NICER = 19, 5


def run_jobs(
    settings: Settings,
    make_pool: Callable[[], WorkerPool],
    runner: ComputationRunner,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    audit: AuditStream | None = None,
    tracing: Tracing | None = None,
) -> AbstractAsyncContextManager[JobService]:
    """Return the context in which jobs run, with the backend of the settings. It yields the service of jobs."""
    if settings.jobs_backend == "celery":
        from service.jobs.celery.backend import celery_jobs

        return celery_jobs(
            settings,
            engine_version=ENGINE_VERSION,
            limits=_job_constraints(settings),
            validate=validate_with_imports,
            metrics=metrics,
            logger=logger,
            tracing=tracing,
        )

    async def disputed_runs() -> Runs:
        return runner.results.quarantine.runs

    return local_jobs(
        folder=settings.data_folder,
        temporary=supervised_folder(),
        make_pool=make_pool,
        worker_count=settings.job_workers,
        engine_version=ENGINE_VERSION,
        limits=_job_constraints(settings),
        validate=validate_with_imports,
        describe=serialize_problem,
        find_answer=lambda computation, digest: runner.results.find((computation.name,), digest),
        store_answer=runner.results.store,
        disputed_runs=disputed_runs,
        metrics=metrics,
        logger=logger,
        audit=audit,
        tracing=tracing,
    )


def run_worker(settings: Settings) -> int:
    """Compute chunks (consecutive points) of the jobs of a cluster until a signal arrives. Return the exit code."""
    from service.jobs.celery.worker import run_worker as run

    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    logger = make_logger(settings.log_level)
    with (
        serve_metrics(settings.operator_address, metrics.exposition, metrics_guard(settings)),
        open_audit(settings, metrics, logger) as audit,
        make_tracing(settings, "worker") as tracing,
    ):
        return run(
            settings,
            limits=_job_constraints(settings),
            engine_version=ENGINE_VERSION,
            make_pool=partial(
                pool_factory(settings, metrics), worker_count=settings.job_workers, niceness=job_niceness(settings)
            ),
            validate=validate_with_imports,
            describe=serialize_problem,
            metrics=metrics,
            logger=logger,
            audit=audit,
            tracing=tracing,
        )


@contextmanager
def open_audit(settings: Settings, metrics: Metrics, logger: FilteringBoundLogger) -> Generator[AuditStream | None]:
    """Write the audit stream while the block runs, and yield it; None: the settings have no stream.

    Records that still wait are written for at most five seconds after the block.
    """
    if settings.audit_log is None:
        yield None
        return
    audit = AuditStream(settings.audit_log, metrics, logger)
    audit.start()
    try:
        yield audit
    finally:
        audit.close()


def job_niceness(settings: Settings) -> int:
    """Return the niceness of job workers: 5 more than that of the workers that clients wait for, and at most 19."""
    return min(settings.worker_niceness + NICER, LARGEST_NICENESS)


def _job_constraints(settings: Settings) -> JobConstraints:
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


def serialize_problem(error: Exception) -> bytes:
    """Return the problem of a job or of one of its points as JSON."""
    return problem_of(error, instance="", request_id="").json_bytes()
