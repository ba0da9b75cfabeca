"""What a process of a worker does with the message of a piece: begin it, compute it, keep it, send the next one."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

from structlog.typing import FilteringBoundLogger

from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.request_body import Validate
from service.execution.worker import compute_body
from service.jobs.celery.store import RedisStore, Sent
from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import Job, Kept, Piece
from service.jobs.lines import answer_in, failure_lines
from service.jobs.sizes import measured, next_points
from service.jobs.work import Limits, StoreAnswer, Work, work_of_job

BEAT_SECONDS: Final = 0.5
REMEMBERED: Final = 16
EARLIER_SECONDS: Final = 0.5
"""Before the limit that Celery enforces: who ends itself can say why."""
PAUSE_SECONDS: Final = 0.5


@final
class PieceWorker:
    """Of one process, which computes one piece at a time. `send`: puts a message on its way; `describe`: an error as a
    problem in JSON; `store_answer`: stores that of a job of one request; `heard`: told that there is a message, again
    and again while it is worked on.
    """

    def __init__(
        self,
        *,
        store: RedisStore,
        send: Callable[[str, Sent], None],
        limits: Limits,
        engine_version: str,
        memory_limit_bytes: int,
        validate: Validate,
        describe: Callable[[Exception], bytes],
        store_answer: StoreAnswer,
        heard: Callable[[], None],
        logger: FilteringBoundLogger,
    ) -> None:
        self.heard = heard
        self._store = store
        self._send = send
        self._limits = limits
        self._engine_version = engine_version
        self._memory_limit_bytes = memory_limit_bytes
        self._validate = validate
        self._describe = describe
        self._store_answer = store_answer
        self._logger = logger
        self._known: OrderedDict[str, tuple[Job, Work]] = OrderedDict()
        self._seconds: dict[str, float] = {}

    def run(self, name: str, piece: Piece, number: int) -> None:
        """What a message asks for, where that is still wanted."""
        self.heard()
        taken = self._store.take(name, piece, number)
        if taken not in ("yours", "dead"):
            return
        try:
            job, work = self._work(name)
        except (JobNotFound, JobsUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - what another version accepted may be no request any more
            self._store.end(name, "failed", self._describe(error))
            return
        if job.engine_version != self._engine_version:
            self._known.pop(name)  # an instance of the service will begin it anew, or another worker has the version
            return
        if taken == "dead":
            self._fail(job, work, piece, WorkerDied())
            return
        self._compute(job, work, piece)

    def _compute(self, job: Job, work: Work, piece: Piece) -> None:
        limit = work.limit_seconds(piece, self._limits)
        heart = Heart(self, job.id, piece, limit - EARLIER_SECONDS, self._store)
        try:
            task, request = work.piece(piece)
            computed = compute_body(task, request, job.digest, self._engine_version, time.process_time)
        except MemoryError:
            heart.stop()
            self.give_up(job.id, piece, OutOfMemory(self._memory_limit_bytes))
            return
        except Exception as error:  # noqa: BLE001 - whatever a computation raises belongs to its points
            heart.stop()
            self._fail(job, work, piece, error)
            return
        heart.computed()
        seconds = measured(self._seconds.get(job.id), computed.seconds, computed.cpu_seconds, piece.points)
        self._seconds[job.id] = seconds
        size = next_points(piece.points, seconds, work.largest_piece)
        try:
            if work.computation.pieces is None:
                self._hand_over(job, work, computed.body)
            self._keep(job.id, Kept(piece, computed.body), size)
        finally:
            heart.stop()

    def _hand_over(self, job: Job, work: Work, lines: bytes) -> None:
        """Store the answer of a job of one request where answers to requests are stored, and log its decision."""
        body, decided = answer_in(work.computation, lines)
        self._store_answer(work.computation, job.digest, body, job.cost)
        if decided is not None:
            self._logger.info("decision", **decided)

    def give_up(self, name: str, piece: Piece, error: Exception) -> None:
        """A piece takes too long or too much: its halves take its place, or it has a problem for an answer."""
        job, work = self._work(name)
        if piece.points == 1:
            self._fail(job, work, piece, error)
            return
        for half in self._store.split(name, piece):
            self._send(name, half)

    def _fail(self, job: Job, work: Work, piece: Piece, error: Exception) -> None:
        problem = self._describe(error)
        self._logger.warning("jobs", state="piece failed", points=piece.points, error=type(error).__name__)
        if work.computation.pieces is None:
            self._store.end(job.id, "failed", problem)
        else:
            self._keep(job.id, Kept(piece, failure_lines(piece, problem)), piece.points)

    def _keep(self, name: str, kept: Kept, size: int) -> None:
        """What was computed waits for Redis, for as long as this process may live."""
        while True:
            try:
                following = self._store.keep(name, kept, size)
            except JobsUnavailable as error:
                self._logger.warning("jobs", state="waits to write", cause=error.reason)
                time.sleep(PAUSE_SECONDS)
            else:
                break
        if following is not None:
            self._send(name, following)

    def _work(self, name: str) -> tuple[Job, Work]:
        known = self._known.get(name)
        if known is None:
            job = self._store.get(name)
            known = self._known[name] = job, work_of_job(job, self._store.request(name), self._validate)
            if len(self._known) > REMEMBERED:
                forgotten, _ = self._known.popitem(last=False)
                self._seconds.pop(forgotten, None)
        return known


@final
class Heart:
    """Says that a piece is being computed, in a thread of its own; ends the process when nobody wants the piece any
    more, or when it takes too long: nothing else stops a computation.
    """

    def __init__(self, worker: PieceWorker, name: str, piece: Piece, limit_seconds: float, store: RedisStore) -> None:
        self._worker = worker
        self._name = name
        self._piece = piece
        self._limit_seconds = limit_seconds
        self._until: float | None = time.monotonic() + limit_seconds
        self._store = store
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)
        self._thread.start()

    def computed(self) -> None:
        """The limit no longer applies: what is left is to write it down."""
        self._until = None

    def stop(self) -> None:
        """Nothing is being computed any more."""
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(BEAT_SECONDS):
            until = self._until
            self._worker.heard()
            try:
                wanted = self._store.beat(self._name, self._piece)
                if until is not None and (not wanted or time.monotonic() > until):
                    if wanted:
                        self._worker.give_up(self._name, self._piece, OutOfTime(self._limit_seconds))
                    os._exit(1)  # another process takes the place of this one
            except JobsUnavailable:
                continue
