"""Jobs of a cluster, as one instance of the service sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from structlog.typing import FilteringBoundLogger

from api_schemas.jobs import ENDED
from service.execution.request_body import Validate
from service.jobs.celery.cluster import make_cluster
from service.jobs.celery.keeper import Keeper
from service.jobs.celery.store import RedisStore
from service.jobs.celery.worker import sender, store_of
from service.jobs.errors import JobNotFound
from service.jobs.job import Job
from service.jobs.jobs import Condition, Jobs
from service.jobs.sizes import first_points
from service.jobs.work import Limits, work_of_job
from service.settings import Settings
from service.telemetry.metrics import Metrics

PROMISES: Final = (
    "A job that was accepted is in Redis, on whose append-only file it depends. It goes on when a worker, an instance "
    "of the service, or Redis is killed and comes back; every point has one result.",
    "A piece of a job whose worker dies is begun by another within 30 seconds, up to three times; a piece that takes "
    "too long or needs too much memory is halved, down to single points, which then have a problem in place of an "
    "answer.",
    "Small jobs pass large ones. What comes back from workers is sealed with a key that Redis does not know.",
    "While Redis does not answer, jobs are refused and everything else is answered.",
)


@asynccontextmanager
async def celery_jobs(
    settings: Settings,
    *,
    engine_version: str,
    limits: Limits,
    validate: Validate,
    metrics: Metrics,
    logger: FilteringBoundLogger,
) -> AsyncGenerator[Jobs]:
    """Jobs while the block runs."""
    store = store_of(settings)
    app = make_cluster(settings)
    keeper = Keeper(store, sender(app, limits), logger)
    filling: set[asyncio.Task[None]] = set()

    def fill(job: Job) -> None:
        if job.state in ENDED:
            return
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(_fill, keeper, job, logger))
        filling.add(task)
        task.add_done_callback(filling.discard)

    jobs = Jobs(
        repository=cast("Any", store),
        limits=limits,
        about=limits.told("celery", PROMISES, survives_restart=True),
        engine_version=engine_version,
        validate=validate,
        look=fill,
        metrics=metrics,
        condition=lambda: _condition(keeper.workers()),
    )
    keeper.start()
    renewing = asyncio.create_task(asyncio.to_thread(_begin_anew, store, engine_version, validate, logger))
    try:
        yield jobs
    finally:
        await asyncio.gather(*filling, renewing, return_exceptions=True)
        await asyncio.to_thread(keeper.stop)
        jobs.close()
        store.close()
        app.close()


def _condition(workers: int | None) -> Condition:
    if workers:
        return Condition(works=True, sentence=f"{workers} workers of the cluster are there")
    away = "Redis does not answer" if workers is None else "no worker is there: jobs are accepted, and wait"
    return Condition(works=False, sentence=away)


def _fill(keeper: Keeper, job: Job, logger: FilteringBoundLogger) -> None:
    """Put its first pieces on their way; where that fails, a keeper does it later."""
    try:
        keeper.fill(job.id)
    except Exception as error:  # noqa: BLE001 - Redis went away, in the words of two libraries; the job is kept
        logger.warning("jobs", state="unavailable", cause=type(error).__name__)


def _begin_anew(store: RedisStore, engine_version: str, validate: Validate, logger: FilteringBoundLogger) -> None:
    """All results of a job are of one version: those that another one left are begun anew by this one."""
    try:
        for name in store.active():
            try:
                job = store.get(name)
                if job.engine_version != engine_version:
                    work = work_of_job(job, store.request(name), validate)
                    renewed = Job(
                        **{field: getattr(job, field) for field in ("id", "resource", "cost", "total", "requester")},
                        **{
                            field: getattr(job, field) for field in ("created", "expires", "kept_seconds", "request_id")
                        },
                        digest=work.digest(engine_version),
                        engine_version=engine_version,
                    )
                    store.restart(renewed, first_points(job.cost, job.total, work.largest_piece))
            except JobNotFound:
                continue
    except Exception as error:  # noqa: BLE001 - one job that is none any more must not stop the service
        logger.warning("jobs", state="not begun anew", cause=type(error).__name__)
