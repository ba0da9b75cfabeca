"""Jobs as the routes see them, whatever backend keeps and computes them."""

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
from service.computations.abstract import Computation, Quote
from service.computations.digest import canonical_bytes, text_digest
from service.execution.errors import ComputeBudgetExceeded
from service.execution.resource_budget import Reservation, ResourceBudget
from service.execution.worker_admission import COST_UNITS_PER_SECOND
from service.jobs.errors import InvalidJob, PageBeyondEnd
from service.jobs.job import StoredJob, StoredPiece, new_id
from service.jobs.lines import unpacked
from service.jobs.repository import JobRepository, Page
from service.jobs.sizes import first_points
from service.jobs.work import JobWork, Limits, computation_at, name_of, work_of
from service.parsing import InvalidRequest, RequestValidator, parse_request
from service.privacy.errors import PrivacyComputationError
from service.telemetry.metrics import Metrics

WITHIN: Final = "/request"
THREADS: Final = 4
LOOKED_AFTER_SECONDS: Final = 0.5
TOLD_AFTER_SECONDS: Final = 1.5
"""Who follows a job hears of it at least this often, changed or not."""
LARGEST_STREAMS: Final = 128
"""Connections that follow jobs, of all requesters together."""

Found = TypeVar("Found")


@final
@dataclass(frozen=True, slots=True)
class Condition:
    """Whether jobs are computed now, and what an operator should know about it."""

    works: bool
    sentence: str


