"""Explanations for operators of why a job makes no progress, in one sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from api_schemas.jobs import ENDED
from api_schemas.problems import Problem
from service.jobs.chunk_sizing import MAX_TRIES, priority_class
from service.jobs.chunk_worker import WORKER_TIMEOUT_SECONDS
from service.jobs.job import StoredJob
from service.jobs.repository import DispatchedChunk, Worker

STORE_REMEDIES: Final = {
    "SQLITE_FULL": "The disk of the data folder is full. Free space, or delete ended jobs: privacy-bounds operate "
    "jobs purge --ended.",
    "No space left": "The disk of the data folder is full. Free space.",
    "SQLITE_READONLY": "The data folder is read-only. Give the user of the service write permission.",
    "SQLITE_CANTOPEN": "The file of jobs cannot be opened. Give the user of the service write permission for the "
    "data folder.",
    "Read-only": "The data folder is read-only. Give the user of the service write permission.",
    "PermissionError": "The user of the service has no write permission for the data folder. Change its owner or mode.",
    "SQLITE_BUSY": "Another process has locked the file of jobs for seconds. Find the process: fuser -v jobs.sqlite.",
    "SQLITE_NOTADB": "The file jobs.sqlite contains no jobs. Move the file away, or restore a copy.",
    "SQLITE_CORRUPT": "The file jobs.sqlite is damaged. Move the file away, or restore a copy.",
    "SQLITE_IOERR": "The disk of the data folder fails. See the kernel log.",
    "there is no": (
        "Set PRIVACY_BOUNDS_DATA_FOLDER to the folder of the service, and run the command as the user of the service."
    ),
    "newer version": "Start the newer version again, or remove the file of jobs to start without jobs.",
    "OOM": "Redis has no memory left. Raise maxmemory, or delete ended jobs: privacy-bounds operate jobs purge "
    "--ended.",
    "MISCONF": "Redis cannot write its append-only file. Free space on its disk.",
    "READONLY": "This Redis is a replica. Set PRIVACY_BOUNDS_REDIS_URL to the primary.",
    "NOPERM": "Give the user of PRIVACY_BOUNDS_REDIS_URL the permissions in docker-compose.yml.",
    "BusyLoadingError": "Wait: Redis loads its append-only file.",
    "ConnectionError": "Start Redis, or correct PRIVACY_BOUNDS_REDIS_URL.",
    "TimeoutError": "Redis does not respond in time. Check its load and the network.",
    "AuthenticationError": "Correct PRIVACY_BOUNDS_REDIS_PASSWORD.",
    "Redis does not answer": "Start Redis, or correct PRIVACY_BOUNDS_REDIS_URL.",
    "no worker is running": "Start privacy-bounds worker.",
    "Redis came back without": "Restore the append-only file. Submit jobs that are not in the file again.",
    "Redis is away": "Start Redis, or correct PRIVACY_BOUNDS_REDIS_URL.",
    "Redis does not write": "Check the disk of Redis. Redis acknowledges a job only after writing it.",
}
"""Remedies by a part of the reason of JobsUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """State of the job queue at the time `now` (seconds since 1970): active jobs and announced workers.

    A job must end within `age_seconds`.
    """

    active: Sequence[StoredJob]
    workers: Sequence[Worker]
    age_seconds: float
    now: float

    def present_workers(self) -> list[Worker]:
        """Return the workers that announced themselves within the last 15 seconds before `now`."""
        return [worker for worker in self.workers if self.now - worker.seen <= WORKER_TIMEOUT_SECONDS]


def remedy_for(reason: str) -> str:
    """Return the remedy for a storage failure, or an empty string if none is known.

    `reason` is the sentence in the error JobsUnavailable or in a Condition.
    """
    return next((remedy for part, remedy in STORE_REMEDIES.items() if part in reason), "")


def explain_store_failure(reason: str) -> str:
    """Return cause and remedy of a storage failure, where `reason` is the sentence in the error JobsUnavailable."""
    remedy = remedy_for(reason) or "See the log of the service."
    return f"The job storage failed: {reason.rstrip('.')}. {remedy}"


