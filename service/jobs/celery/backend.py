"""Backend of jobs of a cluster for one instance of the service: jobs in Redis, computed by workers of Celery."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, final

from structlog.typing import FilteringBoundLogger

from api_schemas.jobs import ENDED
from service.jobs.celery.celery_app import make_celery_app, wake_workers
from service.jobs.celery.migration import migrate
from service.jobs.celery.store import WORKER_PRESENT_SECONDS, RedisStore
from service.jobs.celery.worker import PERIOD_SECONDS, open_store
from service.jobs.errors import JobsUnavailable
from service.jobs.job import StoredJob
from service.jobs.job_plan import JobConstraints
from service.jobs.service import Condition, JobService
from service.parsing import RequestValidator
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracing

PROMISES: Final = (
    "Redis stores accepted jobs in its append-only file. A job continues after a failure of a worker, of the "
    "service or of Redis. Every point has one result.",
    "If a worker dies, another worker starts its piece again within 30 seconds, up to three times. A piece "
    "that exceeds a limit of time or memory is halved, down to single points. Such a point has a problem in "
    "place of an answer.",
    "Clients take turns. The job of a client with the least computed work runs first. All results of a job "
    "have one engine version. Results of workers are sealed with a key that Redis does not have.",
    "While Redis does not respond, the service rejects jobs and answers all other requests.",
)

LOST: Final = "Redis came back without the jobs that it had"
SHOWN_SECONDS: Final = 600.0
ANSWERS: Final = ("Redis refuses", "the jobs in Redis")
"""First words of reasons that show that Redis responds."""


@asynccontextmanager
async def celery_jobs(
    settings: Settings,
    *,
    engine_version: str,
    limits: JobConstraints,
    validate: RequestValidator,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    tracing: Tracing | None = None,
) -> AsyncGenerator[JobService]:
    """Run the job backend of a cluster while the block runs, and yield the interface to its jobs.

    `settings` name the Redis server, `limits` are those of jobs, and `validate` parses the JSON of a request. Jobs
    belong to the `engine_version` that computes them. The block may start without Redis: `condition` of the interface
    says whether jobs are computed.
    """
    store = open_store(settings)
    app = make_celery_app(settings, engine_version, lambda _: None)
    watch = ClusterMonitor(store, metrics, logger)
    waking: set[asyncio.Task[Any]] = set()

    def look(job: StoredJob) -> None:
        if job.state in ENDED:
            return
        task = asyncio.create_task(
            asyncio.to_thread(watch.log_failure, partial(wake_workers, app, store, engine_version))
        )
        waking.add(task)
        task.add_done_callback(waking.discard)

    jobs = JobService(
        repository=store,
        limits=limits,
        about=limits.to_limits_response("celery", PROMISES, survives_restart=True),
        engine_version=engine_version,
        validate=validate,
        on_change=look,
        metrics=metrics,
        condition=watch.condition,
        tracing=tracing,
    )
    watching = asyncio.create_task(watch.run())
    try:
        yield jobs
    finally:
        watching.cancel()
        await asyncio.gather(*waking, watching, return_exceptions=True)
        jobs.close()
        store.close()
        app.close()


@final
class ClusterMonitor:
    """Monitor of a cluster: checks every two seconds which workers are alive and whether Redis lost its jobs."""

    def __init__(self, store: RedisStore, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self._store = store
        self._metrics = metrics
        self._logger = logger
        self._workers: int | None = None
        self._epoch: str | None = None
        self._lost_at: float | None = None
        self._refusal: str | None = None
        """Reason for which Redis responds but stores no jobs, or None."""

    def condition(self) -> Condition:
        """Return whether workers were present at the last check, with one sentence for operators.

        The condition also fails for SHOWN_SECONDS (10 minutes) after Redis came back without its jobs.
        """
        if self._workers is None and self._refusal is not None:
            return Condition(works=False, sentence=self._refusal)
        if self._workers is None:
            return Condition(works=False, sentence="Redis does not answer")
        if self._lost_at is not None and time.monotonic() - self._lost_at < SHOWN_SECONDS:
            return Condition(works=False, sentence=LOST)
        if not self._workers:
            return Condition(works=False, sentence="no worker is running: jobs are accepted and wait")
        return Condition(works=True, sentence=f"{self._workers} workers of the cluster are running")

    async def run(self) -> None:
        """Check the cluster periodically until the task is cancelled."""
        while True:
            if not await asyncio.to_thread(self.log_failure, self._check):
                self._workers = None
            await asyncio.sleep(PERIOD_SECONDS)

    def log_failure(self, call: Callable[[], object]) -> bool:
        """Run `call`, log an error that it raises, and return whether it raised none."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - Redis is away, in the words of two libraries
            self._logger.warning("jobs", state="unavailable", cause=getattr(error, "reason", type(error).__name__))
            return False
        return True

    def _check(self) -> None:
        try:
            self._check_jobs()
        except JobsUnavailable as error:
            self._refusal = error.reason if error.reason.startswith(ANSWERS) else None
            raise
        self._refusal = None

    def _check_jobs(self) -> None:
        migrate(self._store, self._logger)
        self._workers = len(self._store.present_workers(WORKER_PRESENT_SECONDS))
        epoch = self._store.epoch()
        if self._epoch not in (None, epoch):
            self._lost_at = time.monotonic()
            self._logger.error("jobs", state="lost", cause=LOST)
        self._epoch = epoch
        backlog = self._store.backlog()
        self._metrics.set_backlog(backlog.jobs, backlog.oldest)
