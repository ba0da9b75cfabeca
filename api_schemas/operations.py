"""`GET /v1/limits`, `/v1/version`, `/livez` and `/readyz`: what the service is and how it feels."""

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
    """Limits of the contract: the same on every installation."""

    questions: Annotated[int, Field(description="Questions of a request.")]
    components: Annotated[int, Field(description="Leaves of a tree of mechanisms.")]
    depth: Annotated[int, Field(description="Levels of a tree of mechanisms.")]
    listed_numbers: Annotated[int, Field(description="Numbers in the lists of all questions of a request together.")]
    curves: Annotated[int, Field(description="Curves of a request.")]
    curve_points: Annotated[int, Field(description="Points of all curves of a request together.")]
    runs: Annotated[int, Field(description="Runs of a comparison.")]
    quantities: Annotated[int, Field(description="Questions and rates of trade_off of a comparison.")]
    sweep_points: Annotated[int, Field(description="Points of a sweep.")]
    sweep_numbers: Annotated[int, Field(description="Numbers that are read at all points of a sweep together.")]
    steps: Annotated[int, Field(description="Steps of one mechanism.")]
    total_steps: Annotated[int, Field(description="Steps of all mechanisms together; nested repetitions multiply.")]


class LimitsResponse(Response):
    """Largest cost and size of requests."""

    request: RequestLimits
    body_bytes: Annotated[int, Field(description="Longest body.")]
    upload_bytes: Annotated[int, Field(description="Longest archive of arrays.")]
    cost: Annotated[
        int,
        Field(
            description="Largest cost that a request may surely have, in microseconds of CPU time: estimates of bounds "
            "and curves may be 32 times too high, and less is not refused."
        ),
    ]
    inline_cost: Annotated[
        int,
        Field(
            description="Closed forms of constant cost are computed at once while their estimates come to no more than "
            "this; everything else in a worker process, whatever its estimate."
        ),
    ]
    time_limit_seconds: Annotated[float, Field(description="A computation is ended after this long.")]
    may_exceed_time_limit: Annotated[
        tuple[str, ...],
        Field(
            description="Kinds of requests whose work is not bounded: some need longer than the limit, and are ended "
            "with status 504. All others end with an answer as wide as it is known by then."
        ),
    ]
    memory_bytes: Annotated[int, Field(description="A computation is ended when it needs more than about this.")]
    queued_computations: Annotated[int, Field(description="Computations that may wait for a worker.")]
    jobs: Annotated[JobLimits, Field(description="Requests that are computed later.")]


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
    """Which service this is."""

    service: Annotated[str, Field(description="Always privacy-bounds.", examples=["privacy-bounds"])]
    version: Annotated[str, Field(description="Version of the software.", examples=["0.1.0"])]
    engine_version: Annotated[str, Field(description="Version of the numbers; part of every digest.")]


class LiveResponse(Response):
    """Response of a process that is alive."""

    status: Annotated[Literal["live"], Field(description="Always live.")]


class Check(Response):
    """One thing the service looked at."""

    name: Annotated[str, Field(description="What was looked at.", examples=["known_answer"])]
    status: Annotated[
        Literal["ok", "degraded", "failed"], Field(description="degraded: the service works without it, slower.")
    ]
    detail: Annotated[str, Field(description="What was found.")]


class ReadyResponse(Response):
    """Whether the service can answer: `degraded` means slower, `unready` means not."""

    status: Annotated[Literal["ready", "degraded", "unready"], Field(description="degraded: ready, but slower.")]
    checks: Annotated[
        tuple[Check, ...], Field(description="What was looked at; empty when all is well, unless `verbose` is given.")
    ]
