"""Worker of jobs for both backends: claim a chunk, compute it in a worker process, and save its results.

The process is killed when the chunk exceeds its time or memory limit, and when the claim becomes stale. The claim is
renewed outside that process, so that a computation that blocks its interpreter for seconds keeps its claim.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from structlog.typing import FilteringBoundLogger

from api_schemas.jobs import ENDED
from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.worker import WorkerResult
from service.execution.worker_pool import WorkerPool
from service.jobs.chunk_sizing import MAX_TRIES, initial_size, next_size, smoothed_seconds
from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import Chunk, StoredJob
from service.jobs.job_plan import JobConstraints, JobPlan, StoreAnswer, restore_plan
from service.jobs.repository import ClaimedChunk, JobRepository
from service.jobs.results_codec import failure_lines, response_line, stored_response_and_decision
from service.parsing import RequestValidator
from service.resources.abstract import Computation
from service.resources.disputed import Runs, guard
from service.resources.violations import is_violation
from service.telemetry.audit import AuditStream
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Attributes, Tracing, carrier_of

CLAIM_SECONDS: Final = 8.0
HEARTBEAT_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 1.0
WORKER_TIMEOUT_SECONDS: Final = 15.0
"""Seconds without an announcement after which a worker counts as gone. Workers announce themselves every 2 seconds."""
MAX_REMEMBERED_JOBS: Final = 16
"""Number of validated requests that a worker keeps in memory."""

FindAnswer: TypeAlias = Callable[[Computation[Any, Any], str], Awaitable[bytes | None]]
"""Function that returns the stored result of a computation with a digest, or None."""


FindDisputedRuns: TypeAlias = Callable[[], Awaitable[Runs]]
"""Function that returns the digests of disputed runs."""


class _ChunkNotNeeded(Exception):
    """Raised when the result of a chunk is not needed any more, because the claim on the chunk is stale."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """Dependencies that all workers of a process share.

    `describe` converts an error to a JSON problem document. `find_answer` and `store_answer` access the results of
    complete requests. `worker` is the name of this process. `disputed_runs` returns the digests of runs whose numbers
    are refused. `audit` is the audit stream, None if none is configured,
    and `tracing` records spans, None if traces are off.
    """

    repository: JobRepository
    limits: JobConstraints
    engine_version: str
    validate: RequestValidator
    describe: Callable[[Exception], bytes]
    find_answer: FindAnswer
    store_answer: StoreAnswer
    metrics: Metrics
    logger: FilteringBoundLogger
    worker: str
    disputed_runs: FindDisputedRuns
    audit: AuditStream | None = None
    tracing: Tracing | None = None


@dataclass(eq=False, slots=True)
class RememberedJob:
    """Validated request of a job, kept between two chunks (ranges of points) of the job.

    `seconds_per_point` is the mean of the measured times, or None before this process has computed a chunk of the job.
    """

    plan: JobPlan
    seconds_per_point: float | None = None


@final
class ChunkWorker:
    """Worker that computes chunks (ranges of points of jobs) in processes of a pool.

    Several tasks may use one instance. `pool()` returns the pool, and is called for each chunk that has to be computed.
    """

    def __init__(self, context: WorkerContext, pool: Callable[[], WorkerPool]) -> None:
        self._context = context
        self._pool = pool
        self._remembered: OrderedDict[tuple[str, int], RememberedJob] = OrderedDict()

    async def process_next(self) -> bool:
        """Claim and compute the next chunk (range of points of a job). Return False if no chunk waits.

        Cancelling the call returns the chunk to the queue. Raise JobsUnavailable.
        """
        context = self._context
        claim = await asyncio.to_thread(context.repository.claim, context.engine_version, context.worker, CLAIM_SECONDS)
        if claim is None:
            return False
        try:
            await self._process_traced(claim)
        except (_ChunkNotNeeded, JobNotFound):
            pass
        except asyncio.CancelledError:
            with suppress(JobsUnavailable):  # otherwise the claim expires
                await asyncio.shield(asyncio.to_thread(context.repository.requeue, claim, [claim.chunk], claim.tries))
            raise
        return True

    async def _process_traced(self, claim: ClaimedChunk) -> None:
        tracing, job = self._context.tracing, claim.job
        if tracing is None:
            await self._process(claim)
            return
        parent = await asyncio.to_thread(self._context.repository.trace_of, job.id)
        attributes: Attributes = {
            "privacy_bounds.resource": job.resource,
            "privacy_bounds.digest": job.digest,
            "privacy_bounds.points": claim.chunk.points,
            "privacy_bounds.tries": claim.tries,
        }
        with tracing.span("compute points of a job", attributes, carrier_of(parent), "consumer"):
            await self._process(claim)

    async def _process(self, claim: ClaimedChunk) -> None:
        try:
            remembered = await self._remembered_job(claim.job)
            if (
                claim.chunk.points > remembered.plan.max_chunk_points
            ):  # of a file that an earlier version of the service wrote
                parts = _split(claim.chunk, remembered.plan.max_chunk_points)
                await self._persist_when_available(self._context.repository.requeue, claim, parts, claim.tries)
                return
            computed = await self._find_or_compute(claim, remembered.plan)
        except (_ChunkNotNeeded, JobsUnavailable, JobNotFound):
            raise
        except (OutOfTime, OutOfMemory, WorkerDied) as error:
            if not await self._retry_or_split(claim, error):
                await self._fail_chunk(claim, error)
        except Exception as error:  # noqa: BLE001 - whatever a computation raises belongs to its points
            await self._fail_chunk(claim, error)
        else:
            await self._save_result(claim, remembered, computed)

    async def _remembered_job(self, job: StoredJob) -> RememberedJob:
        key = job.id, job.generation
        remembered = self._remembered.get(key)
        if remembered is None:
            remembered = RememberedJob(await asyncio.to_thread(_plan_of, self._context, job))
            self._remembered[key] = remembered
            if len(self._remembered) > MAX_REMEMBERED_JOBS:
                self._remembered.popitem(last=False)
        self._remembered.move_to_end(key)
        return remembered

    async def _find_or_compute(self, claim: ClaimedChunk, plan: JobPlan) -> WorkerResult:
        context, chunk, job = self._context, claim.chunk, claim.job
        if claim.tries >= MAX_TRIES:
            raise WorkerDied
        if plan.computation.chunking is None:
            stored = await context.find_answer(plan.computation, job.digest)
            if stored is not None:
                return WorkerResult(response_line(stored), 0.0, 0.0, 0)
        task, request = await asyncio.to_thread(plan.chunk_task, chunk)
        runs = await context.disputed_runs()
        limit = plan.time_limit_seconds(chunk, context.limits)
        computing = asyncio.ensure_future(
            self._pool().compute(guard(task, runs), request, job.digest, context.engine_version, limit)
        )
        try:
            while not (await asyncio.wait((computing,), timeout=HEARTBEAT_SECONDS))[0]:
                if not await self._renew_claim(claim):
                    raise _ChunkNotNeeded
            return computing.result()
        finally:
            computing.cancel()  # kills the process if it has not finished
            await asyncio.gather(computing, return_exceptions=True)

    async def _renew_claim(self, claim: ClaimedChunk) -> bool:
        try:
            return await asyncio.to_thread(self._context.repository.renew, claim, CLAIM_SECONDS)
        except JobsUnavailable:
            return True  # an unavailable storage does not dispatch the chunk to another worker

    async def _save_result(self, claim: ClaimedChunk, remembered: RememberedJob, computed: WorkerResult) -> None:
        context, plan, points = self._context, remembered.plan, claim.chunk.points
        context.metrics.count_violations(computed.violations)
        if computed.seconds:
            remembered.seconds_per_point = smoothed_seconds(
                remembered.seconds_per_point, computed.seconds, computed.cpu_seconds, points
            )
        size = next_size(points, remembered.seconds_per_point or 0.0, plan.max_chunk_points)
        if plan.computation.chunking is None:
            await self._store_single_result(claim.job, plan, computed.body)
        await self._persist_when_available(context.repository.save, claim, computed.body, size)
        context.metrics.count_chunk("done", points)

    async def _store_single_result(self, job: StoredJob, plan: JobPlan, lines: bytes) -> None:
        context = self._context
        body, decided = await asyncio.to_thread(stored_response_and_decision, plan.computation, lines)
        context.store_answer(plan.computation, job.digest, body, job.cost, job.requester)
        if decided is not None:
            context.logger.info("decision", **_log_origin(job), **decided)
            if context.audit is not None:
                context.audit.write(_decision_record(job, decided))

    async def _retry_or_split(self, claim: ClaimedChunk, error: Exception) -> bool:
        # requeued as a whole after the first two deaths of its process, as halves after the third death or an exceeded
        # limit
        chunk, tries = claim.chunk, claim.tries + 1
        if isinstance(error, WorkerDied) and tries < MAX_TRIES:
            chunks: Sequence[Chunk] = (chunk,)
        elif chunk.points > 1:
            chunks, tries = chunk.halves(), 1
        else:
            return False
        self._report_failure(claim, error, "piece begun again")
        self._context.metrics.count_chunk("again", chunk.points)
        await self._persist_when_available(self._context.repository.requeue, claim, chunks, tries)
        return True

    async def _fail_chunk(self, claim: ClaimedChunk, error: Exception) -> None:
        context, job, chunk = self._context, claim.job, claim.chunk
        self._report_failure(claim, error, "piece failed")
        context.metrics.count_chunk("failed", chunk.points)
        problem = context.describe(error)
        remembered = self._remembered.get((job.id, job.generation))
        if remembered is None or remembered.plan.computation.chunking is None:
            await self._persist_when_available(context.repository.fail, job.id, job.generation, problem)
        else:
            await self._persist_when_available(
                context.repository.save, claim, failure_lines(chunk, problem), chunk.points
            )

    def _report_failure(self, claim: ClaimedChunk, error: Exception, state: str) -> None:
        context, job = self._context, claim.job
        context.metrics.count_failure(job.resource, error)
        context.metrics.count_violations(int(is_violation(error)))
        context.logger.warning(
            "jobs",
            state=state,
            **_log_origin(job),
            resource=job.resource,
            digest=job.digest,
            points=claim.chunk.points,
            tries=claim.tries,
            error=type(error).__name__,
            exc_info=error,
        )

    async def _persist_when_available(self, write: Callable[..., StoredJob | None], *values: object) -> None:
        while True:
            try:
                job = await asyncio.to_thread(write, *values)
            except JobsUnavailable as error:
                self._context.logger.warning("jobs", state="waits to write", cause=error.reason)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                if job is not None and job.state in ENDED:
                    _report_end(self._context, job)
                return


@final
class Housekeeping:
    """Periodic maintenance of all jobs, which any worker may run."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    def run(self) -> None:
        """Remove expired jobs, announce this worker, and restart jobs of engine versions that no worker has.

        The call blocks. Raise JobsUnavailable.
        """
        context = self._context
        # Remove jobs first, because a full storage rejects all other changes.
        for job, error in context.repository.purge(time.time(), context.limits.quota, context.limits.age_seconds):
            self._fail(job, error)
        context.repository.announce(context.worker, context.engine_version)
        for job in context.repository.orphans(context.engine_version, WORKER_TIMEOUT_SECONDS):
            try:
                self._restart(job)
            except JobNotFound:
                continue

    def _restart(self, job: StoredJob) -> None:
        context = self._context
        try:
            plan = _plan_of(context, job)
        except (JobNotFound, JobsUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - another version accepted what is no request to this one
            self._fail(job, error)
            return
        size = initial_size(job.cost, job.total, plan.max_chunk_points)
        digest = plan.digest(context.engine_version)
        context.repository.restart(job.id, job.generation, context.engine_version, digest, size)
        context.logger.info(
            "jobs", state="begun anew", **_log_origin(job), resource=job.resource, before=job.engine_version
        )

    def _fail(self, job: StoredJob, error: Exception) -> None:
        context = self._context
        context.logger.warning("jobs", state="job ended", **_log_origin(job), resource=job.resource, exc_info=error)
        context.metrics.count_failure(job.resource, error)
        failed = context.repository.fail(job.id, job.generation, context.describe(error))
        if failed.state == "failed":
            _report_end(context, failed)


def worker_name() -> str:
    """Return the name of this worker process: host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _plan_of(context: WorkerContext, job: StoredJob) -> JobPlan:
    return restore_plan(job, context.repository.request(job.id), context.validate)


def _split(chunk: Chunk, most: int) -> list[Chunk]:
    return [Chunk(start, min(start + most, chunk.stop)) for start in range(chunk.start, chunk.stop, most)]


def _log_origin(job: StoredJob) -> dict[str, str]:
    return {"request_id": job.request_id, "requester": job.requester}


def _decision_record(job: StoredJob, decided: Mapping[str, Any]) -> dict[str, Any]:
    names = {"decision": decided["decision"], "verdict": decided["verdict"]}
    return {"event": "decision", **_log_origin(job), "resource": {"job_id": job.id}, "digest": job.digest, **names}


def _report_end(context: WorkerContext, job: StoredJob) -> None:
    context.metrics.count_job_ended(job.resource, job.state)
    context.logger.info("job", **_log_origin(job), job_state=job.state, resource=job.resource, points=job.total)
