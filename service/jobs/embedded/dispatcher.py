"""Computes jobs in worker processes of this instance, a piece at a time.

Of several services with one data folder one computes: who holds the lock on the folder, which the kernel gives to the
next when that one ends. What is computed is decided by what the file says is missing, so that a restart needs to
remember nothing. Workers are there while there is a job, apart from those that clients wait for, and behind them in
the eyes of the scheduler.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar, final

from structlog.typing import FilteringBoundLogger

from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.request_body import Validate
from service.execution.worker_pool import WorkerPool
from service.jobs.embedded.store import SqliteStore
from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import Job, Kept, Piece
from service.jobs.lines import answer_in, failure_lines
from service.jobs.sizes import LARGEST_TRIES, first_points, measured, next_points, urgency
from service.jobs.work import Limits, StoreAnswer, Work, work_of_job
from service.telemetry.metrics import Metrics

LOCK_NAME: Final = "jobs.lock"
LOOKED_AFTER_SECONDS: Final = 0.5
FORGET_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 30.0
"""Workers that had no job for so long are let go."""

Found = TypeVar("Found")


@dataclass(eq=False, slots=True)
class Active:
    """A job that is computed here. `waiting`: points that nobody computes yet, with how often they were tried."""

    job: Job
    work: Work
    waiting: deque[tuple[Piece, int]]
    points: int
    seconds_per_point: float | None = None
    served: int = 0
    running: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def is_whole(self) -> bool:
        """Whether it is computed in one."""
        return self.work.computation.pieces is None

    def take(self) -> tuple[Piece, int]:
        """The next piece."""
        whole, tries = self.waiting.popleft()
        end = min(whole.start + (self.points if tries == 0 else whole.points), whole.stop)
        if end < whole.stop:
            self.waiting.appendleft((Piece(end, whole.stop), 0))
        return Piece(whole.start, end), tries


@final
class Dispatcher:
    """Of one event loop. `describe`: an error as a problem in JSON; `store_answer`: of jobs of one request."""

    def __init__(
        self,
        *,
        store: SqliteStore,
        folder: Path,
        make_pool: Callable[[], WorkerPool],
        worker_count: int,
        engine_version: str,
        limits: Limits,
        validate: Validate,
        describe: Callable[[Exception], bytes],
        store_answer: StoreAnswer,
        metrics: Metrics,
        logger: FilteringBoundLogger,
    ) -> None:
        self._store = store
        self._folder = folder
        self._make_pool = make_pool
        self._worker_count = worker_count
        self._engine_version = engine_version
        self._limits = limits
        self._validate = validate
        self._describe = describe
        self._store_answer = store_answer
        self._metrics = metrics
        self._logger = logger
        self._active: dict[str, Active] = {}
        self._pool: WorkerPool | None = None
        self._turns = 0
        self._busy = 0
        self._look = asyncio.Event()
        self._lock: int | None = None
        self._idle_since = 0.0
        self._forgot = 0.0

    def look(self) -> None:
        """There may be something new."""
        self._look.set()

    async def run(self) -> None:
        """Compute what there is, until it is cancelled."""
        try:
            while True:
                try:
                    await self._turn()
                except JobsUnavailable as error:
                    self._logger.warning("jobs", state="unavailable", cause=error.reason)
                    await asyncio.sleep(1)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._look.wait(), LOOKED_AFTER_SECONDS)
                self._look.clear()
        finally:
            tasks = [task for active in self._active.values() for task in active.running]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._let_go()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    async def _turn(self) -> None:
        if self._lock is None and not await self._off_loop(self._take_lock):
            return
        now = asyncio.get_running_loop().time()
        if now - self._forgot > FORGET_SECONDS:
            self._forgot = now
            await self._off_loop(self._store.forget, time.time())
        await self._look_at_jobs()
        self._start_pieces()
        if self._active:
            self._idle_since = now
        elif self._pool is not None and now - self._idle_since > IDLE_SECONDS:
            await self._let_go()

    def _take_lock(self) -> bool:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JobsUnavailable(type(error).__name__) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    async def _look_at_jobs(self) -> None:
        """Take up what is new, and give up what has been cancelled, by whichever process."""
        jobs = {job.id: job for job in await self._off_loop(self._store.active)}
        for name in self._active.keys() - jobs.keys():
            ended = self._active.pop(name)
            if ended.running and await self._was_cancelled(name):
                for task in ended.running:
                    task.cancel()
        for name in jobs.keys() - self._active.keys():
            await self._take_up(jobs[name])
        self._metrics.jobs_active.set(len(self._active))

    async def _was_cancelled(self, name: str) -> bool:
        try:
            return (await self._off_loop(self._store.get, name)).state == "cancelled"
        except JobNotFound:
            return True

    async def _take_up(self, job: Job) -> None:
        try:
            work = await self._off_loop(work_of_job, job, self._validate)
            if job.engine_version != self._engine_version:
                digest = work.digest(self._engine_version)
                job = await self._off_loop(self._store.restart, job.id, self._engine_version, digest)
        except JobsUnavailable:
            raise
        except JobNotFound:
            return
        except Exception as error:  # noqa: BLE001 - what was accepted by another version may be no request any more
            await self._off_loop(self._store.fail, job.id, self._describe(error))
            return
        gaps = await self._off_loop(self._store.missing, job.id)
        self._active[job.id] = Active(
            job,
            work,
            deque((gap, 0) for gap in gaps),
            first_points(job.cost, job.total, work.largest_piece),
            served=self._turns,
        )

    def _start_pieces(self) -> None:
        while self._busy < self._worker_count:
            ready = [active for active in self._active.values() if active.waiting]
            if not ready:
                return
            chosen = min(ready, key=lambda active: (urgency(active.job.cost), active.served))
            self._turns += 1
            chosen.served = self._turns
            piece, tries = chosen.take()
            if self._pool is None:
                self._pool = self._make_pool()
            self._busy += 1
            task = asyncio.get_running_loop().create_task(self._compute(chosen, piece, tries, self._pool))
            chosen.running.add(task)
            task.add_done_callback(chosen.running.discard)

    async def _compute(self, active: Active, piece: Piece, tries: int, pool: WorkerPool) -> None:
        name = active.job.id
        try:
            if active.job.state == "queued":
                active.job = replace(active.job, state="running")
                await self._until_written(self._store.begin, name)
            try:
                task, request = await self._off_loop(active.work.piece, piece)
                limit = active.work.limit_seconds(piece, self._limits)
                computed = await pool.compute(task, request, active.job.digest, self._engine_version, limit)
            except (OutOfTime, OutOfMemory, WorkerDied) as error:
                if self._again(active, piece, tries, error):
                    return
                await self._dead(active, piece, error)
                return
            except Exception as error:  # noqa: BLE001 - whatever a computation raises belongs to its points
                await self._dead(active, piece, error)
                return
            active.seconds_per_point = measured(
                active.seconds_per_point, computed.seconds, computed.cpu_seconds, piece.points
            )
            active.points = next_points(piece.points, active.seconds_per_point, active.work.largest_piece)
            if active.is_whole:
                await self._hand_over(active, computed.body)
            await self._until_written(self._store.keep, name, Kept(piece, computed.body))
            self._metrics.piece("done", piece.points)
        finally:
            self._busy -= 1
            self._look.set()

    async def _hand_over(self, active: Active, lines: bytes) -> None:
        """Store the answer of a job of one request where answers to requests are stored, and log its decision."""
        body, decided = await self._off_loop(answer_in, active.work.computation, lines)
        self._store_answer(active.work.computation, active.job.digest, body, active.job.cost)
        if decided is not None:
            self._logger.info("decision", **decided)

    def _again(self, active: Active, piece: Piece, tries: int, error: Exception) -> bool:
        """Whether the points of a piece that came to no end are tried once more, together or apart."""
        if isinstance(error, OutOfTime):
            active.points = max(1, piece.points // 2)
        if isinstance(error, WorkerDied) and tries + 1 < LARGEST_TRIES:
            active.waiting.appendleft((piece, tries + 1))
        elif piece.points > 1:
            for half in reversed(piece.halves()):
                active.waiting.appendleft((half, 1))
        else:
            return False
        self._metrics.piece("again", piece.points)
        return True

    async def _dead(self, active: Active, piece: Piece, error: Exception) -> None:
        problem = self._describe(error)
        self._metrics.piece("failed", piece.points)
        if active.is_whole:
            await self._until_written(self._store.fail, active.job.id, problem)
        else:
            await self._until_written(self._store.keep, active.job.id, Kept(piece, failure_lines(piece, problem)))

    async def _until_written(self, write: Callable[..., Job], name: str, *values: object) -> None:
        """What was computed waits for room on the disk, and is not computed again."""
        while True:
            try:
                job = await self._off_loop(write, name, *values)
            except JobsUnavailable as error:
                self._logger.warning("jobs", state="waits to write", cause=error.reason)
                await asyncio.sleep(1)
            except JobNotFound:
                return
            else:
                if job.state in ("succeeded", "failed"):
                    self._metrics.job_ended(job.resource, job.state)
                    self._logger.info("job", job_state=job.state, resource=job.resource, points=job.total)
                return

    async def _let_go(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _off_loop(self, call: Callable[..., Found], *values: object) -> Found:
        return await asyncio.to_thread(call, *values)
