"""Records of jobs, of their pieces and of the results of pieces."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from api_schemas.jobs import JobState

ID_BYTES: Final = 24
"""192 bits: nobody guesses the id of a job. Who has the id may read and cancel the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job as it is kept, without its request.

    `requester`: who sent the job. `request_id`: of the HTTP request that sent the job, for the log. `digest`,
    `engine_version`: of the request, and of all its results. `generation`: how often another version began the job
    anew. `cost`: estimate for all points in microseconds of CPU. `total`, `done`, `failed`: points; those that failed
    are done. `revision`: grows with every change. Times are seconds since 1970. `expires`: when the job may be
    forgotten, `kept_seconds` after its end; before its end the latest possible value. `problem`: why the job failed, as
    JSON.
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


def new_id() -> str:
    """Return an id that nobody can guess."""
    return secrets.token_urlsafe(ID_BYTES)


@dataclass(frozen=True, slots=True)
class Piece:
    """Points of a job, from `start` up to `stop`."""

    start: int
    stop: int

    @property
    def points(self) -> int:
        """The number of points."""
        return self.stop - self.start

    def halves(self) -> tuple[Piece, Piece]:
        """Return two pieces of at least one point each. The piece must have two points or more."""
        middle = (self.start + self.stop) // 2
        return Piece(self.start, middle), Piece(middle, self.stop)


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """The results of a piece: JSON lines, compressed (`lines.py`)."""

    piece: Piece
    lines: bytes
