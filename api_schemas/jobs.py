"""Jobs, `POST /v1/jobs` and below: requests that are computed later. `POST /v1/estimates`: only their cost."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from api_schemas.base import EXAMPLE_DIGEST, Request, Response, is_none, named_schema
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
        description="Path of a resource below `/v1/`.",
        examples=["sweeps", "bounds", "audits/glir"],
    ),
]


class JobRequest(Request):
    """A request to another resource, to be computed as a job."""

    resource: ResourceName
    request: Annotated[
        dict[str, Any],
        Field(
            description="Request body of the resource. A sweep in a job may have one hundred times more points.",
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
        "queued: no point is computed yet. running: some points are computed or in progress. succeeded: "
        "all points are computed. failed: `problem` gives the reason, and completed results remain "
        "available. cancelled: the client cancelled the job.",
        examples=["running"],
    ),
]
ENDED: Final[frozenset[JobState]] = frozenset({"succeeded", "failed", "cancelled"})


class JobProgress(Response):
    """Progress of a job in points. A sweep has several points, and any other request has one point."""

    done: Annotated[int, Field(ge=0, description="Number of completed points.", examples=[1_200])]
    failed: Annotated[
        int, Field(ge=0, description="Number of completed points with a problem in place of an answer.", examples=[0])
    ]
    total: Annotated[int, Field(ge=1, description="Total number of points of the job.", examples=[10_000])]


class JobResponse(Response):
    """Current state of a job."""

    id: Annotated[
        str,
        Field(
            description="Identifier of the job. The identifier is secret: a client with the identifier "
            "may access and cancel the job.",
            examples=["0123456789abcdef0123456789abcdef"],
        ),
    ]
    resource: ResourceName
    state: StateOfJob
    progress: JobProgress
    digest: Annotated[
        str,
        Field(
            pattern="^sha256:[0-9a-f]{64}$",
            description="Digest of the request. A job of one point has the same digest as its result.",
            examples=[EXAMPLE_DIGEST],
        ),
    ]
    engine_version: Annotated[
        str, Field(description="Version of the numerical engine for all points of the job.", examples=["2026.11.22"])
    ]
    estimated_cost: Annotated[
        int, Field(description="Estimated cost in microseconds of CPU time.", examples=[52_000_000])
    ]
    created_at: Annotated[
        str, Field(description="Time of creation (RFC 3339, UTC).", examples=["2026-11-23T12:00:00Z"])
    ]
    updated_at: Annotated[
        str, Field(description="Time of the last change (RFC 3339, UTC).", examples=["2026-11-23T12:00:05Z"])
    ]
    expires_at: Annotated[
        str,
        Field(
            description="Time after which the service may delete the job (RFC 3339, UTC).",
            examples=["2026-11-30T12:00:05Z"],
        ),
    ]
    problem: Annotated[Problem | None, Field(description="Reason of the failure.", exclude_if=is_none)] = None


class JobsPage(Response):
    """Jobs of the client, newest first."""

    jobs: Annotated[tuple[JobResponse, ...], Field(description="Current state of each job.")]
    next: Annotated[
        str | None,
        Field(description="`cursor` of the next page. null: there is no next page.", examples=["0123456789abcdef"]),
    ]


class JobResultsPage(Response):
    """Available results, in the order of their points."""

    id: Annotated[str, Field(description="Identifier of the job.", examples=["0123456789abcdef0123456789abcdef"])]
    state: StateOfJob
    progress: JobProgress
    points: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            description="One object for each point: `point`, its index from 0, and the sweep columns, a "
            "`response` or a `problem`. A page of a running job ends before the first missing "
            "point.",
            examples=[
                [
                    {
                        "point": 0,
                        "response": {"digest": EXAMPLE_DIGEST},
                    }
                ]
            ],
        ),
    ]
    next: Annotated[
        int | None,
        Field(
            description="`start` of the next page, which may still be empty. null: there is no next page.",
            examples=[1_000],
        ),
    ]


Place = Literal["event_loop", "worker", "job", "nowhere"]
CostUnknown = Literal["second_engine", "lattice_spacing", "search_length", "shared_points", "parts"]


class EstimatesResponse(Response):
    """Estimated cost of a request, and the process that would compute the answer. The service computes no answer."""

    resource: ResourceName
    digest: Annotated[
        str,
        Field(
            pattern="^sha256:[0-9a-f]{64}$",
            description="Digest of the request, equal to the digest of its result.",
            examples=[EXAMPLE_DIGEST],
        ),
    ]
    points: Annotated[
        int, Field(ge=1, description="Number of points of a sweep. All other requests have one point.", examples=[1])
    ]
    cost: Annotated[
        int,
        Field(
            ge=0,
            description="Estimated cost in microseconds of CPU time, used for queueing. The cost of a "
            "closed form is an upper limit.",
            examples=[2_100],
        ),
    ]
    least_cost: Annotated[
        int,
        Field(
            ge=0,
            description="Smallest possible cost in microseconds of CPU time. The "
            "service rejects requests by this number.",
            examples=[1_050],
        ),
    ]
    most_cost: Annotated[
        int | None,
        Field(
            ge=0,
            description="Allowance of counted work, in microseconds of CPU time. A request that exhausts the "
            "allowance returns wide enclosures with `tolerance_met: false`. null: only the time "
            "limit ends the request.",
            examples=[20_000_000],
        ),
    ]
    least: Annotated[
        int | None,
        Field(
            ge=0,
            description="Smallest cost in microseconds of CPU time, if the first evaluation suffices.",
            examples=[1_050],
            exclude_if=is_none,
        ),
    ] = None
    likely: Annotated[
        int | None,
        Field(
            ge=0,
            description="Likely cost in microseconds of CPU time. Most requests above 10 ms cost between a "
            "quarter of this number and four times this number.",
            examples=[2_400],
            exclude_if=is_none,
        ),
    ] = None
    most: Annotated[
        int | None,
        Field(
            ge=0,
            description="Largest cost in microseconds of CPU time, by the allowance of work or the time limit.",
            examples=[20_000_000],
            exclude_if=is_none,
        ),
    ] = None
    unknown: Annotated[
        tuple[
            Annotated[
                CostUnknown,
                named_schema(
                    "CostUnknown",
                    "Factor that decides between `least` and `most`, known only after the computation. "
                    "second_engine: whether a second engine must refine wide contour results. lattice_spacing: "
                    "spacing of the lattice that the tolerance requires. search_length: number of evaluations "
                    "of the search. shared_points: number of sweep points that share one computation. parts: "
                    "the description has more parts than the estimate examines.",
                    examples=["second_engine"],
                ),
            ],
            ...,
        ],
        Field(
            description="Factors that decide between `least` and `most`. The list is empty if the request "
            "determines the cost."
        ),
    ] = ()
    engine: Annotated[
        str,
        Field(
            description="Engine that is expected to answer. The text is empty if there is no engine.",
            examples=["closed_form"],
        ),
    ]
    place: Annotated[
        Place,
        named_schema(
            "EstimatedPlace",
            "event_loop: the service computes the answer at once. worker: a worker process computes the answer "
            "while the client waits. job: the request exceeds the limit for waiting clients; use POST /v1/jobs "
            "or Prefer: respond-async. nowhere: the request exceeds the limit of jobs.",
            examples=["worker"],
        ),
    ]
    limit: Annotated[
        int,
        Field(
            description="Largest least_cost of a request while a client waits, in microseconds of CPU time.",
            examples=[20_000_000],
        ),
    ]
    job_limit: Annotated[
        int, Field(description="Largest least_cost of a job, in microseconds of CPU time.", examples=[40_000_000_000])
    ]
    time_limit_seconds: Annotated[
        float, Field(description="Time limit of a computation for a waiting client, in seconds.", examples=[30.0])
    ]
    job_time_limit_seconds: Annotated[
        float, Field(description="Time limit of one computation of a job, in seconds.", examples=[600.0])
    ]
    memory_bytes: Annotated[
        int, Field(description="Approximate memory limit of one computation, in bytes.", examples=[1_073_741_824])
    ]


class JobLimits(Response):
    """Limits and guarantees of jobs, and the backend that computes them."""

    backend: Annotated[
        Literal["embedded", "celery"],
        named_schema(
            "JobsBackend",
            "embedded: worker processes of this instance with a local file. celery: workers of a cluster with Redis.",
            examples=["embedded"],
        ),
    ]
    survives_restart: Annotated[
        bool, Field(description="Whether accepted jobs continue after a restart of the service.")
    ]
    points: Annotated[int, Field(description="Largest number of points of a job.", examples=[1_000_000])]
    cost: Annotated[
        int, Field(description="Largest least_cost of a job, in microseconds of CPU time.", examples=[40_000_000_000])
    ]
    time_limit_seconds: Annotated[
        float, Field(description="Time limit of one computation of a job, in seconds.", examples=[600.0])
    ]
    at_once: Annotated[int, Field(description="Largest number of waiting and running jobs.", examples=[1_000])]
    stored_bytes: Annotated[
        int,
        Field(
            description="Largest size of the stored requests and results of all jobs, in bytes.",
            examples=[1_073_741_824],
        ),
    ]
    age_limit_seconds: Annotated[
        float,
        Field(description="Largest age of an unfinished job, in seconds. An older job fails.", examples=[604800.0]),
    ]
    kept_seconds: Annotated[
        int,
        Field(
            description="Retention time of a finished job, its results and its Idempotency-Key, in seconds.",
            examples=[604_800],
        ),
    ]
    promises: Annotated[
        tuple[str, ...],
        Field(
            description="Guarantees of the backend during a failure or restart of parts of the service.",
            examples=[["Accepted jobs continue after a restart."]],
        ),
    ]


_BOUNDS: Final[dict[str, Any]] = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}
_TRUTH: Final[dict[str, Any]] = {**_BOUNDS, "method": "ground_truth", "digits": 50}
JOB_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "dpsgd_run": {
        "summary": "DP-SGD training run, answered later",
        "value": {"resource": "bounds", "request": _BOUNDS},
    },
    "many_digits": {
        "summary": "Epsilon with fifty digits",
        "value": {"resource": "bounds", "request": _TRUTH},
    },
}
