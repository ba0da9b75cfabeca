"""What every worker of jobs does, whatever backend keeps them: claim a piece, compute it in a process, save its lines.

The process of a computation is ended when its piece takes too long or needs too much memory, and when nobody wants the
piece any more. The claim is renewed from outside that process, so that a computation which holds the interpreter for
seconds loses nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from structlog.typing import FilteringBoundLogger

from api_schemas.jobs import ENDED
from service.computations.abstract import Computation
from service.computations.violations import is_violation
from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.worker import WorkerResult
from service.execution.worker_pool import WorkerPool
from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import Piece, StoredJob
from service.jobs.lines import answer_in, failure_lines, line_of
from service.jobs.repository import ClaimedPiece, JobRepository
from service.jobs.sizes import LARGEST_TRIES, first_points, measured, next_points
from service.jobs.work import JobWork, Limits, StoreAnswer, work_of_job
from service.parsing import RequestValidator
from service.telemetry.metrics import Metrics

CLAIM_SECONDS: Final = 8.0
HEARTBEAT_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 1.0
PRESENT_SECONDS: Final = 15.0
"""A version is gone when none of its workers announced itself for so long. They do every two seconds."""
REMEMBERED: Final = 16
"""Requests that a worker holds as values."""

FindAnswer: TypeAlias = Callable[[Computation[Any, Any], str], Awaitable[bytes | None]]
"""Look a stored answer up: its computation and digest."""


class _Unwanted(Exception):
    """Nobody wants the piece any more."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What all workers of a process share. `describe`: an error as a problem in JSON; `find_answer`, `store_answer`:
    look up and store answers to whole requests; `worker`: name of this process.
    """

    repository: JobRepository
    limits: Limits
    engine_version: str
    validate: RequestValidator
    describe: Callable[[Exception], bytes]
    find_answer: FindAnswer
    store_answer: StoreAnswer
    metrics: Metrics
    logger: FilteringBoundLogger
    worker: str


@dataclass(eq=False, slots=True)
class RememberedJob:
    """A job as a worker remembers it between pieces. `seconds_per_point`: measured so far."""

    work: JobWork
    seconds_per_point: float | None = None


@final
class PieceWorker:
    """Computes one piece at a time in a process of a pool; several tasks may share one. `pool`: called for each piece
    that has to be computed.
    """

    def __init__(self, shop: Workshop, pool: Callable[[], WorkerPool]) -> None:
        self._shop = shop
        self._pool = pool
        self._known: OrderedDict[tuple[str, int], RememberedJob] = OrderedDict()

    async def work_once(self) -> bool:
        """Compute the next piece. Return False if there was none. Raises JobsUnavailable; cancelling gives the piece
        back.
        """
        shop = self._shop
        claim = await asyncio.to_thread(shop.repository.claim, shop.engine_version, shop.worker, CLAIM_SECONDS)
        if claim is None:
            return False
        try:
            await self._work_on(claim)
        except (_Unwanted, JobNotFound):
            pass
        except asyncio.CancelledError:
            with suppress(JobsUnavailable):  # else the claim runs out
                await asyncio.shield(asyncio.to_thread(shop.repository.requeue, claim, [claim.piece], claim.tries))
            raise
        return True

    async def _work_on(self, claim: ClaimedPiece) -> None:
        try:
            known = await self._known_job(claim.job)
            if claim.piece.points > known.work.largest_piece:  # of a file that an earlier version of the service wrote
                parts = _parts(claim.piece, known.work.largest_piece)
                await self._until_written(self._shop.repository.requeue, claim, parts, claim.tries)
                return
            computed = await self._computed(claim, known.work)
        except (_Unwanted, JobsUnavailable, JobNotFound):
            raise
        except (OutOfTime, OutOfMemory, WorkerDied) as error:
            if not await self._requeued(claim, error):
                await self._give_up(claim, error)
        except Exception as error:  # noqa: BLE001 - whatever a computation raises belongs to its points
            await self._give_up(claim, error)
        else:
            await self._keep(claim, known, computed)

    async def _known_job(self, job: StoredJob) -> RememberedJob:
        """The work of a job. Raises what is wrong with a request that another version accepted."""
        key = job.id, job.generation
        known = self._known.get(key)
        if known is None:
            known = RememberedJob(await asyncio.to_thread(_work_of, self._shop, job))
            self._known[key] = known
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known

    async def _computed(self, claim: ClaimedPiece, work: JobWork) -> WorkerResult:
        """The lines of a piece, stored or computed. Raises _Unwanted, and what WorkerPool.compute raises."""
        shop, piece, job = self._shop, claim.piece, claim.job
        if claim.tries >= LARGEST_TRIES:
            raise WorkerDied
        if work.computation.pieces is None:
            stored = await shop.find_answer(work.computation, job.digest)
            if stored is not None:
                return WorkerResult(line_of(stored), 0.0, 0.0, 0)
        task, request = await asyncio.to_thread(work.piece, piece)
        limit = work.limit_seconds(piece, shop.limits)
        computing = asyncio.ensure_future(self._pool().compute(task, request, job.digest, shop.engine_version, limit))
        try:
            while not (await asyncio.wait((computing,), timeout=HEARTBEAT_SECONDS))[0]:
                if not await self._is_wanted(claim):
                    raise _Unwanted
            return computing.result()
        finally:
            computing.cancel()  # ends the process, if it has not answered
            await asyncio.gather(computing, return_exceptions=True)

    async def _is_wanted(self, claim: ClaimedPiece) -> bool:
        try:
            return await asyncio.to_thread(self._shop.repository.renew, claim, CLAIM_SECONDS)
        except JobsUnavailable:
            return True  # who keeps jobs is away, and gives this piece to nobody else

    async def _keep(self, claim: ClaimedPiece, known: RememberedJob, computed: WorkerResult) -> None:
        shop, work, points = self._shop, known.work, claim.piece.points
        shop.metrics.count_violations(computed.violations)
        if computed.seconds:
            known.seconds_per_point = measured(known.seconds_per_point, computed.seconds, computed.cpu_seconds, points)
        size = next_points(points, known.seconds_per_point or 0.0, work.largest_piece)
        if work.computation.pieces is None:
            await self._hand_over(claim.job, work, computed.body)
        await self._until_written(shop.repository.save, claim, computed.body, size)
        shop.metrics.count_chunk("done", points)

    async def _hand_over(self, job: StoredJob, work: JobWork, lines: bytes) -> None:
        """Store the answer of a job of one request with answers to requests, and log its decision."""
        shop = self._shop
        body, decided = await asyncio.to_thread(answer_in, work.computation, lines)
        shop.store_answer(work.computation, job.digest, body, job.cost, job.requester)
        if decided is not None:
            shop.logger.info("decision", **_origin(job), **decided)

    async def _requeued(self, claim: ClaimedPiece, error: Exception) -> bool:
        """Whether the points of a piece that came to no end are tried once more, together or apart."""
        piece, tries = claim.piece, claim.tries + 1
        if isinstance(error, WorkerDied) and tries < LARGEST_TRIES:
            pieces: Sequence[Piece] = (piece,)
        elif piece.points > 1:
            pieces, tries = piece.halves(), 1
        else:
            return False
        self._report(claim, error, "piece begun again")
        self._shop.metrics.count_chunk("again", piece.points)
        await self._until_written(self._shop.repository.requeue, claim, pieces, tries)
        return True

    async def _give_up(self, claim: ClaimedPiece, error: Exception) -> None:
        """Give every point of a piece a problem for an answer."""
        shop, job, piece = self._shop, claim.job, claim.piece
        self._report(claim, error, "piece failed")
        shop.metrics.count_chunk("failed", piece.points)
        problem = shop.describe(error)
        known = self._known.get((job.id, job.generation))
        if known is None or known.work.computation.pieces is None:
            await self._until_written(shop.repository.fail, job.id, job.generation, problem)
        else:
            await self._until_written(shop.repository.save, claim, failure_lines(piece, problem), piece.points)

    def _report(self, claim: ClaimedPiece, error: Exception, state: str) -> None:
        """Count and log a failure inside a job."""
        shop, job = self._shop, claim.job
        shop.metrics.count_failure(job.resource, error)
        shop.metrics.count_violations(int(is_violation(error)))
        shop.logger.warning(
            "jobs",
            state=state,
            **_origin(job),
            resource=job.resource,
            digest=job.digest,
            points=claim.piece.points,
            tries=claim.tries,
            error=type(error).__name__,
            exc_info=error,
        )

    async def _until_written(self, write: Callable[..., StoredJob | None], *values: object) -> None:
        """Save what was computed, however long the storage is away: nothing is computed again."""
        while True:
            try:
                job = await asyncio.to_thread(write, *values)
            except JobsUnavailable as error:
                self._shop.logger.warning("jobs", state="waits to write", cause=error.reason)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                if job is not None and job.state in ENDED:
                    _ended(self._shop, job)
                return


@final
class Housekeeping:
    """What has to be done for all jobs now and then, by any worker."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop

    def run(self) -> None:
        """Remove what is too old or too much, announce this worker, and begin jobs anew whose version is gone. Blocks;
        raises JobsUnavailable.
        """
        shop = self._shop
        # Removal comes first: a storage without room refuses everything else.
        for job, error in shop.repository.purge(time.time(), shop.limits.quota, shop.limits.age_seconds):
            self._fail(job, error)
        shop.repository.announce(shop.worker, shop.engine_version)
        for job in shop.repository.orphans(shop.engine_version, PRESENT_SECONDS):
            try:
                self._begin_anew(job)
            except JobNotFound:
                continue

    def _begin_anew(self, job: StoredJob) -> None:
        shop = self._shop
        try:
            work = _work_of(shop, job)
        except (JobNotFound, JobsUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - another version accepted what is no request to this one
            self._fail(job, error)
            return
        size = first_points(job.cost, job.total, work.largest_piece)
        digest = work.digest(shop.engine_version)
        shop.repository.begin_anew(job.id, job.generation, shop.engine_version, digest, size)
        shop.logger.info("jobs", state="begun anew", **_origin(job), resource=job.resource, before=job.engine_version)

    def _fail(self, job: StoredJob, error: Exception) -> None:
        shop = self._shop
        shop.logger.warning("jobs", state="job ended", **_origin(job), resource=job.resource, exc_info=error)
        shop.metrics.count_failure(job.resource, error)
        failed = shop.repository.fail(job.id, job.generation, shop.describe(error))
        if failed.state == "failed":
            _ended(shop, failed)


def worker_name() -> str:
    """Return a name of this process that no other one has now."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _work_of(shop: Workshop, job: StoredJob) -> JobWork:
    return work_of_job(job, shop.repository.request(job.id), shop.validate)


def _parts(piece: Piece, most: int) -> list[Piece]:
    """Return pieces of at most so many points in place of one."""
    return [Piece(start, min(start + most, piece.stop)) for start in range(piece.start, piece.stop, most)]


def _origin(job: StoredJob) -> dict[str, str]:
    """Who sent a job, for the log."""
    return {"request_id": job.request_id, "requester": job.requester}


def _ended(shop: Workshop, job: StoredJob) -> None:
    shop.metrics.count_job_ended(job.resource, job.state)
    shop.logger.info("job", **_origin(job), job_state=job.state, resource=job.resource, points=job.total)
