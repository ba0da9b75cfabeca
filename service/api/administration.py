"""Administration of jobs in their storage, for the operator port and for commands while the service is down."""

from __future__ import annotations

import time
from typing import Any, Final, final

from api_schemas.jobs import ENDED
from api_schemas.operators import (
    HeldPiece,
    OperatedJob,
    OperatedJobDetails,
    OperatedJobs,
    PresentWorker,
    PurgedJobs,
)
from service.api.jobs.representation import job_response
from service.jobs.diagnosis import QueueState, explain_state, explain_store_failure
from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import StoredJob
from service.jobs.repository import JobRepository

PAGE: Final = 1_000


@final
class Administration:
    """Operations on stored jobs for operators. Every method blocks, and raises JobsUnavailable if the storage fails."""

    def __init__(self, repository: JobRepository, age_seconds: float) -> None:
        self._repository = repository
        self._age_seconds = age_seconds

    def active(self, requester: str | None) -> OperatedJobs:
        """Return all active jobs of a requester, or of all requesters (None), oldest first.

        Each has a sentence that says what it waits for. The list is empty for an unknown requester.
        """
        scene = self._queue_state()
        jobs = [job for job in scene.active if requester in (None, job.requester)]
        return self._operated_jobs(jobs, scene, None)

    def all(self, requester: str | None, limit: int, cursor: str | None) -> OperatedJobs:
        """Return a page of at most `limit` jobs of a requester, or of all requesters (None), newest first.

        `cursor` is that of the previous page, or None for the first page. Raise InvalidCursor.
        """
        page = self._repository.list(requester, limit, cursor)
        return self._operated_jobs(page.jobs, self._queue_state(), page.next)

    def show(self, name: str) -> OperatedJobDetails:
        """Return the job with the id `name` with everything on which its progress depends, such as workers and queue.

        Raise JobNotFound.
        """
        job = self._repository.get(name)
        scene = self._queue_state()
        held = self._repository.dispatched_chunks(name)
        return OperatedJobDetails(
            **_members(job, self._reason_text(job, scene, self._storage_problem())),
            pieces=tuple(
                HeldPiece(
                    start=each.chunk.start,
                    stop=each.chunk.stop,
                    tries=each.tries,
                    worker=each.worker,
                    seconds_left=max(0.0, each.until - scene.now),
                )
                for each in held
            ),
            workers=tuple(
                PresentWorker(
                    name=each.name, engine_version=each.engine_version, seen_seconds_ago=max(0.0, scene.now - each.seen)
                )
                for each in scene.workers
            ),
        )

    def cancel(self, name: str) -> OperatedJobDetails:
        """Cancel the job with the id `name`, unless it has ended, and return its details. Raise JobNotFound."""
        self._repository.cancel(name)
        return self.show(name)

    def purge(self, name: str | None, *, ended: bool) -> PurgedJobs:
        """Remove a job with its results, all ended jobs (`ended`), or without both only expired jobs.

        `name` is the id of the job to remove, or None. An active job is cancelled first. Raise JobNotFound if there is
        no such job. Return the number of removed jobs.
        """
        if name is not None:
            self._repository.remove(name)
            return PurgedJobs(removed=1)
        return PurgedJobs(removed=sum(map(self._remove, self._removable(ended=ended))))

    def _removable(self, *, ended: bool) -> list[str]:
        now = time.time()
        found: list[str] = []
        cursor = None
        while True:
            page = self._repository.list(None, PAGE, cursor)
            found += (job.id for job in page.jobs if job.state in ENDED and (ended or job.expires <= now))
            cursor = page.next
            if cursor is None:
                return found

    def _remove(self, name: str) -> bool:
        try:
            self._repository.remove(name)
        except JobNotFound:  # expired meanwhile
            return False
        return True

    def _queue_state(self) -> QueueState:
        active, workers = self._repository.active(), self._repository.announced_workers()
        return QueueState(active=active, workers=workers, age_seconds=self._age_seconds, now=time.time())

    def _storage_problem(self) -> str | None:
        try:
            self._repository.probe()
        except JobsUnavailable as error:
            return explain_store_failure(error.reason)
        return None

    def _reason_text(self, job: StoredJob, scene: QueueState, trouble: str | None) -> str:
        if trouble is not None and job.state not in ENDED:
            return trouble
        try:
            held = () if job.state in ENDED else self._repository.dispatched_chunks(job.id)
        except JobNotFound:
            held = ()
        return explain_state(job, held, scene)

    def _operated_jobs(
        self, jobs: list[StoredJob] | tuple[StoredJob, ...], scene: QueueState, following: str | None
    ) -> OperatedJobs:
        trouble = self._storage_problem()
        listed = tuple(OperatedJob(**_members(job, self._reason_text(job, scene, trouble))) for job in jobs)
        return OperatedJobs(jobs=listed, next=following)


def _members(job: StoredJob, reason: str) -> dict[str, Any]:
    response = job_response(job)
    members = {name: getattr(response, name) for name in type(response).model_fields}
    return members | {
        "requester": job.requester,
        "request_id": job.request_id,
        "generation": job.generation,
        "why": reason,
    }
