"""Settings about jobs, their limits and where they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from service.settings.fields import PREFIX, CostUnits, Count, Seconds, SettingsFields, default_worker_count


class JobSettings(SettingsFields):
    """Settings about jobs, their limits and where they are stored."""

    jobs_backend: Literal["embedded", "celery"] = Field(
        default="embedded",
        description="Backend for jobs. embedded: processes of this instance. celery: workers of a cluster "
        "(`privacy-bounds worker`), which need `REDIS_URL` and `SEAL_KEY`.",
    )
    data_folder: Path | None = Field(
        default=None,
        description="Folder of embedded jobs, of API keys in files and of quarantined results. Absent: "
        "`privacy-bounds serve` uses `privacy-bounds` below `$XDG_STATE_HOME` or `~/.local/state`.",
    )
    job_workers: Count = Field(
        default_factory=default_worker_count,
        description=(
            "Number of worker processes for jobs, of `serve` with embedded jobs or of one `worker`. They "
            "run only while jobs exist."
        ),
    )
    job_points: Count = Field(default=1_000_000, description="Largest number of points in a job.")
    job_max_cost: CostUnits = Field(
        default=40_000_000_000,
        description="Highest estimated cost of a job. The service rejects jobs that certainly cost more.",
    )
    job_time_limit_seconds: Seconds = Field(
        default=600.0,
        description=(
            "Time limit of a job with a single request, in seconds. Points of sweeps have the limit "
            "`TIME_LIMIT_SECONDS`."
        ),
    )
    jobs_at_once: Count = Field(
        default=1_000,
        description=(
            "Number of waiting and running jobs. One client may have at most half of them. "
            "Above the limit, requests receive status 503."
        ),
    )
    job_stored_bytes: Count = Field(
        default=2**30,
        description="Bytes of requests and results of all jobs. One client may use at most half. Above the limit, "
        "the service deletes the jobs that ended first, starting with the client that uses most. If that "
        "is not enough, requests receive status 503.",
    )
    job_age_limit_seconds: Seconds = Field(
        default=7 * 86_400, description="Age limit of a job in seconds. A job that has not ended by then fails."
    )
    job_ttl_seconds: Count = Field(
        default=7 * 86_400, description="Seconds for which a job and its results are kept after the end of the job."
    )

    @field_validator("jobs_backend")
    @classmethod
    def _has_what_it_needs(cls, backend: str, info: ValidationInfo) -> str:
        if backend == "celery" and not (info.data.get("redis_url", True) and info.data.get("seal_key", True)):
            raise ValueError(f"celery needs {PREFIX}REDIS_URL and {PREFIX}SEAL_KEY")
        return backend
