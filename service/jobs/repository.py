"""Protocol of the storage of jobs, which each backend implements, and the distribution of its chunks.

A *chunk* is a range of consecutive points of a job. A worker *claims* a chunk for some seconds and *renews* the claim
while it computes. A claim ends when the results of the chunk are *saved*, when the chunk is *requeued* (as a whole, or
as its halves), or when its job ends. A chunk whose claim expires is dispatched again. A job that another engine version
*restarts* has a new *generation*, and claims of earlier generations have no effect. A job therefore has results of one
`engine_version`, and one result per point, whichever processes die.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from service.jobs.errors import JobsError
from service.jobs.job import Chunk, ChunkResult, StoredJob

OVERHEAD_BYTES: Final = 4096
"""Bytes that a job counts in a quota in addition to request and results. Redis needs about 3 KB for a small job."""
OLDEST_EVERY: Final = 4
"""In every fourth turn of a requester its oldest job is served, whatever its priority class."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of all jobs together: number of active jobs, and bytes of requests and results.

    A requester (group or address) is refused if it would hold more than the part of the quota that nobody holds. A
    single requester may thus use half of the quota, two requesters a third each, and a new requester always finds room.
    """

    jobs: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class ClaimedChunk:
    """Chunk (range of points of a job) that a worker has claimed.

    `job` is the job at the time of the claim, with its generation. `tries` counts the failed attempts before this
    claim: deaths of the worker or its process, and 1 for half of a chunk that exceeded a limit. The number
    distinguishes the claims of one chunk.
    """

    job: StoredJob
    chunk: Chunk
    tries: int


@dataclass(frozen=True, slots=True)
class Page:
    """Page of a list of jobs, newest first. `next` is the cursor of the next page, or None on the last page."""

    jobs: tuple[StoredJob, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Worker:
    """Worker that announced itself, most recently at `seen` (seconds since 1970)."""

    name: str
    engine_version: str
    seen: float


@dataclass(frozen=True, slots=True)
class DispatchedChunk:
    """Chunk (range of points of a job) that was given to a worker and has no results yet.

    `tries` counts the failed attempts so far: deaths of the worker or its process, and 1 for half of a chunk that
    exceeded a limit. `worker` holds the claim until `until` (seconds since 1970); the name is empty if the chunk was
    requeued.
    """

    chunk: Chunk
    tries: int
    worker: str
    until: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """Number of active jobs, and the time (seconds since 1970) at which the oldest was accepted; None without a job."""

    jobs: int
    oldest: float | None


class JobRepository(Protocol):
    """Storage of jobs and results. Every method blocks, and raises JobsUnavailable if the storage does not work.

    Methods that take the id of a job raise JobNotFound, except `keep_trace` and `trace_of`. Changes are durable when a
    method has returned. Workers claim chunks (ranges of points of a job). The generation of a job counts its restarts
    by other engine versions. A claim is *stale* if it is of an earlier generation, if another worker took the chunk
    over, or if the job has ended.
    """

    def add(
        self, job: StoredJob, request: bytes, key: str | None, fingerprint: bytes, quota: Quota, size: int
    ) -> StoredJob:
        """Store a new job, whose first chunks may have `size` points, and return the job.

        `request` is the JSON of the request, `key` the idempotency key or None, and `fingerprint` identifies the body.
        Return the existing job if the requester has sent this key with this body before. Raise IdempotencyKeyReused for
        a key of another body.

        `quota` limits the active jobs and the bytes of all requesters together. A requester may hold at most as many of
        these bytes as stay free. To make room, the oldest ended jobs of the requesters that store the most are removed,
        but of none that stores less than this requester. Raise QueueFull if this is not enough, or if the requester has
        too many active jobs.
        """
        ...

    def get(self, job_id: str) -> StoredJob:
        """Return the current state of the job `job_id`. Raise JobNotFound if there is no such job."""
        ...

    def request(self, job_id: str) -> bytes:
        """Return the JSON of the request of an active job. Raise JobNotFound for an ended or unknown job."""
        ...

    def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        """Return a page of at most `limit` jobs, newest first, of one requester (group or address) or of all (None).

        `cursor` is that of the previous page, or None for the first page. Raise InvalidCursor.
        """
        ...

    def cancel(self, job_id: str) -> StoredJob:
        """Cancel the job `job_id`, unless it has ended, and return it. Raise JobNotFound."""
        ...

    def results(self, job_id: str, start: int, most: int = 1) -> Sequence[ChunkResult]:
        """Return up to `most` saved chunks (ranges of points with results), in the order of their points.

        The first of them contains the point `start`. If no results of `start` are saved, the list has saved chunks of
        later points, or none. Raise JobNotFound if there is no such job.
        """
        ...

    def claim(self, engine_version: str, worker: str, seconds: float) -> ClaimedChunk | None:
        """Claim the next chunk (range of points of a job) of this engine version for the process named `worker`.

        The claim ends after `seconds`. Return None if no chunk waits.

        Requesters take turns. Within a requester, the oldest job of the lowest class runs first
        (`chunk_sizing.priority_class`), and in every fourth turn (OLDEST_EVERY) the oldest job of all. A chunk whose
        claim expired comes before new chunks of its job, with its number of tries increased by one.
        """
        ...

    def renew(self, claim: ClaimedChunk, seconds: float) -> bool:
        """Extend a worker's claim on a chunk to `seconds` from now. Return False for a stale claim.

        A claim is stale if another worker took the chunk over, or if the job ended or was restarted.
        """
        ...

    def save(self, claim: ClaimedChunk, lines: bytes, size: int) -> StoredJob:
        """Save the result lines of a claimed chunk (range of points), and return the job.

        The next chunks of the job may have `size` points. Nothing is changed if the chunk has results, was split, or
        belongs to an earlier generation. Results of a claim that another worker took over are valid and saved.
        """
        ...

    def requeue(self, claim: ClaimedChunk, chunks: Sequence[Chunk], tries: int) -> None:
        """Return a claimed chunk (range of points of a job) to the queue, divided into `chunks`.

        `tries` is the number of tries to record. Do nothing for a stale claim.

        Later chunks of the job have no more points than the first of `chunks`.
        """
        ...

    def fail(self, job_id: str, generation: int, problem: bytes) -> StoredJob:
        """End an active job with the JSON problem document `problem`, and return the job.

        Nothing is changed if the job has ended or was restarted after this `generation`, a counter of its restarts.
        """
        ...

    def restart(self, job_id: str, generation: int, engine_version: str, digest: str, size: int) -> StoredJob:
        """Restart an active job of this generation under another engine version, and return the job.

        `digest` is that of the request under the new version, and `size` the number of points of the first chunks. Its
        results are deleted, and the job is queued with the next generation. Nothing is changed if the generation
        differs or the job has ended.
        """
        ...

    def announce(self, worker: str, engine_version: str) -> None:
        """Record that the worker `worker` of this engine version is alive now. Workers call this every few seconds."""
        ...

    def orphans(self, engine_version: str, seconds: float) -> Sequence[StoredJob]:
        """Return active jobs of other engine versions that have no worker.

        An orphan has not changed for `seconds`, and no worker of its version announced itself within that time.
        """
        ...

    def purge(self, now: float, quota: Quota, age_seconds: float) -> Sequence[tuple[StoredJob, JobsError]]:
        """Remove expired jobs, and return the active jobs that must end, with the reason.

        `now` is in seconds since 1970. While more bytes than the quota are stored, remove the job that ended longest
        ago of the requester that stores the most. The reason is JobTooOld for jobs accepted more than `age_seconds`
        ago, and ResultsTooLarge for the largest active job if only active jobs exceed the quota.
        """
        ...

    def backlog(self) -> Backlog:
        """Return how many jobs have not ended, and when the oldest was accepted (seconds since 1970; None: no job)."""
        ...

    def active(self) -> Sequence[StoredJob]:
        """Return the jobs of all requesters that have not ended, oldest first."""
        ...

    def announced_workers(self) -> Sequence[Worker]:
        """Return the workers that announced themselves within the last 10 minutes (Redis) or the last hour (SQLite)."""
        ...

    def dispatched_chunks(self, job_id: str) -> Sequence[DispatchedChunk]:
        """Return the chunks (ranges of points) of a job that were given to workers and have no results yet.

        The chunks are in the order of their points. Requeued chunks are among them, without a worker. Raise JobNotFound
        for an unknown job.
        """
        ...

    def keep_trace(self, job_id: str, traceparent: str) -> None:
        """Store the traceparent (id of a trace) of the request that brings the job `job_id`.

        The job itself may be stored before or after.
        """
        ...

    def trace_of(self, job_id: str) -> str | None:
        """Return the traceparent (id of a trace) of the job `job_id`, or None.

        The result is None for an unknown job and for a job without a stored trace.
        """
        ...

    def probe(self) -> None:
        """Write to the storage without changing jobs. Raise JobsUnavailable if the storage cannot be written."""
        ...

    def remove(self, job_id: str) -> None:
        """Remove a job with its results and its idempotency key.

        An active job is cancelled before. Raise JobNotFound for an unknown job.
        """
        ...

    def close(self) -> None:
        """Close the connection to the storage."""
        ...
