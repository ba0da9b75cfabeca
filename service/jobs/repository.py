"""The protocol that every backend of jobs implements: who keeps jobs, and who gives out their pieces.

A piece is *claimed* by who computes it, for so many seconds; a claim is *renewed* while it is computed, and ends when
its lines are *saved*, when it is *requeued* (whole, or as its halves), or when its job ends. A claim that is not
renewed in time is given out anew. Every change of a job's version makes a new *generation*: what belongs to an earlier
one changes nothing any more. So a job has lines of one `engine_version` only, and every point once, whoever dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from service.jobs.job import Job, Kept, Piece


@dataclass(frozen=True, slots=True)
class Quota:
    """What all jobs together may take: `jobs` that have not ended, `stored_bytes` of requests and results.

    A requester may have as much of either as is free: one of them never has more than half, two never more than two
    thirds, and who comes anew has as much as is left.
    """

    jobs: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A piece that a worker has. `generation`: of the job when it was claimed; `tries`: how many of its workers died.

    `request` of the job may be left out (b"") where the worker asked for heads alone.
    """

    job: Job
    piece: Piece
    tries: int
    generation: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first, without their requests; `next`: the cursor of the following page."""

    jobs: tuple[Job, ...]
    next: str | None


class JobRepository(Protocol):
    """Where jobs and their results are kept. Every method blocks, and raises JobsUnavailable where it cannot.

    Those that are given the name of a job raise JobNotFound. What has returned is kept, whatever dies.
    """

    def add(self, job: Job, key: str | None, fingerprint: bytes, quota: Quota, size: int) -> Job:
        """Accept a job, whose first pieces may have `size` points; or the one of the same requester that has this key,
        where it has the same fingerprint. Raises IdempotencyKeyReused; QueueFull where the requester has its share.
        """
        ...

    def get(self, name: str) -> Job:
        """A job as it is now."""
        ...

    def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        """Jobs of a requester, None: of everybody, newest first. Raises InvalidCursor."""
        ...

    def cancel(self, name: str) -> Job:
        """End a job that has not ended."""
        ...

    def results(self, name: str, start: int, most: int = 1) -> Sequence[Kept]:
        """The first pieces that have points from `start` on, in the order of their points."""
        ...

    def claim(self, engine_version: str, worker: str, seconds: float) -> Claim | None:
        """The next piece of a job of this version, for so many seconds; None: there is nothing to do.

        Requesters take turns. Of one requester those jobs come first that have had the least work, and every fourth
        time the one that has waited longest. A piece whose claim has run out comes again with one more try.
        """
        ...

    def renew(self, claim: Claim, seconds: float) -> bool:
        """Hold a claim for so many seconds more; whether it is still wanted."""
        ...

    def save(self, claim: Claim, lines: bytes, size: int) -> Job:
        """Keep the lines of a claimed piece, where it is still wanted; the next ones may have `size` points. The job as
        it is then.
        """
        ...

    def requeue(self, claim: Claim, pieces: Sequence[Piece], tries: int) -> None:
        """Give a claimed piece back as these pieces, tried so often, where it is still wanted."""
        ...

    def fail(self, name: str, problem: bytes) -> Job:
        """End a job that has not ended by a problem."""
        ...

    def begin_anew(self, name: str, generation: int, engine_version: str, digest: str, size: int) -> Job:
        """Forget the results of a job in this generation, and make it one of this version; nothing in any other one."""
        ...

    def announce(self, worker: str, engine_version: str) -> None:
        """A worker of this version is here; said every few seconds."""
        ...

    def orphans(self, engine_version: str, seconds: float) -> Sequence[str]:
        """Names of jobs of other versions, no worker of which announced itself within so many seconds."""
        ...

    def purge(self, now: float, quota: Quota, age_seconds: float) -> int:
        """Remove what has expired, and, while more than the quota is stored, what ended longest ago of the requester
        that stores most; end active jobs that are older than `age_seconds`. How many jobs were removed.
        """
        ...
