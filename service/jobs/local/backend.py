"""Backend of jobs of a single instance: an SQLite file, and worker processes that exist while there are active jobs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from service.execution.worker_pool import WorkerPool
from service.jobs.chunk_worker import FindAnswer, FindDisputedRuns, WorkerContext, worker_name
from service.jobs.job_plan import JobConstraints, StoreAnswer
from service.jobs.local.scheduler import LocalScheduler
from service.jobs.local.store import SqliteStore
from service.jobs.service import JobService
from service.parsing import RequestValidator
from service.telemetry.audit import AuditStream
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracing

PROMISES: Final = (
    "Accepted jobs are stored on disk. A job continues after a failure of a worker or of the service. Every "
    "point has one result.",
    "If a worker dies, another worker starts its piece again immediately, up to three times. A piece that "
    "exceeds a limit of time or memory is halved, down to single points. Such a point has a problem in place "
    "of an answer.",
    (
        "If the disk is full, the service rejects new jobs, and accepted jobs wait. The service answers all other "
        "requests."
    ),
)


@asynccontextmanager
async def local_jobs(
    *,
    folder: Path | None,
    temporary: Path | None = None,
    make_pool: Callable[[], WorkerPool],
    worker_count: int,
    engine_version: str,
    limits: JobConstraints,
    validate: RequestValidator,
    describe: Callable[[Exception], bytes],
    find_answer: FindAnswer,
    store_answer: StoreAnswer,
    disputed_runs: FindDisputedRuns,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    audit: AuditStream | None = None,
    tracing: Tracing | None = None,
) -> AsyncGenerator[JobService]:
    """Run the job backend of a single instance while the block runs, and yield the interface to its jobs.

    `make_pool` builds the worker processes, of which `worker_count` compute jobs. `limits` are those of jobs, and
    `validate` parses the JSON of a request. `folder` holds the file of jobs. Without it, jobs are kept in `temporary`,
    a folder that several processes share, or in a new folder that is removed at the end of the block. `describe`
    converts an error to a JSON problem document. `find_answer` and `store_answer` access the stored results of complete
    requests, and `disputed_runs` returns the digests of runs whose numbers are refused.
    """
    own = folder is None
    folder = folder or temporary or Path(tempfile.mkdtemp(prefix="privacy-bounds-"))
    store = SqliteStore(folder)
    context = WorkerContext(
        repository=store,
        limits=limits,
        engine_version=engine_version,
        validate=validate,
        describe=describe,
        find_answer=find_answer,
        store_answer=store_answer,
        metrics=metrics,
        logger=logger,
        worker=worker_name(),
        disputed_runs=disputed_runs,
        audit=audit,
        tracing=tracing,
    )
    dispatcher = LocalScheduler(store, folder, context, make_pool, worker_count)
    jobs = JobService(
        repository=store,
        limits=limits,
        about=limits.to_limits_response("embedded", PROMISES[1:] if own else PROMISES, survives_restart=not own),
        engine_version=engine_version,
        validate=validate,
        on_change=lambda _: dispatcher.wake(),
        metrics=metrics,
        condition=dispatcher.condition,
        tracing=tracing,
    )
    running = asyncio.create_task(dispatcher.run())
    try:
        yield jobs
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        jobs.close()
        await asyncio.to_thread(store.close)
        if own and temporary is None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
