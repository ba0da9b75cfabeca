"""Interface of jobs for the HTTP routes, independent of the backend that stores and computes jobs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, final

from api_schemas.jobs import ENDED, JobLimits, JobRequest
from api_schemas.problems import FieldError, field_errors
from service.execution.client import owner_of
from service.execution.errors import ComputeBudgetExceeded
from service.execution.resource_budget import Reservation, ResourceBudget
from service.execution.work_limits import WorkAccount
from service.execution.worker_admission import COST_UNITS_PER_SECOND
from service.jobs.chunk_sizing import initial_size
from service.jobs.errors import InvalidJob, JobNotFound, PageBeyondEnd
from service.jobs.job import ChunkResult, StoredJob, new_id
from service.jobs.job_plan import JobConstraints, JobPlan, parse_plan, resource_at, resource_path
from service.jobs.repository import JobRepository, Page
from service.jobs.results_codec import decompress
from service.parsing import InvalidRequest, RequestValidator, parse_request
from service.privacy.errors import PrivacyComputationError
from service.resources.abstract import Computation, Quote
from service.resources.digest import canonical_bytes, text_digest
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracing

REQUEST_POINTER: Final = "/request"
THREADS: Final = 4
POLL_SECONDS: Final = 0.5
MAX_EVENT_INTERVAL_SECONDS: Final = 1.5
"""Longest time between two events of a watched job, whether the job has changed or not."""
MAX_STREAMS: Final = 128
"""Largest number of connections that stream jobs, over all requesters."""

Found = TypeVar("Found")


@final
@dataclass(frozen=True, slots=True)
class Condition:
    """State of the job backend: whether jobs are computed by any process, and one sentence for operators."""

    works: bool
    sentence: str


@final
@dataclass(frozen=True, slots=True)
class Sender:
    """Origin of a job: requester for the quota, request id for the log, and value of Idempotency-Key or None.

    `account` counts the work of the requester; None: its work has no limit.
    """

    requester: str
    request_id: str
    key: str | None = None
    account: WorkAccount | None = None


@final
class JobService:
    """Service that accepts, reads and cancels jobs.

    `on_change` is called when a job was accepted or cancelled. `about` describes the backend and its guarantees to
    clients. `condition` returns whether jobs are computed.
    """

    def __init__(
        self,
        *,
        repository: JobRepository,
        limits: JobConstraints,
        about: JobLimits,
        engine_version: str,
        validate: RequestValidator,
        on_change: Callable[[StoredJob], Any],
        metrics: Metrics,
        condition: Callable[[], Condition],
        tracing: Tracing | None = None,
    ) -> None:
        self.limits = limits
        self.about = about
        self.condition = condition
        self.repository = repository
        self._engine_version = engine_version
        self._validate = validate
        self._on_change = on_change
        self._metrics = metrics
        self._tracing = tracing
        self._threads = ThreadPoolExecutor(THREADS, "jobs")
        self._streams = ResourceBudget(MAX_STREAMS, partial(metrics.count_rejection, "share"))

    def close(self) -> None:
        """Shut down the threads that access the storage. No method may be called afterwards."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def enqueue(self, plan: JobPlan, sent: bytes, quote: Quote, sender: Sender) -> StoredJob:
        """Store a request as a job, and return the job. Raise JobsError and ExecutionError.

        `plan` is the validated request, `sent` its JSON, and `quote` its estimated cost. The estimate is charged to the
        account of the sender, unless the job exists already.
        """
        parent = None if self._tracing is None else self._tracing.traceparent()
        if sender.account is None:
            return self._notify((await self._in_thread(self._enqueue, plan, sent, quote, sender, parent))[0])
        charge = await sender.account.charge(max(1, quote.cost))
        is_new = False
        try:
            job, is_new = await self._in_thread(self._enqueue, plan, sent, quote, sender, parent)
        finally:
            if not is_new:
                sender.account.settle(charge, 0)
        return self._notify(job)

    def parse(self, sent: bytes) -> tuple[JobPlan, bytes, Quote]:
        """Parse the body of a job. Return the validated request, its JSON, and its estimated cost.

        Nothing is computed. Raise RequestBodyError, JobsError and PrivacyComputationError.
        """
        read = parse_request(JobRequest, sent)
        computation = resource_at(read.resource)
        inner = json.dumps(read.request).encode()
        try:
            plan = parse_plan(computation, inner, self._validate)
        except InvalidRequest as error:
            raise InvalidJob(tuple(_in_request(each) for each in field_errors(error.validation))) from None
        try:
            return plan, inner, plan.quote
        except PrivacyComputationError as error:
            error.pointer = REQUEST_POINTER + error.pointer
            raise

    def largest_cost(self, computation: Computation[Any, Any]) -> int:
        """Return the largest cost in microseconds of CPU time that a job of this resource may have."""
        if computation.chunking is not None:
            return self.limits.cost
        return min(self.limits.cost, int(self.limits.single_seconds * COST_UNITS_PER_SECOND))

    async def get(self, job_id: str, requester: str) -> StoredJob:
        """Return the current state of the job `job_id`.

        Raise JobNotFound, also for the job of another owner than `requester`, and JobsUnavailable.
        """
        job = await self._in_thread(self.repository.get, job_id)
        if job.owner != owner_of(requester):
            raise JobNotFound
        return job

    async def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        """Return a page of at most `limit` jobs of a requester (group or address), newest first; None selects all.

        `cursor` is that of the previous page, or None for the first page. Raise InvalidCursor and JobsUnavailable.
        """
        return await self._in_thread(self.repository.list, requester, limit, cursor)

    async def cancel(self, job_id: str, requester: str) -> StoredJob:
        """Cancel the job `job_id`, unless it has ended, and return it.

        Raise JobNotFound, also for the job of another owner than `requester`, and JobsUnavailable.
        """
        await self.get(job_id, requester)
        job = await self._in_thread(self.repository.cancel, job_id)
        self._on_change(job)
        return job

    async def results(
        self, job_id: str, requester: str, start: int, most: int
    ) -> tuple[StoredJob, list[bytes], int | None]:
        """Return the job `job_id`, up to `most` result lines (JSON) from `start` on, and the next start.

        The next start is the first point of the next page, or None after the last point, and for an ended job without
        further results. The lines of an active job stop before the first missing point. Raise PageBeyondEnd,
        JobsUnavailable, and JobNotFound, also for the job of another owner than `requester`.
        """
        job = await self.get(job_id, requester)
        if start >= job.total:
            raise PageBeyondEnd(job.total)
        lines: list[bytes] = []
        place = start
        while len(lines) < most:
            found = await self._first_saved_lines(job_id, place)
            if found is None:
                break
            begin, _, chunk_lines = found
            if begin > place and job.state not in ENDED:
                break
            wanted = chunk_lines[: most - len(lines)]
            lines += wanted
            place = begin + len(wanted)
        else:
            return job, lines, place if place < job.total else None
        # No further lines: the end of the job, or points that an active job has not computed yet.
        return job, lines, place if place < job.total and job.state not in ENDED else None

    async def stream_results(self, job_id: str, requester: str, start: int) -> AsyncGenerator[list[bytes]]:
        """Yield the result lines (JSON) of all points from `start` on, as workers save them.

        The stream ends when the job has ended, and skips points that an ended job did not compute. Raise
        JobsUnavailable, and JobNotFound, also for the job of another owner than `requester`.
        """
        place = start
        while True:
            job = await self.get(job_id, requester)  # before the lines: the lines of an ended job are complete
            found = await self._first_saved_lines(job_id, place)
            if found is not None and (found[0] == place or job.state in ENDED):
                _, place, lines = found
                yield lines
            elif job.state in ENDED or place >= job.total:
                return
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def watch(self, job_id: str, requester: str, after: int) -> AsyncGenerator[StoredJob]:
        """Yield the state of the job `job_id` after each change since the revision `after`.

        A revision counts the changes of a job. Changes within 0.5 s may give one state. Without a change, the state is
        yielded every MAX_EVENT_INTERVAL_SECONDS (1.5 s). The last yielded state is that of the ended job. Raise
        JobsUnavailable, and JobNotFound, also for the job of another owner than `requester`.
        """
        loop = asyncio.get_running_loop()
        last_event = loop.time()
        while True:
            job = await self.get(job_id, requester)
            if job.revision != after or job.state in ENDED or loop.time() - last_event >= MAX_EVENT_INTERVAL_SECONDS:
                after, last_event = job.revision, loop.time()
                yield job
            if job.state in ENDED:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def wait_ended(self, job_id: str, requester: str, seconds: float) -> StoredJob:
        """Wait until the job `job_id` has ended, for at most `seconds`, and return its state then.

        Raise JobsUnavailable, and JobNotFound, also for the job of another owner than `requester`.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        pause = 0.02
        while True:
            job = await self.get(job_id, requester)
            left = until - loop.time()
            if job.state in ENDED or left <= 0:
                return job
            await asyncio.sleep(min(pause, left))
            pause = min(1.5 * pause, POLL_SECONDS)

    async def single_result(self, job_id: str) -> ChunkResult | None:
        """Return the result of a job that consists of a single request, or None.

        The result is None before the end of the job, and after it if the job failed or was cancelled. Raise
        JobNotFound.
        """
        found = await self._in_thread(self.repository.results, job_id, 0, 1)
        return found[0] if found else None

    def reserve_stream(self, requester: str) -> AbstractAsyncContextManager[Reservation]:
        """Reserve one of the limited streaming connections for `requester` while a block runs.

        Raise QueueFull, also within the block when the reservation is revoked.
        """
        return self._streams.reserve(requester, 1)

    def _enqueue(
        self, plan: JobPlan, sent: bytes, quote: Quote, sender: Sender, traceparent: str | None
    ) -> tuple[StoredJob, bool]:
        if plan.total > self.limits.points:
            sentence = f"A job may have at most {self.limits.points} points."
            raise InvalidJob((FieldError(pointer=REQUEST_POINTER, detail=sentence),))
        largest = self.largest_cost(plan.computation)
        if quote.minimum > largest:
            self._metrics.count_rejection("budget")
            raise ComputeBudgetExceeded(quote.minimum, largest)
        now = time.time()
        job = StoredJob(
            id=new_id(),
            resource=resource_path(plan.computation),
            digest=plan.digest(self._engine_version),
            engine_version=self._engine_version,
            cost=quote.cost,
            total=plan.total,
            created=now,
            expires=now + self.limits.age_seconds + self.limits.kept_seconds,
            kept_seconds=self.limits.kept_seconds,
            requester=sender.requester,
            request_id=sender.request_id,
            updated=now,
        )
        fingerprint = text_digest(canonical_bytes(job.resource, "", plan.request).decode()).encode()
        size = initial_size(job.cost, job.total, plan.max_chunk_points)
        if traceparent is not None:
            self.repository.keep_trace(job.id, traceparent)
        accepted = self.repository.add(job, sent, sender.key, fingerprint, self.limits.quota, size)
        if accepted is job:
            self._metrics.count_job_accepted(job.resource)
        return accepted, accepted is job

    def _notify(self, job: StoredJob) -> StoredJob:
        self._on_change(job)
        return job

    async def _first_saved_lines(self, job_id: str, place: int) -> tuple[int, int, list[bytes]] | None:
        def read() -> tuple[int, int, list[bytes]] | None:
            found = self.repository.results(job_id, place, 1)
            if not found:
                return None
            chunk = found[0].chunk
            begin = max(chunk.start, place)
            return begin, chunk.stop, decompress(found[0].lines).splitlines()[begin - chunk.start :]

        return await self._in_thread(read)

    async def _in_thread(self, call: Callable[..., Found], *values: Any) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *values))


def _in_request(error: FieldError) -> FieldError:
    return FieldError(pointer=REQUEST_POINTER + error.pointer, detail=error.detail)
