"""Limits, versions and health: `GET /v1/limits`, `/v1/version`, `/livez` and `/readyz`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from api_schemas.base import Response
from api_schemas.comparisons import LARGEST_QUANTITIES, LARGEST_RUNS
from api_schemas.curves import LARGEST_CURVE_POINTS, LARGEST_CURVES
from api_schemas.jobs import JobLimits
from api_schemas.mechanisms import LARGEST_COMPONENTS, LARGEST_DEPTH
from api_schemas.questions import LARGEST_QUESTIONS
from api_schemas.scalar_types import LARGEST_LIST, LARGEST_STEPS, LARGEST_TOTAL_STEPS
from api_schemas.sweeps import LARGEST_POINTS, LARGEST_SWEPT_NUMBERS


class RequestLimits(Response):
    """Limits of the request format, equal on every installation."""

    questions: Annotated[int, Field(description="Largest number of questions in a request.", examples=[256])]
    components: Annotated[int, Field(description="Largest number of leaves in a tree of mechanisms.", examples=[256])]
    depth: Annotated[int, Field(description="Largest number of levels in a tree of mechanisms.", examples=[16])]
    listed_numbers: Annotated[
        int, Field(description="Largest total length of the number lists of all questions.", examples=[10_000])
    ]
    curves: Annotated[int, Field(description="Largest number of curves in a request.", examples=[64])]
    curve_points: Annotated[int, Field(description="Largest total number of points of all curves.", examples=[40_000])]
    runs: Annotated[int, Field(description="Largest number of runs in a comparison.", examples=[16])]
    quantities: Annotated[
        int, Field(description="Largest number of questions and trade_off rates in a comparison.", examples=[128])
    ]
    sweep_points: Annotated[int, Field(description="Largest number of points of a sweep.", examples=[10_000])]
    sweep_numbers: Annotated[int, Field(description="Largest total number of answers of a sweep.", examples=[100_000])]
    steps: Annotated[int, Field(description="Largest number of steps of one mechanism.", examples=[1_000_000_000_000])]
    total_steps: Annotated[
        int,
        Field(
            description="Largest total number of steps of all mechanisms. The counts of nested repetitions multiply.",
            examples=[1_000_000_000_000_000],
        ),
    ]


class LimitsResponse(Response):
    """Limits on the cost and size of requests."""

    request: RequestLimits
    body_bytes: Annotated[int, Field(description="Largest size of a request body, in bytes.", examples=[1_048_576])]
    upload_bytes: Annotated[
        int, Field(description="Largest size of an archive of arrays, in bytes.", examples=[67_108_864])
    ]
    cost: Annotated[
        int,
        Field(
            description="Largest least_cost of a request, in microseconds of CPU time. Estimates may exceed the "
            "true cost by a factor of 32, and the service rejects no cheaper request.",
            examples=[20_000_000],
        ),
    ]
    inline_cost: Annotated[
        int,
        Field(
            description="Largest cost of closed forms outside worker processes, in microseconds of CPU time. "
            "Worker processes compute all other requests.",
            examples=[1_000],
        ),
    ]
    time_limit_seconds: Annotated[float, Field(description="Time limit of a computation, in seconds.", examples=[30.0])]
    may_exceed_time_limit: Annotated[
        tuple[str, ...],
        Field(
            description="Kinds of requests without a bound of their work, which may end with status 504. All "
            "other requests return the best enclosure within the time limit.",
            examples=[["method `monte_carlo`: millions of draws of many different steps"]],
        ),
    ]
    memory_bytes: Annotated[
        int, Field(description="Approximate memory limit of one computation, in bytes.", examples=[1_073_741_824])
    ]
    queued_computations: Annotated[
        int, Field(description="Largest number of computations that wait for a worker.", examples=[64])
    ]
    jobs: Annotated[JobLimits, Field(description="Limits of jobs.")]


MAY_EXCEED_TIME_LIMIT = (
    "method `monte_carlo`: millions of draws of many different steps",
    "batches drawn with replacement that may hold one record many times",
    "sweeps of runs that are not read together (anything but Poisson-sampled Gaussian steps of one kind): thousands of "
    "them, or several that are hard alone",
)

REQUEST_LIMITS = RequestLimits(
    questions=LARGEST_QUESTIONS,
    components=LARGEST_COMPONENTS,
    depth=LARGEST_DEPTH,
    listed_numbers=LARGEST_LIST,
    curves=LARGEST_CURVES,
    curve_points=LARGEST_CURVE_POINTS,
    runs=LARGEST_RUNS,
    quantities=LARGEST_QUANTITIES,
    sweep_points=LARGEST_POINTS,
    sweep_numbers=LARGEST_SWEPT_NUMBERS,
    steps=LARGEST_STEPS,
    total_steps=LARGEST_TOTAL_STEPS,
)


class VersionResponse(Response):
    """Identification of the service and its versions."""

    service: Annotated[str, Field(description="Always `privacy-bounds`.", examples=["privacy-bounds"])]
    version: Annotated[str, Field(description="Version of the software.", examples=["0.2.0"])]
    engine_version: Annotated[
        str,
        Field(
            description="Version of the numerical engine. Every digest includes this version.", examples=["2026.11.22"]
        ),
    ]


class LiveResponse(Response):
    """Response of a live process."""

    status: Annotated[Literal["live"], Field(description="Always `live`.")]


class Check(Response):
    """One readiness check of the service, with its result."""

    name: Annotated[str, Field(description="Name of the checked component.", examples=["known_answer"])]
    status: Annotated[
        Literal["ok", "degraded", "failed"],
        Field(
            description="ok: the component works. degraded: the service works without the component, but "
            "slower. failed: the service cannot answer."
        ),
    ]
    detail: Annotated[
        str, Field(description="Result of the check in words.", examples=["The known answer is correct."])
    ]


class ReadyResponse(Response):
    """Whether the service can answer. `degraded` means slower, and `unready` means unavailable."""

    status: Annotated[
        Literal["ready", "degraded", "unready"],
        Field(
            description="ready: the service can answer. degraded: the service can answer, but slower. "
            "unready: the service cannot answer."
        ),
    ]
    checks: Annotated[
        tuple[Check, ...],
        Field(description="Readiness checks. Without `verbose`, the list is empty if all checks succeed."),
    ]
