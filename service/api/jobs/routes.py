"""Routes of `/v1/jobs` and `/v1/estimates`. Docstrings of route functions are published descriptions."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from api_schemas.jobs import (
    ENDED,
    JOB_EXAMPLES,
    LARGEST_PAGE,
    LONGEST_CURSOR,
    LONGEST_KEY,
    MOST_LISTED,
    USUAL_PAGE,
    USUALLY_LISTED,
    EstimatesResponse,
    JobRequest,
    JobResponse,
    JobResultsPage,
    JobsPage,
    Place,
)
from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.content_negotiation import requested_media_type
from service.api.dependencies import InjectedServices
from service.api.jobs.async_preference import job_sender, store_job_request
from service.api.jobs.csv_stream import CsvWriter
from service.api.jobs.job_results import CSV, NDJSON, refuse_quarantined, signed_results
from service.api.jobs.representation import accepted_response, job_progress, job_response
from service.api.jobs.streams import EVENTS, NO_STORE, JobStreamResponse, event_stream, result_stream
from service.api.openapi.document import SCHEMA_REFERENCE, SIGNED, problems
from service.api.request_reading import read_json_body
from service.api.responses import ChunkedBodyResponse
from service.api.signed_responses import negotiate_with_statement
from service.engine_version import ENGINE_VERSION
from service.jobs.errors import PageBeyondEnd
from service.jobs.job import StoredJob
from service.jobs.job_plan import JobPlan, resource_at, resource_path
from service.jobs.results_codec import extract_response
from service.jobs.service import JobService
from service.problems import InvalidParameter
from service.rendering.registry import JSON
from service.resources.abstract import Quote
from service.resources.cost_range import cost_range
from service.telemetry.http import request_context

router = APIRouter(tags=["jobs"])

ANYTHING: Final[dict[str, Any]] = {}
"""Schema of a stream of events, which OpenAPI cannot describe."""

_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": SCHEMA_REFERENCE.format(model=JobRequest.__name__)}, "examples": JOB_EXAMPLES}
        },
    }
}
_JOB_PROBLEMS: Final = problems(404, 422, 500, 503)
JobId = Annotated[
    str,
    Path(
        max_length=64,
        description="Identifier of the job, from its field `id`.",
        openapi_examples={
            "a_job": {"value": "0123456789abcdefghijklmnopqrstuv"},
            "another": {"value": "vutsrqponmlkjihgfedcba9876543210"},
        },
    ),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description=f"Key of the client, up to {LONGEST_KEY} visible characters. Repeated requests with the same key "
        "and body give the same job.",
    ),
]


@router.post(
    "/v1/jobs",
    status_code=202,
    response_model=JobResponse,
    responses=problems(400, 413, 415, 422, 429, 500, 503),
    openapi_extra=_BODY,
)
async def submit_job(request: Request, services: InjectedServices, _idempotency_key: Key = None) -> Response:
    """Submit a request of any resource as a job. A sweep in a job may have up to one million points."""
    sender = job_sender(request)
    body = await read_json_body(request, services)
    read = await services.runner.request_thread.call(sender.requester, services.jobs.parse, body)
    plan, _, quote = read
    await store_job_request(services.runner, plan, plan.digest(ENGINE_VERSION), quote, sender)
    return accepted_response(await services.jobs.enqueue(*read, sender))


def _quote(jobs: JobService, body: bytes) -> tuple[JobPlan, str, Quote]:
    plan, _, quote = jobs.parse(body)
    return plan, plan.digest(ENGINE_VERSION), quote


@router.post(
    "/v1/estimates", response_model=EstimatesResponse, responses=problems(400, 413, 415, 422, 500), openapi_extra=_BODY
)
async def estimate(request: Request, services: InjectedServices) -> Response:
    """Estimate the cost, the engine and the process of a request without computing its answer."""
    body, requester = await read_json_body(request, services), request_context(request.scope).requester
    plan, digest, quote = await services.runner.request_thread.call(requester, _quote, services.jobs, body)
    settings = services.settings
    job_limit = services.jobs.largest_cost(plan.computation)
    place: Place = "nowhere" if quote.minimum > job_limit or plan.total > services.jobs.limits.points else "job"
    chunking = plan.computation.chunking
    waits = chunking is None or plan.total <= chunking.largest_points
    if place == "job" and waits and services.runner.is_within_budget(plan.computation, quote):
        place = "event_loop" if quote.inline else "worker"
    waits = place in ("event_loop", "worker")
    seconds = settings.time_limit_seconds if waits else settings.job_time_limit_seconds * plan.total
    response = EstimatesResponse(
        resource=resource_path(plan.computation),
        digest=digest,
        points=plan.total,
        cost=quote.cost,
        least_cost=quote.minimum,
        most_cost=quote.ceiling or None,
        **asdict(cost_range(plan.computation.name, quote, seconds)),
        engine=quote.engine,
        place=place,
        limit=settings.max_cost,
        job_limit=job_limit,
        time_limit_seconds=settings.time_limit_seconds,
        job_time_limit_seconds=settings.job_time_limit_seconds,
        memory_bytes=settings.worker_memory_limit_bytes,
    )
    return Response(response.json_bytes(), headers=NO_STORE, media_type=JSON)


@router.get("/v1/jobs", response_model=JobsPage, responses=problems(422, 500, 503))
async def list_jobs(
    request: Request,
    services: InjectedServices,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="Number of jobs on a page.")] = USUALLY_LISTED,
    cursor: Annotated[
        str | None,
        Query(max_length=LONGEST_CURSOR, description="Value of `next` of the previous page. Default: the first page."),
    ] = None,
) -> Response:
    """List the jobs of the caller's group, newest first.

    A caller without credentials is identified by its IPv4 address or its IPv6 /64 network.
    """
    page = await services.jobs.list(_requester(request), limit, cursor)
    response = JobsPage(jobs=tuple(map(job_response, page.jobs)), next=page.next)
    return Response(response.json_bytes(), headers=NO_STORE, media_type=JSON)


@router.get("/v1/jobs/{job_id}", response_model=JobResponse, responses=_JOB_PROBLEMS)
async def job(request: Request, job_id: JobId, services: InjectedServices) -> Response:
    """Return state and progress of a job."""
    return _job_json(await services.jobs.get(job_id, _requester(request)))


@router.delete("/v1/jobs/{job_id}", response_model=JobResponse, responses=_JOB_PROBLEMS)
async def cancel_job(request: Request, job_id: JobId, services: InjectedServices) -> Response:
    """Cancel a job at once. Completed results remain available, and a finished job does not change."""
    return _job_json(await services.jobs.cancel(job_id, _requester(request)))


@router.get(
    "/v1/jobs/{job_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events `progress`, followed by a final event `ended`. The field `data` "
            "is the job as JSON.",
            "content": {EVENTS: ANYTHING},
        },
        204: {"description": "The job has ended, and `Last-Event-ID` names its final event."},
    }
    | problems(404, 406, 422, 500, 503),
)
async def job_events(
    request: Request,
    job_id: JobId,
    services: InjectedServices,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="Identifier of the last received event.")
    ] = None,
) -> Response:
    """Stream the progress of a job, with at least one event every two seconds."""
    requested_media_type(request, (EVENTS,))
    after = _parse_last_event_id(last_event_id)
    now = await services.jobs.get(job_id, _requester(request))
    if now.state in ENDED and after == now.revision:
        return Response(status_code=204, headers=NO_STORE)
    stream = event_stream(services.jobs, job_id, _requester(request), after)
    return JobStreamResponse(services.jobs, stream, EVENTS)


@router.get(
    "/v1/jobs/{job_id}/results",
    response_model=JobResultsPage,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}, CSV: {"schema": {"type": "string"}}} | SIGNED}}
    | problems(404, 406, 422, 500, 503),
)
async def job_results(
    request: Request,
    job_id: JobId,
    services: InjectedServices,
    start: Annotated[int, Query(ge=0, description="Index of the first point, from 0.")] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Number of points on a page.")] = USUAL_PAGE,
) -> Response:
    """Return available results by pages, during and after the job.

    NDJSON and CSV responses stream all points from the first point until the job ends. A service with a signing key
    also has a signed statement about all points of a job that succeeded.
    """
    jobs = services.jobs
    media_type = negotiate_with_statement(request, services, (JSON, NDJSON, CSV))
    if media_type == ENVELOPE_MEDIA_TYPE:
        return await signed_results(request, job_id, services)
    if media_type == JSON:
        read, lines, following = await jobs.results(job_id, _requester(request), start, limit)
        computation = resource_at(read.resource)
        await refuse_quarantined(services, read)
        if read.state == "succeeded" and computation.chunking is None and lines:
            # Clients ask for other forms of the answer next.
            services.runner.results.store(
                computation, read.digest, extract_response(lines[0]), read.cost, read.requester
            )
        head = JobResultsPage(id=job_id, state=read.state, progress=job_progress(read), points=(), next=following)
        before, _, after = head.json_bytes().partition(b'"points":[')
        return ChunkedBodyResponse(before + b'"points":[' + b",".join(lines) + after, headers=NO_STORE, media_type=JSON)
    read = await jobs.get(job_id, _requester(request))
    await refuse_quarantined(services, read)
    if start >= read.total:
        raise PageBeyondEnd(read.total)
    computation = resource_at(read.resource)
    if media_type == CSV and computation.chunking is None:
        requested_media_type(request, (JSON, NDJSON))
    table = CsvWriter(computation.chunking.cells) if media_type == CSV and computation.chunking is not None else None
    stream = result_stream(jobs, job_id, _requester(request), start, table)
    return JobStreamResponse(services.jobs, stream, media_type)


def _requester(request: Request) -> str:
    return request_context(request.scope).requester


def _job_json(read: StoredJob) -> Response:
    return Response(job_response(read).json_bytes(), headers=NO_STORE, media_type=JSON)


def _parse_last_event_id(given: str | None) -> int:
    if given is None or given == "":
        return 0
    if not re.fullmatch(r"[0-9]{1,15}", given):
        raise InvalidParameter("Last-Event-ID", "Must be the `id` of an event of this job.")
    return int(given)
