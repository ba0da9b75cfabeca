"""Plan of a job: the validated request, its number of points, and the task of each chunk (range of points)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

from pydantic import BaseModel

from api_schemas.jobs import JobLimits
from api_schemas.problems import FieldError
from service.jobs.chunk_sizing import CHUNK_LIMIT_SECONDS, MAX_CHUNK_POINTS
from service.jobs.errors import InvalidJob
from service.jobs.job import Chunk, StoredJob
from service.jobs.repository import Quota
from service.jobs.results_codec import ChunkTask
from service.parsing import RequestValidator, parse_request
from service.resources.abstract import Computation, Quote
from service.resources.catalogue import RESOURCES, resource
from service.resources.digest import digest as request_digest

VERSION: Final = "/v1/"
StoreAnswer: TypeAlias = Callable[[Computation[Any, Any], str, bytes, int, str], None]
"""Function that stores a result, with the arguments computation, digest, body, cost and requester."""


@final
@dataclass(frozen=True, slots=True)
class JobConstraints:
    """Limits of jobs from the settings.

    `points` and `cost` (in microseconds of CPU time) limit one job. `single_seconds` is the time limit of a job that
    consists of a single request, and `point_seconds` that of one point of a larger job. `at_once` limits the active
    jobs. A job is deleted `kept_seconds` after its end, and must end within `age_seconds`. `stored_bytes` limits the
    requests and results of all jobs.
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
        """Limits of all jobs together: number of active jobs, and stored bytes."""
        return Quota(self.at_once, self.stored_bytes)

    def to_limits_response(
        self, backend: Literal["embedded", "celery"], promises: tuple[str, ...], *, survives_restart: bool
    ) -> JobLimits:
        """Return the limits in the form of the API, with the name and the guarantees of the job `backend`.

        `promises` are the guarantees as sentences, and `survives_restart` is whether jobs outlive a restart of the
        service.
        """
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
class JobPlan:
    """Validated request of a job, with the resource that computes it and its number of points.

    A job of a single request has one point.
    """

    computation: Computation[Any, Any]
    request: BaseModel
    total: int

    @property
    def quote(self) -> Quote:
        """Estimated cost of all points, in microseconds of CPU time.

        Raise PrivacyComputationError for requests that cannot be computed.
        """
        chunks = self.computation.chunking
        return (self.computation if chunks is None else chunks).quote(self.request)

    def digest(self, engine_version: str) -> str:
        """Return the SHA-256 digest of the request of the job and of `engine_version`, as `sha256:...`."""
        return request_digest(self.computation.name, engine_version, self.request)

    @property
    def max_chunk_points(self) -> int:
        """Largest number of points that one chunk may have: 1 for a job of a single request, and at most 2000."""
        chunks = self.computation.chunking
        return 1 if chunks is None else min(MAX_CHUNK_POINTS, chunks.max_chunk_points(self.request))

    def chunk_task(self, chunk: Chunk) -> tuple[ChunkTask, BaseModel]:
        """Return the task of a worker process for a chunk (range of points), and the request for its points."""
        chunks = self.computation.chunking
        part = self.request if chunks is None else chunks.chunk_request(self.request, chunk.start, chunk.stop)
        return ChunkTask(self.computation.name, chunk.start), part

    def time_limit_seconds(self, chunk: Chunk, limits: JobConstraints) -> float:
        """Return the time limit in seconds for the computation of a chunk (range of points) under these limits.

        A job of a single request has the limit `single_seconds`, a single point `point_seconds`, and more points 8 s.
        """
        if self.computation.chunking is None:
            return limits.single_seconds
        return limits.point_seconds if chunk.points == 1 else CHUNK_LIMIT_SECONDS


def resource_at(path: str) -> Computation[Any, Any]:
    """Return the resource at a path below /v1/, such as `sweeps`. Raise InvalidJob for an unknown path."""
    for name in RESOURCES:
        if resource(name).path == VERSION + path:
            return resource(name)
    detail = f"Must be one of {', '.join(resource_path(resource(name)) for name in RESOURCES)}."
    raise InvalidJob((FieldError(pointer="/resource", detail=detail),))


def resource_path(computation: Computation[Any, Any]) -> str:
    """Return the path of the resource `computation` below /v1/, which is the `resource` of a job."""
    return computation.path.removeprefix(VERSION)


def parse_plan(computation: Computation[Any, Any], sent: bytes, validate: RequestValidator) -> JobPlan:
    """Return the plan of a job (request, resource, points) from the JSON that a client sent. Raise RequestBodyError.

    `validate` parses the JSON with limits of its size.
    """
    chunks = computation.chunking
    if chunks is None:
        return JobPlan(computation, parse_request(computation.request_type, sent, validate), 1)
    request = parse_request(chunks.request_type, sent, validate)
    return JobPlan(computation, request, chunks.points(request))


def restore_plan(job: StoredJob, request: bytes, validate: RequestValidator) -> JobPlan:
    """Return the plan of a stored job (request, resource, points) from the JSON of its request.

    `validate` parses the JSON. Raise InvalidJob if this version has no such resource, and RequestBodyError for an
    invalid request.
    """
    return parse_plan(resource_at(job.resource), request, validate)
