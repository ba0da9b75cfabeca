"""Settings: one frozen value, read from PRIVACY_BOUNDS_* when it is made, never at import."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
CostUnits = Annotated[int, Field(ge=0, description="Work units of about one microsecond of CPU time.")]


def default_worker_count() -> int:
    """One core stays with the event loop; more than four workers is a decision, not a default."""
    return min(4, max(1, (os.cpu_count() or 2) - 1))


class Settings(BaseSettings):
    """Everything that can be set. There is no host or port here: they belong to the server (`privacy-bounds serve`)."""

    model_config = SettingsConfigDict(env_prefix="PRIVACY_BOUNDS_", frozen=True, extra="forbid")

    redis_url: SecretStr | None = Field(
        default=None,
        description="`redis://`, `rediss://` or `unix://` address; absent: results are kept in memory only.",
    )
    redis_timeout_seconds: Seconds = Field(
        default=0.003, description="The longest that a request waits for one answer of Redis; then it does without."
    )
    redis_cost_floor: CostUnits = Field(
        default=1_000,
        description="Cheaper computations are not looked up in Redis, because asking costs as much as computing.",
    )
    result_ttl_seconds: Count = Field(default=30 * 86_400, description="How long Redis keeps a result.")
    ground_truth_ttl: Count = Field(default=180, description="Days for which Redis keeps a ground truth.")

    memory_cache_entries: Count = Field(
        default=4_096, description="Results kept in memory, least recently used go first."
    )
    memory_cache_bytes: Count = Field(default=32 * 2**20, description="Bytes of results kept in memory.")

    max_body_bytes: Count = Field(default=2**19, description="Longer request bodies answer 413.")
    max_upload_bytes: Count = Field(
        default=2**26, description="Longer archives of arrays answer 413; four of this size are held at once."
    )
    inline_cost_limit: CostUnits = Field(
        default=8_000, description="Dearer computations leave the event loop for a worker process."
    )
    max_cost: CostUnits = Field(default=20_000_000, description="Dearer computations are refused before they start.")

    worker_count: Count = Field(
        default_factory=default_worker_count, description="Worker processes; each starts when it is first needed."
    )
    worker_niceness: Annotated[int, Field(ge=0, le=19)] = Field(
        default=10, description="Scheduling niceness of workers, so that cheap requests stay quick beside dear ones."
    )
    worker_memory_limit_bytes: Annotated[int, Field(ge=256 * 2**20)] = Field(
        default=2**30, description="Data segment limit of a worker process."
    )
    time_limit_seconds: Seconds = Field(default=30.0, description="A worker is killed at this time; the answer is 504.")
    queue_limit: Count = Field(default=64, description="Dear computations that may wait for a worker; then 503.")
    queue_wait_limit_seconds: Seconds = Field(
        default=30.0, description="The longest estimated wait for a worker that is accepted; then 503."
    )

    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="`info` writes one event per request, `warning` only what went wrong."
    )
