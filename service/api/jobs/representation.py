"""Representation of jobs in responses."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import Response

from api_schemas.jobs import JobProgress, JobResponse
from api_schemas.problems import Problem
from service.jobs.job import StoredJob


def job_response(job: StoredJob) -> JobResponse:
    """Return a job in the form of the API."""
    return JobResponse(
        id=job.id,
        resource=job.resource,
        state=job.state,
        progress=job_progress(job),
        digest=job.digest,
        engine_version=job.engine_version,
        estimated_cost=job.cost,
        created_at=_time(job.created),
        updated_at=_time(job.updated),
        expires_at=_time(job.expires),
        problem=None if job.problem is None else Problem.model_validate_json(job.problem),
    )


def accepted_response(job: StoredJob, **headers: str) -> Response:
    """Return a response 202 with the job as JSON, its `Location`, and further headers."""
    more = {"Location": f"/v1/jobs/{job.id}", "Retry-After": "1", "Cache-Control": "no-store", **headers}
    return Response(job_response(job).json_bytes(), 202, more, "application/json")


def job_progress(job: StoredJob) -> JobProgress:
    """Return how many points of a job are completed, failed, and in total."""
    return JobProgress(done=job.done, failed=job.failed, total=job.total)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
