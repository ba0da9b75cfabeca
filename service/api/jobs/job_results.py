"""Results of jobs that may be served: quarantined results are refused, and signed statements are made here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import Request, Response
from pydantic_core import from_json

from service.api.dependencies import AppServices
from service.api.jobs.streams import NO_STORE
from service.api.signed_responses import statement_response
from service.execution.errors import ResultQuarantined
from service.jobs.job import StoredJob
from service.jobs.job_plan import resource_at
from service.jobs.results_codec import PROBLEM, stored_response
from service.problems import NoStatement
from service.rendering.registry import JSON
from service.resources.sweeps.problems import is_lasting
from service.signing.size_limit import LARGEST_ENVELOPE, TOO_LONG
from service.telemetry.http import request_context

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
OFFERED: Final = (JSON, NDJSON, CSV)
NOT_SUCCEEDED: Final = "Only a job that succeeded has a signed statement. Ask for JSON."
LIMITED: Final = (
    "Some points of this job have no answer because of a limit of this service or a dispute. Another run may answer "
    "them. Ask for JSON, or send a job without these points."
)


async def refuse_quarantined(services: AppServices, job: StoredJob) -> None:
    """Raise ResultQuarantined if two engines dispute the result of a job of a single request.

    The dispute may be known to this instance, or marked in Redis by another instance. The stored result is also refused
    if it has a number of a disputed run. Do nothing for a job of several points.
    """
    computation, results = resource_at(job.resource), services.runner.results
    if computation.chunking is not None:
        return
    await results.find((computation.name,), job.digest)
    kept = await services.jobs.single_result(job.id) if results.quarantine.runs else None
    if kept is not None and await results.rests_on_disputed(stored_response(kept.lines)):
        raise ResultQuarantined(job.digest)


async def signed_results(request: Request, job_id: str, services: AppServices) -> Response:
    """Return the signed statement about the results of the job `job_id`.

    Raise NoStatement if the job has not succeeded, if a point failed for a reason that another run may not have, if the
    results are too long, or without a signing key. Raise JobNotFound for an unknown job.
    """
    requester = request_context(request.scope).requester
    job = await services.jobs.get(job_id, requester)
    if job.state != "succeeded":
        raise NoStatement(OFFERED, NOT_SUCCEEDED)
    if resource_at(job.resource).chunking is None:
        await refuse_quarantined(services, job)
        kept = await services.jobs.single_result(job_id)
        if kept is None:
            raise NoStatement(OFFERED, NOT_SUCCEEDED)
        return await statement_response(request, job.digest, stored_response(kept.lines), NO_STORE)
    lines = await _all_lines(services, job, requester)
    return await statement_response(request, job.digest, lines, NO_STORE, kind="job")


async def _all_lines(services: AppServices, job: StoredJob, requester: str) -> bytes:
    size, lines = 0, list[bytes]()
    async for part in services.jobs.stream_results(job.id, requester, 0):
        lines += part
        size += sum(map(len, part))
        if size > LARGEST_ENVELOPE:
            raise NoStatement(OFFERED, TOO_LONG)
    if job.failed and not all(map(is_lasting, _problem_types(lines))):
        raise NoStatement(OFFERED, LIMITED)
    return b"\n".join(lines) + b"\n"


def _problem_types(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        if PROBLEM in line:
            found: dict[str, Any] = from_json(line)
            yield found["problem"]["type"]
