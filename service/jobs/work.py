"""What a job is about: its request as a value, how many points it has, and the pieces of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

from pydantic import BaseModel

from api_schemas.jobs import JobLimits
from api_schemas.problems import FieldError
from service.computations.abstract import Computation, Quote
from service.computations.catalogue import RESOURCES, resource
from service.computations.digest import digest as request_digest
from service.jobs.errors import InvalidJob
from service.jobs.job import Piece, StoredJob
from service.jobs.lines import PieceOf
from service.jobs.repository import Quota
from service.jobs.sizes import LARGEST_PIECE, PIECE_LIMIT_SECONDS
from service.parsing import RequestValidator, parse_request

VERSION: Final = "/v1/"
StoreAnswer: TypeAlias = Callable[[Computation[Any, Any], str, bytes, int, str], None]
"""Stores an answer: its computation, digest, body, cost and requester."""


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may be. `single_seconds`: of a computation that is the whole job; `point_seconds`: of one point among
    several; `kept_seconds`: how long a job is kept after its end; `age_seconds`: how long it may wait and run;
    `stored_bytes`: of requests and results of all jobs.
    """

    points: int
    cost: int
    single_seconds: float
    point_seconds: float
    at_once: int
    kept_seconds: int
    age_seconds: float
    stored_bytes: int

    @property
    def quota(self) -> Quota:
        """The limits of all jobs together."""
        return Quota(self.at_once, self.stored_bytes)

    def told(
        self, backend: Literal["embedded", "celery"], promises: tuple[str, ...], *, survives_restart: bool
    ) -> JobLimits:
        """As clients are told, with what a backend promises."""
        return JobLimits(
            backend=backend,
            survives_restart=survives_restart,
            points=self.points,
            cost=self.cost,
            time_limit_seconds=self.single_seconds,
            at_once=self.at_once,
            stored_bytes=self.stored_bytes,
            age_limit_seconds=self.age_seconds,
            kept_seconds=self.kept_seconds,
            promises=promises,
        )


@final
@dataclass(frozen=True, slots=True)
class JobWork:
    """A validated request and what is computed of it."""

    computation: Computation[Any, Any]
    request: BaseModel
    total: int

    @property
    def quote(self) -> Quote:
        """What all of it costs. Raises PrivacyComputationError for what is refused by its description alone."""
        pieces = self.computation.pieces
        return (self.computation if pieces is None else pieces).quote(self.request)

    def digest(self, engine_version: str) -> str:
        """The name of its result."""
        return request_digest(self.computation.name, engine_version, self.request)

    @property
    def largest_piece(self) -> int:
        """The most points of one computation."""
        pieces = self.computation.pieces
        return 1 if pieces is None else min(LARGEST_PIECE, pieces.largest_piece(self.request))

    def piece(self, piece: Piece) -> tuple[PieceOf, BaseModel]:
        """What a worker process is to compute, and of what."""
        pieces = self.computation.pieces
        part = self.request if pieces is None else pieces.piece(self.request, piece.start, piece.stop)
        return PieceOf(self.computation.name, piece.start), part

    def limit_seconds(self, piece: Piece, limits: Limits) -> float:
        """After how long a worker is ended that computes this piece."""
        if self.computation.pieces is None:
            return limits.single_seconds
        return limits.point_seconds if piece.points == 1 else PIECE_LIMIT_SECONDS


def computation_at(path: str) -> Computation[Any, Any]:
    """The resource at this path below /v1/. Raises InvalidJob."""
    for name in RESOURCES:
        if resource(name).path == VERSION + path:
            return resource(name)
    detail = f"Must be one of {', '.join(name_of(resource(name)) for name in RESOURCES)}."
    raise InvalidJob((FieldError(pointer="/resource", detail=detail),))


def name_of(computation: Computation[Any, Any]) -> str:
    """What a resource is called in a job."""
    return computation.path.removeprefix(VERSION)


def work_of(computation: Computation[Any, Any], sent: bytes, validate: RequestValidator) -> JobWork:
    """The work that a request is, as it was sent. Raises RequestBodyError."""
    pieces = computation.pieces
    if pieces is None:
        return JobWork(computation, parse_request(computation.request_type, sent, validate), 1)
    request = parse_request(pieces.request_type, sent, validate)
    return JobWork(computation, request, pieces.points(request))


def work_of_job(job: StoredJob, request: bytes, validate: RequestValidator) -> JobWork:
    """Return the work of a job that was accepted."""
    return work_of(computation_at(job.resource), request, validate)
