"""What a job is, and what keeps one: the protocol that both backends have."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from api_schemas.jobs import JobState

ID_BYTES: Final = 24
"""192 bits: nobody guesses the id of a job, and who has it may read and cancel the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is kept.

    `request`: as it was sent, which is parsed again where it is computed. `digest`, `engine_version`: of the request,
    and of all its results. `cost`: estimate for all points in microseconds of CPU. `total`, `done`, `failed`: points;
    those that failed are done. `revision`: grows with every change. Times are seconds since 1970. `problem`: why it
    failed, as JSON.
    """

    id: str
    resource: str
    request: bytes
    digest: str
    engine_version: str
    cost: int
    total: int
    created: float
    expires: float
    done: int = 0
    failed: int = 0
    state: JobState = "queued"
    updated: float = 0.0
    revision: int = 1
    problem: bytes | None = None


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(ID_BYTES)


@dataclass(frozen=True, slots=True)
class Piece:
    """Points of a job, from `start` up to `stop`."""

    start: int
    stop: int

    @property
    def points(self) -> int:
        """How many there are."""
        return self.stop - self.start

    def halves(self) -> tuple[Piece, Piece]:
        """Two of at least one point each, of a piece that has two."""
        middle = (self.start + self.stop) // 2
        return Piece(self.start, middle), Piece(middle, self.stop)


@dataclass(frozen=True, slots=True)
class Kept:
    """The results of a piece: JSON lines, compressed (`lines.py`)."""

    piece: Piece
    lines: bytes


class JobStore(Protocol):
    """Where jobs and their results are kept. Every method blocks, and raises JobsUnavailable where it cannot.

    Those that are given an id raise JobNotFound. Whatever has returned is kept: a process may die at any moment.
    """

    def add(self, job: Job, key: str | None, fingerprint: bytes, largest_count: int, size: int) -> Job:
        """Accept a job, whose first pieces may have `size` points; or the one that has this key, where it has the same
        fingerprint. Raises IdempotencyKeyReused, and QueueFull where `largest_count` jobs wait or run.
        """
        ...

    def get(self, name: str) -> Job:
        """A job as it is now."""
        ...

    def cancel(self, name: str) -> Job:
        """End a job that has not ended."""
        ...

    def results(self, name: str, start: int, most: int = 1) -> Sequence[Kept]:
        """The first pieces that have points from `start` on, in the order of their points."""
        ...
