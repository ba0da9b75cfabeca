"""Scheduler of jobs in worker processes of this instance.

Of several service processes with one data folder and one engine version, the leader computes: the process that holds
the lock of that version. The kernel releases the lock when the leader ends. Leaders of two engine versions run side by
side, each with the jobs of its own version. The worker processes of jobs exist while there are active jobs. They are
separate from the workers that clients wait for, and have a lower scheduling priority.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from service.execution.worker_pool import WorkerPool
from service.jobs.chunk_worker import ChunkWorker, Housekeeping, WorkerContext
from service.jobs.diagnosis import remedy_for
from service.jobs.errors import JobsUnavailable
from service.jobs.local.store import SqliteStore
from service.jobs.service import Condition

LOCK_NAME: Final = "jobs.lock"
"""Lock file of early releases, whose processes lock the file exclusively and compute jobs of every version."""
LEADERS_NAME: Final = "jobs.leaders"
"""Lock file with one byte per engine version. The leader of a version locks its byte."""
POLL_SECONDS: Final = 0.5
HOUSEKEEPING_SECONDS: Final = 2.0
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 15.0
"""Bounds of the pause after a failure, which doubles with each consecutive failure."""
HOUSEKEEPING: Final = -1
"""Key of failures of the housekeeping. Failures of computing tasks have the number of the task as their key."""
IDLE_SECONDS: Final = 30.0
"""Seconds without an active job after which the worker processes are stopped."""


@final
class LocalScheduler:
    """Scheduler that computes jobs in one event loop, and retries after every failure.

    `condition` reports the current failures.
    """

    def __init__(
        self,
        store: SqliteStore,
        folder: Path,
        context: WorkerContext,
        make_pool: Callable[[], WorkerPool],
        worker_count: int,
    ) -> None:
        self._store = store
        self._folder = folder
        self._context = context
        self._make_pool = make_pool
        self._worker_count = worker_count
        self._worker = ChunkWorker(context, self._current_pool)
        self._housekeeping = Housekeeping(context)
        self._pool: WorkerPool | None = None
        self._last_used = 0.0
        self._wake_event = asyncio.Event()
        self._locks: list[int] = []
        self._failures = {HOUSEKEEPING: "they are about to be"}

    def wake(self) -> None:
        """Notify an idle computing task that a job was accepted or cancelled."""
        self._wake_event.set()

    def condition(self) -> Condition:
        """Return whether jobs are computed at present, with one sentence for operators."""
        if self._failures:
            return Condition(works=False, sentence=f"jobs are not computed: {', '.join(set(self._failures.values()))}")
        here = "here" if self._locks else "by another process with this data folder"
        return Condition(works=True, sentence=f"jobs are computed {here}")

    async def run(self) -> None:
        """Compute jobs and run the periodic maintenance until the task is cancelled."""
        computing: list[asyncio.Task[None]] = []
        pause = SHORTEST_PAUSE_SECONDS
        try:
            while True:
                try:
                    await self._run_housekeeping()
                    if self._locks and not computing:
                        computing += (
                            asyncio.create_task(self._compute_until_cancelled(place))
                            for place in range(self._worker_count)
                        )
                    self._failures.pop(HOUSEKEEPING, None)
                    pause = SHORTEST_PAUSE_SECONDS
                    await asyncio.sleep(HOUSEKEEPING_SECONDS if self._locks else POLL_SECONDS)
                except Exception as error:  # noqa: BLE001 - the scheduler retries after any error
                    self._record_failure(HOUSEKEEPING, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        finally:
            for task in computing:
                task.cancel()
            await asyncio.gather(*computing, return_exceptions=True)
            await self._close_pool()
            for lock in self._locks:
                os.close(lock)
            self._locks.clear()

    async def _run_housekeeping(self) -> None:
        if not self._locks and not await asyncio.to_thread(self._acquire_leadership):
            return
        await asyncio.to_thread(self._housekeeping.run)
        backlog = await asyncio.to_thread(self._store.backlog)
        self._context.metrics.set_backlog(backlog.jobs, backlog.oldest)
        if backlog.jobs:
            self._last_used = asyncio.get_running_loop().time()
        elif self._pool is not None and asyncio.get_running_loop().time() - self._last_used > IDLE_SECONDS:
            await self._close_pool()

    async def _compute_until_cancelled(self, place: int) -> None:
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            try:
                found = await self._worker.process_next()
                self._failures.pop(place, None)
                pause = SHORTEST_PAUSE_SECONDS
                if found:
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake_event.wait(), POLL_SECONDS)
                self._wake_event.clear()
            except Exception as error:  # noqa: BLE001 - as above
                self._record_failure(place, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _record_failure(self, place: int, error: Exception) -> None:
        known = isinstance(error, JobsUnavailable)
        cause = self._failures[place] = error.reason if isinstance(error, JobsUnavailable) else type(error).__name__
        log = self._context.logger.warning if known else self._context.logger.error
        log("jobs", state="not computed", cause=cause, remedy=remedy_for(cause), exc_info=None if known else error)

    def _current_pool(self) -> WorkerPool:
        if self._pool is None:
            self._pool = self._make_pool()
        return self._pool

    async def _close_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _acquire_leadership(self) -> bool:
        # the only process that schedules jobs of this engine version
        place = zlib.crc32(self._context.engine_version.encode())
        locks: list[int] = []
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in (self._folder / LOCK_NAME, self._folder / LEADERS_NAME):
                locks += (os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600),)
            fcntl.flock(locks[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(locks[1], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            self._store.release_claims(self._context.engine_version, self._context.worker)
        except BaseException as error:
            for lock in locks:
                os.close(lock)
            if isinstance(error, BlockingIOError):
                return False
            if isinstance(error, OSError):
                raise JobsUnavailable(f"{type(error).__name__}: {error.strerror}") from error
            raise
        self._locks = locks
        return True
