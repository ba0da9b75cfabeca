"""Settings about computations: limits on requests, worker processes, queue and checks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.settings.fields import CostUnits, Count, Seconds, SettingsFields, default_worker_count


class ComputationSettings(SettingsFields):
    """Settings about computations: limits on requests, worker processes, queue and checks."""

    max_body_bytes: Count = Field(
        default=2**20, description="Longest request body in bytes. Longer bodies receive status 413."
    )
    max_upload_bytes: Count = Field(
        default=2**26,
        description=(
            "Longest archive of arrays in bytes. Longer archives receive status 413. All "
            "archives together may take four times this size."
        ),
    )
    max_cost: CostUnits = Field(
        default=20_000_000,
        description="Highest estimated cost of a request. The service rejects requests that certainly cost more.",
    )
    worker_count: Count = Field(
        default_factory=default_worker_count,
        description=(
            "Number of worker processes. One worker is warm before the service is ready. An additional "
            "worker takes only short computations."
        ),
    )
    worker_niceness: Annotated[int, Field(ge=0, le=19)] = Field(
        default=10,
        description=(
            "Scheduling niceness of workers. A higher value keeps inexpensive requests fast "
            "beside expensive computations."
        ),
    )
    worker_memory_limit_bytes: Annotated[int, Field(ge=256 * 2**20)] = Field(
        default=2**30, description="Data segment limit of a worker process in bytes."
    )
    time_limit_seconds: Seconds = Field(
        default=30.0,
        description="Time limit of a computation in seconds. The service then ends the worker and responds with "
        "status 504. Sweeps, bounds, curves and comparisons stop at three quarters of the limit and return what is "
        "known by then.",
    )
    queue_limit: Count = Field(
        default=64,
        description=(
            "Number of computations that may wait for a worker, and as many short ones. Above the limit, "
            "the requester with most waiting computations receives status 503."
        ),
    )
    queue_wait_limit_seconds: Seconds = Field(
        default=30.0,
        description="Longest accepted estimate of the wait for a worker, in seconds. Longer estimates "
        "receive status 503.",
    )
    cross_check_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.01,
        description="Share of the answers of `/v1/bounds` that an independent engine computes again while no request "
        "waits. 0 switches the checks off.",
    )
