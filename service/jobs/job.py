"""Records of jobs, of their chunks and of the results of chunks."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from api_schemas.jobs import JobState
from service.execution.client import owner_of

ID_BYTES: Final = 24
"""Random bytes of an id, which cannot be guessed. Only the owner of a job may read and cancel it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """Job in the storage, without its request. Times are seconds since 1970.

    `requester` is the quota key of the client, and `request_id` the id of the HTTP request that sent the job, for the
    log. `resource` is the path of the resource below `/v1/`, such as `bounds`. All results have the same `digest` (of
    the request) and `engine_version`. `generation` counts how often another engine version restarted the job. `cost` is
    the estimate for all points in microseconds of CPU time. `total`, `done` and `failed` count points; failed points
    count as done. `revision` grows with every change. The job may be deleted at `expires`, which is `kept_seconds`
    after its end; before its end, `expires` is the latest possible value. `problem` is the JSON problem document of a
    failed job.
    """

    id: str
    resource: str
    digest: str
    engine_version: str
    cost: int
    total: int
    created: float
    expires: float
    kept_seconds: float
    requester: str
    request_id: str = ""
    generation: int = 0
    done: int = 0
    failed: int = 0
    state: JobState = "queued"
    updated: float = 0.0
    revision: int = 1
    problem: bytes | None = None

    @property
    def owner(self) -> str:
        """Owner of the job: the group of callers that sent it, or the anonymous caller."""
        return owner_of(self.requester)


def new_id() -> str:
    """Return a random id of a job in hexadecimal digits, which no command line reads as an option."""
    return secrets.token_hex(ID_BYTES)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Range of points of a job, from `start` to `stop - 1`."""

    start: int
    stop: int

    @property
    def points(self) -> int:
        """Number of points of the chunk, `stop - start`."""
        return self.stop - self.start

    def halves(self) -> tuple[Chunk, Chunk]:
        """Return the chunk (range of points) as two chunks of at least one point each.

        The chunk must have at least two points.
        """
        middle = (self.start + self.stop) // 2
        return Chunk(self.start, middle), Chunk(middle, self.stop)


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """Results of a chunk (range of points of a job) as compressed JSON lines (`results_codec.py`)."""

    chunk: Chunk
    lines: bytes
