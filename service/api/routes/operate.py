"""Routes for the administration of jobs on the operator port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api_schemas.base import Response as ResponseModel
from api_schemas.jobs import LONGEST_CURSOR, MOST_LISTED, USUALLY_LISTED
from service.api.administration import Administration
from service.api.dependencies import AppServices, InjectedServices

router = APIRouter(prefix="/operate/jobs")
Flag = Annotated[str | None, Query(description="Present with any value or none.")]


@router.get("")
async def operated_jobs(
    services: InjectedServices,
    all_: Annotated[str | None, Query(alias="all")] = None,
    requester: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = USUALLY_LISTED,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Return active jobs, oldest first. With `all`, return a page of all jobs, newest first."""
    administration = _administration(services)
    if all_ is None:
        return await _json_response_of_thread(lambda: administration.active(requester))
    return await _json_response_of_thread(lambda: administration.all(requester, limit, cursor))


@router.delete("")
async def purge_jobs(services: InjectedServices, ended: Flag = None) -> Response:
    """Remove expired jobs, or with `ended` all ended jobs. HTML forms cannot send DELETE."""
    administration = _administration(services)
    return await _json_response_of_thread(lambda: administration.purge(None, ended=ended is not None))


@router.get("/{job_id}")
async def operated_job(job_id: str, services: InjectedServices) -> Response:
    """Return a job, and why it does not progress."""
    administration = _administration(services)
    return await _json_response_of_thread(lambda: administration.show(job_id))


@router.delete("/{job_id}")
async def operate_cancel(job_id: str, services: InjectedServices, purge: Flag = None) -> Response:
    """Cancel a job. With `purge`, remove it with its results."""
    administration = _administration(services)
    if purge is not None:
        return await _json_response_of_thread(lambda: administration.purge(job_id, ended=True))
    return await _json_response_of_thread(lambda: administration.cancel(job_id))


def _administration(services: AppServices) -> Administration:
    return Administration(services.jobs.repository, services.settings.job_age_limit_seconds)


async def _json_response_of_thread(call: Callable[[], ResponseModel]) -> Response:
    found = await asyncio.to_thread(call)
    return Response(found.json_bytes(), headers={"Cache-Control": "no-store"}, media_type="application/json")