@final
@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a job: the requester, whose quota it uses; the id of the request, for the log; the Idempotency-Key."""

    requester: str
    request_id: str
    key: str | None = None


@final
class Jobs:
    """Accepts, reads and cancels jobs. `look`: called when a job was accepted or cancelled;
    `about`: which backend this is, and what it promises; `condition`: whether jobs are computed, and a sentence.
    """

    def __init__(
        self,
        *,
        repository: JobRepository,
        limits: Limits,
        about: JobLimits,
        engine_version: str,
        validate: RequestValidator,
        look: Callable[[StoredJob], Any],
        metrics: Metrics,
        condition: Callable[[], Condition],
    ) -> None:
        self.limits = limits
        self.about = about
        self.condition = condition
        self.repository = repository
        self._engine_version = engine_version
        self._validate = validate
        self._look = look
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(THREADS, "jobs")
        self._streams = ResourceBudget(LARGEST_STREAMS, partial(metrics.count_rejection, "share"))

    def close(self) -> None:
        """No more calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def accept(self, work: JobWork, sent: bytes, quote: Quote, sender: Sender) -> StoredJob:
        """Accept a request to a resource as it was sent, and was quoted. Raises JobsError, ExecutionError."""
        return self._accepted(await self._off_loop(self._accept, work, sent, quote, sender))

    def read(self, sent: bytes) -> tuple[JobWork, bytes, Quote]:
        """The work in a body, its request as it was sent, and what it costs; nothing is computed. Raises
        RequestBodyError, JobsError, PrivacyComputationError.
        """
        read = parse_request(JobRequest, sent)
        computation = computation_at(read.resource)
        inner = json.dumps(read.request).encode()
        try:
            work = work_of(computation, inner, self._validate)
        except InvalidRequest as error:
            raise InvalidJob(tuple(_within(each) for each in field_errors(error.validation))) from None
        try:
            return work, inner, work.quote
        except PrivacyComputationError as error:
            error.pointer = WITHIN + error.pointer
            raise

    def largest_cost(self, computation: Computation[Any, Any]) -> int:
        """The most that a job of this resource may surely cost."""
        if computation.pieces is not None:
            return self.limits.cost
        return min(self.limits.cost, int(self.limits.single_seconds * COST_UNITS_PER_SECOND))

    async def get(self, name: str) -> StoredJob:
        """A job as it is now. Raises JobNotFound, JobsUnavailable."""
        return await self._off_loop(self.repository.get, name)

    async def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        """Return jobs of a requester, or of all (None), newest first. Raises InvalidCursor, JobsUnavailable."""
        return await self._off_loop(self.repository.list, requester, limit, cursor)

    async def cancel(self, name: str) -> StoredJob:
        """End a job, if it has not ended. Raises JobNotFound, JobsUnavailable."""
        job = await self._off_loop(self.repository.cancel, name)
        self._look(job)
        return job

    async def results(self, name: str, start: int, most: int) -> tuple[StoredJob, list[bytes], int | None]:
        """The lines of up to `most` points from `start` on, and where the next ones begin; None at the end. Those of a
        job that has not ended go as far as no point is missing.

        Raises PageBeyondEnd, JobNotFound, JobsUnavailable.
        """
        job = await self.get(name)
        if start >= job.total:
            raise PageBeyondEnd(job.total)
        lines: list[bytes] = []
        place = start
        while len(lines) < most:
            found = await self._lines(name, place)
            if found is None:
                break
            begin, _, piece_lines = found
            if begin > place and job.state not in ENDED:
                break
            wanted = piece_lines[: most - len(lines)]
            lines += wanted
            place = begin + len(wanted)
        else:
            return job, lines, place if place < job.total else None
        # No more is there: the end, or what a running job has not yet.
        return job, lines, place if place < job.total and job.state not in ENDED else None

    async def follow(self, name: str, start: int) -> AsyncGenerator[list[bytes]]:
        """The lines of all points from `start` on in their order, as they come, until the job has ended."""
        place = start
        while True:
            job = await self.get(name)  # first: what is there when it has ended is all
            found = await self._lines(name, place)
            if found is not None and (found[0] == place or job.state in ENDED):
                _, place, lines = found
                yield lines
            elif job.state in ENDED or place >= job.total:
                return
            else:
                await asyncio.sleep(LOOKED_AFTER_SECONDS)

    async def changes(self, name: str, after: int) -> AsyncGenerator[StoredJob]:
        """The job whenever it has changed since revision `after`, and once in a while; ends with the job."""
        loop = asyncio.get_running_loop()
        told = loop.time()
        while True:
            job = await self.get(name)
            if job.revision != after or job.state in ENDED or loop.time() - told >= TOLD_AFTER_SECONDS:
                after, told = job.revision, loop.time()
                yield job
            if job.state in ENDED:
                return
            await asyncio.sleep(LOOKED_AFTER_SECONDS)

    async def ended(self, name: str, seconds: float) -> StoredJob:
        """The job when it has ended, or after so many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        pause = 0.02
        while True:
            job = await self.get(name)
            left = until - loop.time()
            if job.state in ENDED or left <= 0:
                return job
            await asyncio.sleep(min(pause, left))
            pause = min(1.5 * pause, LOOKED_AFTER_SECONDS)

    async def whole(self, name: str) -> StoredPiece | None:
        """The result of a job of one request."""
        found = await self._off_loop(self.repository.results, name, 0, 1)
        return found[0] if found else None

    def stream(self, requester: str) -> AbstractAsyncContextManager[Reservation]:
        """A place among those who follow jobs. Raises QueueFull, also in the block when the requester gives way."""
        return self._streams.reserve(requester, 1)

    def _accept(self, work: JobWork, sent: bytes, quote: Quote, sender: Sender) -> StoredJob:
        if work.total > self.limits.points:
            sentence = f"A job may have at most {self.limits.points} points."
            raise InvalidJob((FieldError(pointer=WITHIN, detail=sentence),))
        largest = self.largest_cost(work.computation)
        if quote.least > largest:
            self._metrics.count_rejection("budget")
            raise ComputeBudgetExceeded(quote.least, largest)
        now = time.time()
        job = StoredJob(
            id=new_id(),
            resource=name_of(work.computation),
            digest=work.digest(self._engine_version),
            engine_version=self._engine_version,
            cost=quote.cost,
            total=work.total,
            created=now,
            expires=now + self.limits.age_seconds + self.limits.kept_seconds,
            kept_seconds=self.limits.kept_seconds,
            requester=sender.requester,
            request_id=sender.request_id,
            updated=now,
        )
        fingerprint = text_digest(canonical_bytes(job.resource, "", work.request).decode()).encode()
        size = first_points(job.cost, job.total, work.largest_piece)
        accepted = self.repository.add(job, sent, sender.key, fingerprint, self.limits.quota, size)
        if accepted is job:
            self._metrics.count_job_accepted(job.resource)
        return accepted

    def _accepted(self, job: StoredJob) -> StoredJob:
        self._look(job)
        return job

    async def _lines(self, name: str, place: int) -> tuple[int, int, list[bytes]] | None:
        """The first lines from this place on, and where they begin and end."""

        def read() -> tuple[int, int, list[bytes]] | None:
            found = self.repository.results(name, place, 1)
            if not found:
                return None
            piece = found[0].piece
            begin = max(piece.start, place)
            return begin, piece.stop, unpacked(found[0].lines).splitlines()[begin - piece.start :]

        return await self._off_loop(read)

    async def _off_loop(self, call: Callable[..., Found], *values: Any) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *values))


def _within(error: FieldError) -> FieldError:
    return FieldError(pointer=WITHIN + error.pointer, detail=error.detail)
