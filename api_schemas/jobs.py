"""`POST /v1/jobs` and what is below it; `POST /v1/estimates`: a request of any resource, later, or only quoted."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from api_schemas.base import Request, Response, is_none, named_schema
from api_schemas.problems import Problem

LONGEST_KEY: Final = 255
LARGEST_PAGE: Final = 10_000
USUAL_PAGE: Final = 1_000
MOST_LISTED: Final = 1_000
USUALLY_LISTED: Final = 50
LONGEST_CURSOR: Final = 64

ResourceName: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description="A resource by its path below /v1/.",
        examples=["sweeps", "bounds", "audits/glir"],
    ),
]


class JobRequest(Request):
    """A request to another resource."""

    resource: ResourceName
    request: Annotated[
        dict[str, Any],
        Field(
            description="What would be the body of a POST to that resource. A sweep may have a hundred times more "
            "points here.",
            examples=[
                {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "questions": [{"type": "advantage"}]}
            ],
        ),
    ]


JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
StateOfJob = Annotated[
    JobState,
    named_schema(
        "JobState",
        "queued: nothing of it has been computed; failed: the problem says why, and what is there stays there.",
        examples=["running"],
    ),
]
ENDED: Final[frozenset[JobState]] = frozenset({"succeeded", "failed", "cancelled"})


class JobProgress(Response):
    """How far a job is, in points: those of a sweep; any other request is one point."""

    done: Annotated[int, Field(ge=0, description="Points whose results are there.")]
    failed: Annotated[int, Field(ge=0, description="How many of them have a problem in place of an answer.")]
    total: Annotated[int, Field(ge=1, description="Points of the job.")]


class JobResponse(Response):
    """A job as it is now."""

    id: Annotated[
        str, Field(description="Names the job. Nobody can guess it: who knows it may read and cancel the job.")
    ]
    resource: ResourceName
    state: StateOfJob
    progress: JobProgress
    digest: Annotated[
        str,
        Field(pattern="^sha256:[0-9a-f]{64}$", description="Of the request; that of the result where it is one point."),
    ]
    engine_version: Annotated[str, Field(description="Version of the numbers: one for all points of the job.")]
    estimated_cost: Annotated[int, Field(description="What it was estimated at, in microseconds of CPU time.")]
    created_at: Annotated[str, Field(description="RFC 3339, UTC.", examples=["2026-11-23T12:00:00Z"])]
    updated_at: Annotated[str, Field(description="When something last became known of it.")]
    expires_at: Annotated[str, Field(description="It may be forgotten from then on.")]
    problem: Annotated[Problem | None, Field(description="Why it failed.", exclude_if=is_none)] = None


class JobsPage(Response):
    """The client's own jobs, newest first."""

    jobs: Annotated[tuple[JobResponse, ...], Field(description="As each is now.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null: there is none.")]


class JobResultsPage(Response):
    """Results that are there, in the order of their points."""

    id: Annotated[str, Field(description="Of the job.")]
    state: StateOfJob
    progress: JobProgress
    points: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            description="One object for each point: `point`, its place in the job from 0, and the members of a line of "
            "the sweep; or `response`, what a POST to the resource answers; or `problem`. A page of a job that has not "
            "ended goes as far as no point is missing."
        ),
    ]
    next: Annotated[
        int | None, Field(description="`start` of the next page, which may still be empty; null: there is none.")
    ]


Place = Literal["event_loop", "worker", "job", "nowhere"]
CostUnknown = Literal["second_engine", "lattice_spacing", "search_length", "shared_points", "parts"]


