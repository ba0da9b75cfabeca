"""The protocol that every backend of jobs implements: storage of jobs, and distribution of their pieces to workers.

A worker *claims* a piece for some seconds and *renews* the claim while it computes. A claim ends when the lines of the
piece are *saved*, when the piece is *requeued* (whole, or as its halves), or when its job ends. A piece whose claim
runs out is given out again. A job that another version begins anew gets a new *generation*; a claim of an earlier
generation changes nothing any more. So a job has lines of one `engine_version` only, and every point once, whoever
dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from service.jobs.errors import JobsError
from service.jobs.job import Piece, StoredJob, StoredPiece

OVERHEAD_BYTES: Final = 4096
"""What a job counts in a quota beside its request and its results. Redis needs about 3 KB for a small job."""
OLDEST_EVERY: Final = 4
"""Every so many turns of a requester, its oldest job is served."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of all jobs together: `jobs` that have not ended, `stored_bytes` of requests and results.

    A requester may hold as much as is free afterwards: a single requester half of the quota, two requesters a third
    each, and a new requester always finds room.
    """

    jobs: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class ClaimedPiece:
    """A piece that a worker has. `job`: as it was when the piece was claimed, with its generation; `tries`: how often
    the piece was claimed before and its worker died. The number of tries tells claims of one piece apart.
    """

    job: StoredJob
    piece: Piece
    tries: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first. `next`: the cursor of the following page."""

    jobs: tuple[StoredJob, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Worker:
    """Who announced itself as a worker. `seen`: when it last did, in seconds since 1970."""

    name: str
    engine_version: str
    seen: float


@dataclass(frozen=True, slots=True)
class Held:
    """A piece that was given out and has no lines yet. `tries`: as of a claim; `worker`: whose claim it is, empty if
    the piece was given back; `until`: when the claim runs out.
    """

    piece: Piece
    tries: int
    worker: str
    until: float


class JobRepository(Protocol):
    """Storage of jobs and results. Every method blocks, and raises JobsUnavailable while the storage does not work.

    Methods that take the name of a job raise JobNotFound. What has returned is kept, whatever dies. A claim of an
    earlier generation, a claim that another worker took over, and a claim of a job that has ended are *stale*.
    """

    def add(
        self, job: StoredJob, request: bytes, key: str | None, fingerprint: bytes, quota: Quota, size: int
    ) -> StoredJob:
        """Accept a job, whose first pieces may have `size` points. Where the same requester has sent this key with the
        same fingerprint, return that job.

        When bytes are short, remove first what ended longest ago, of whoever stores most and no less than this
        requester. Raises IdempotencyKeyReused; QueueFull where the requester holds as much as is free.
        """
        ...

    def get(self, name: str) -> StoredJob:
        """Return the job as it is now."""
        ...

    def request(self, name: str) -> bytes:
        """Return the request of a job as it was sent. A job that has ended has none: raises JobNotFound."""
        ...

    def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        """Return jobs of a requester, or of all (None), newest first. Raises InvalidCursor."""
        ...

    def cancel(self, name: str) -> StoredJob:
        """End a job that has not ended."""
        ...

    def results(self, name: str, start: int, most: int = 1) -> Sequence[StoredPiece]:
        """Return the first pieces with points from `start` on, in the order of their points."""
        ...

    def claim(self, engine_version: str, worker: str, seconds: float) -> ClaimedPiece | None:
        """Return the next piece of a job of this version, for so many seconds; None if there is nothing to compute.

        Requesters take turns. Of one requester, the jobs of the lowest class of work come first (`sizes.work_class` of
        the estimated cost of the points given out), the oldest of them; in every fourth turn (OLDEST_EVERY) the oldest
        job of all. A piece whose claim ran out comes back with one more try, before new pieces of its job.
        """
        ...

    def renew(self, claim: ClaimedPiece, seconds: float) -> bool:
        """Hold a claim for so many seconds more. Return False for a stale claim."""
        ...

    def save(self, claim: ClaimedPiece, lines: bytes, size: int) -> StoredJob:
        """Keep the lines of a claimed piece; the next pieces may have `size` points. Return the job as it is then.

        Nothing changes if the piece has lines already, if its halves took its place, or if the generation is another.
        Lines of a claim that another worker took over are as good as any, and are kept.
        """
        ...

    def requeue(self, claim: ClaimedPiece, pieces: Sequence[Piece], tries: int) -> None:
        """Give a claimed piece back as these pieces with this number of tries; nothing for a stale claim. The next
        pieces of the job have no more points than the first of these.
        """
        ...

    def fail(self, name: str, generation: int, problem: bytes) -> StoredJob:
        """End a job of this generation that has not ended, with a problem; else change nothing."""
        ...

    def begin_anew(self, name: str, generation: int, engine_version: str, digest: str, size: int) -> StoredJob:
        """Delete the results of an active job of this generation and make it one of this version: queued, with the next
        generation. Change nothing in another generation.
        """
        ...

    def announce(self, worker: str, engine_version: str) -> None:
        """Record that a worker of this version is here now. Workers call this every few seconds."""
        ...

    def orphans(self, engine_version: str, seconds: float) -> Sequence[StoredJob]:
        """Return active jobs of other versions that have not changed for so many seconds, and of whose version no
        worker announced itself within that time.
        """
        ...

    def purge(self, now: float, quota: Quota, age_seconds: float) -> Sequence[tuple[StoredJob, JobsError]]:
        """Remove what has expired. While more than the quota is stored, remove what ended longest ago, of whoever
        stores most. Return the active jobs that have to end, and why: JobTooOld for those accepted more than
        `age_seconds` ago; ResultsTooLarge for the largest one, when only active jobs are left above the quota.
        """
        ...

    def active(self) -> Sequence[StoredJob]:
        """Return all jobs that have not ended, the oldest first."""
        ...

    def announced(self) -> Sequence[Worker]:
        """Return those who announced themselves within the last minutes."""
        ...

    def held(self, name: str) -> Sequence[Held]:
        """Return the pieces of a job that were given out and have no lines yet, in the order of their points."""
        ...

    def probe(self) -> None:
        """Write something that changes nothing. Raises JobsUnavailable where nothing can be written."""
        ...

    def remove(self, name: str) -> None:
        """Remove a job with its results and its key before it expires; end it first, if it has not ended."""
        ...

    def close(self) -> None:
        """Let go of the storage."""
        ...