def explain_state(job: StoredJob, dispatched: Sequence[DispatchedChunk], queue: QueueState) -> str:
    """Return one sentence on what a job waits for, or where it is computed.

    `dispatched` are the chunks of the job that were given to workers and have no results yet. `queue` is the state of
    the queue of jobs.
    """
    if job.state in ENDED:
        return _explain_end(job)
    return (
        _explain_missing_workers(job, queue)
        or _explain_chunks(job, dispatched, queue.now)
        or _explain_queue(job, queue)
    )


def _explain_end(job: StoredJob) -> str:
    if job.problem is None:
        return f"The job has ended: {job.state}."
    problem = Problem.model_validate_json(job.problem)
    return f"The job has failed: {problem.title}. {problem.detail}"


def _explain_missing_workers(job: StoredJob, queue: QueueState) -> str | None:
    present = queue.present_workers()
    if not present:
        seen = max((worker.seen for worker in queue.workers), default=None)
        last = "" if seen is None else f"; the last worker was active {format_duration(queue.now - seen)} ago"
        return (
            f"The job waits for a worker, and no worker is running{last}. Start the service (backend embedded) or "
            "privacy-bounds worker (backend celery)."
        )
    if queue.now - job.created > queue.age_seconds:
        return f"The job is older than {format_duration(queue.age_seconds)}, the age limit of jobs, and will be ended."
    versions = sorted({worker.engine_version for worker in present})
    if job.engine_version not in versions:
        return (
            f"The job waits for a worker of engine version {job.engine_version}, and only {', '.join(versions)} is "
            f"running. That version restarts the job after {format_duration(WORKER_TIMEOUT_SECONDS)} without a change."
        )
    return None


def _explain_chunks(job: StoredJob, dispatched: Sequence[DispatchedChunk], now: float) -> str | None:
    tried = max(dispatched, key=lambda each: each.tries, default=None)
    again = ""
    if tried is not None and tried.tries:
        again = (
            f" {_describe_points(tried)} failed with a dead worker or an exceeded limit, and are at attempt "
            f"{tried.tries + 1} of "
        )
        again += f"{MAX_TRIES}."
    running = [each for each in dispatched if each.worker and each.until > now]
    if running:
        workers = ", ".join(sorted({each.worker for each in running}))
        since = format_duration(now - job.updated)
        return (
            f"The job is running: workers {workers} compute {len(running)} of its pieces. The last change was "
            f"{since} ago.{again}"
        )
    lost = next((each for each in dispatched if each.worker), None)
    if lost is not None:
        points = _describe_points(lost).lower()
        return f"The worker {lost.worker} of {points} is gone. Another worker will take over.{again}"
    return f"The job waits for a free worker.{again}" if again else None


def _explain_queue(job: StoredJob, queue: QueueState) -> str:
    # Of one requester, jobs of the least class of work so far come first, and of a class older ones before younger.
    own = [
        each for each in queue.active if each.requester == job.requester and each.engine_version == job.engine_version
    ]
    own.sort(key=_priority_class)
    before = next((place for place, each in enumerate(own) if each.id == job.id), 0)
    others = len({each.requester for each in queue.active} - {job.requester})
    if not before and not others:
        return "The job is next: a free worker takes it within seconds."
    return f"The job waits for its turn. Earlier jobs of its requester: {before}. Other requesters with jobs: {others}."


def _priority_class(job: StoredJob) -> int:
    return priority_class(job.cost * job.done / job.total)


def _describe_points(dispatched: DispatchedChunk) -> str:
    chunk = dispatched.chunk
    return f"Point {chunk.start}" if chunk.points == 1 else f"Points {chunk.start} to {chunk.stop - 1}"


def format_duration(duration: float) -> str:
    """Return a duration in seconds as text in the largest unit (days to s) of which it has at least two.

    A duration below two minutes is in seconds, and a negative one is `0 s`.
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if duration >= 2 * size:
            return f"{duration / size:.0f} {unit}"
    return f"{max(0.0, duration):.0f} s"
