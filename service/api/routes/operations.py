"""GET /livez, /readyz and /metrics: for those who run the service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST

from api_schemas.operations import LiveResponse, ReadyResponse
from service.api.dependencies import UsedServices
from service.api.documentation import problems

router = APIRouter(tags=["operations"])

Verbose = Annotated[
    str | None, Query(description="Present with any value or none: list the checks even when all is well.")
]


@router.get("/livez")
async def livez() -> LiveResponse:
    """The process answers. It depends on nothing else."""
    return LiveResponse(status="live")


@router.get(
    "/readyz",
    response_model=ReadyResponse,
    responses={
        503: {"description": "The service cannot answer; the checks say why.", "model": ReadyResponse},
        **problems(422),
    },
)
async def readyz(services: UsedServices, verbose: Verbose = None) -> Response:
    """A known answer is computed and compared; workers and Redis are looked at. Without Redis: degraded, and ready."""
    report = services.readiness.report()
    status = 503 if report.status == "unready" else 200
    if verbose is None and report.status == "ready":
        report = ReadyResponse(status=report.status, checks=())
    return Response(report.json_bytes(), status, {"Cache-Control": "no-store"}, "application/json")


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(services: UsedServices) -> Response:
    """Metrics in the Prometheus text format."""
    return Response(services.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