class EstimatesResponse(Response):
    """Estimated cost of a request, and where it would be computed. Nothing was computed."""

    resource: ResourceName
    digest: Annotated[
        str, Field(pattern="^sha256:[0-9a-f]{64}$", description="Of the request, as a result of it would have it.")
    ]
    points: Annotated[int, Field(ge=1, description="Points of a sweep, else 1.")]
    cost: Annotated[
        int,
        Field(
            ge=0,
            description="Estimate in microseconds of CPU time, by which requests are queued. Of closed forms it is a "
            "ceiling, which `likely` is not.",
        ),
    ]
    least_cost: Annotated[int, Field(ge=0, description="Work that is counted in any case; refusals rest on this.")]
    most_cost: Annotated[
        int | None,
        Field(
            ge=0,
            description="Allowance of counted work: what is not found for this much comes back as wide as it is known, "
            "with `tolerance_met: false`. CPU time may come to `most`. Null where nothing but the time limit ends it.",
        ),
    ]
    least: Annotated[
        int | None, Field(ge=0, description="Spent in any case: the first look suffices.", exclude_if=is_none)
    ] = None
    likely: Annotated[
        int | None,
        Field(
            ge=0,
            description="Most requests above 10 ms cost between a quarter of this and four times this, in microseconds "
            "of CPU time.",
            exclude_if=is_none,
        ),
    ] = None
    most: Annotated[
        int | None,
        Field(ge=0, description="The allowance of work or the time limit ends the request here.", exclude_if=is_none),
    ] = None
    unknown: Annotated[
        tuple[
            Annotated[
                CostUnknown,
                named_schema(
                    "CostUnknown",
                    "What decides between `least` and `most`, and is known only once it is computed. second_engine: "
                    "whether contours are narrow enough, or lattices are computed too; lattice_spacing: how fine a "
                    "lattice the tolerance needs; search_length: how many evaluations the search takes; "
                    "shared_points: how many points of the sweep are read together; parts: the description has more "
                    "parts than are looked at.",
                    examples=["second_engine"],
                ),
            ],
            ...,
        ],
        Field(description="What decides within the range; empty where the cost follows from the request."),
    ] = ()
    engine: Annotated[str, Field(description="The engine that is expected to answer; empty where there is none.")]
    place: Annotated[
        Place,
        named_schema(
            "EstimatedPlace",
            "event_loop: at once; worker: in a process, while the client waits; job: too much to wait for, send it to "
            "POST /v1/jobs or with Prefer: respond-async; nowhere: too much for a job as well.",
            examples=["worker"],
        ),
    ]
    limit: Annotated[int, Field(description="The largest cost that an answer may surely have while a client waits.")]
    job_limit: Annotated[int, Field(description="The largest cost that a job may surely have.")]
    time_limit_seconds: Annotated[float, Field(description="A computation for a waiting client is ended after this.")]
    job_time_limit_seconds: Annotated[float, Field(description="One computation of a job is ended after this.")]
    memory_bytes: Annotated[int, Field(description="A computation is ended when it needs more than about this.")]


class JobLimits(Response):
    """Which backend computes jobs, and what it promises."""

    backend: Annotated[
        Literal["embedded", "celery"],
        named_schema(
            "JobsBackend",
            "embedded: worker processes of this instance, and a file; celery: workers of a cluster, and Redis.",
            examples=["embedded"],
        ),
    ]
    survives_restart: Annotated[bool, Field(description="Whether accepted jobs go on after a restart of the service.")]
    points: Annotated[int, Field(description="Points of a job.")]
    cost: Annotated[int, Field(description="Largest cost that a job may surely have, in microseconds of CPU time.")]
    time_limit_seconds: Annotated[float, Field(description="One computation of a job is ended after this long.")]
    at_once: Annotated[int, Field(description="Jobs that may wait or run.")]
    stored_bytes: Annotated[int, Field(description="Bytes of requests and results of all jobs.")]
    age_limit_seconds: Annotated[float, Field(description="A job that has not ended so long after it was sent fails.")]
    kept_seconds: Annotated[
        int, Field(description="How long a job, its results and its Idempotency-Key are kept after its end.")
    ]
    promises: Annotated[tuple[str, ...], Field(description="What holds while parts of the service end and come back.")]


_BOUNDS: Final[dict[str, Any]] = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}
_TRUTH: Final[dict[str, Any]] = {**_BOUNDS, "method": "ground_truth", "digits": 50}
JOB_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "dpsgd_run": {
        "summary": "An answer that is fetched later.",
        "value": {"resource": "bounds", "request": _BOUNDS},
    },
    "many_digits": {
        "summary": "Fifty digits of an epsilon.",
        "value": {"resource": "bounds", "request": _TRUTH},
    },
}
