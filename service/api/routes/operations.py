"""Routes `GET /livez`, `/readyz` and `/metrics` for operators."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from api_schemas.operations import LiveResponse, ReadyResponse
from service.access.caller import caller_of
from service.api.access_layer import require_scope
from service.api.dependencies import InjectedServices
from service.api.openapi.document import problems

router = APIRouter(tags=["operations"])
details_router = APIRouter(tags=["operations"])
"""Routes with details. If operators have a port of their own, only that port serves them."""
verdict_router = APIRouter(tags=["operations"])
"""Routes without details, for the public port when operators have a port of their own."""

Verbose = Annotated[
    str | None, Query(description="List the checks even if all of them succeed. Any value has this effect.")
]
UNREADY: Final = 503


@router.get("/livez")
async def livez() -> LiveResponse:
    """Report that the process responds. The check depends on no other component."""
    return LiveResponse(status="live")


@details_router.get(
    "/readyz",
    response_model=ReadyResponse,
    responses={
        UNREADY: {"description": "The service cannot answer. The checks give the reasons.", "model": ReadyResponse},
        **problems(422),
    },
)
async def readyz(request: Request, services: InjectedServices, verbose: Verbose = None) -> Response:
    """Report whether the service can answer.

    The check recomputes a known answer and examines workers and Redis. Without Redis, the service is ready, but
    degraded. If the service requires credentials, only callers with the scope `metrics` receive the checks.
    """
    if verbose is not None:
        require_scope(request.scope, "metrics")
    report = services.readiness.report()
    may_see = "metrics" in caller_of(request.scope).scopes
    return _readiness_response(report, shows_checks=may_see and (verbose is not None or report.status != "ready"))


@verdict_router.get("/readyz", response_model=ReadyResponse, name="readyz")
async def verdict(services: InjectedServices) -> Response:
    """Report whether the service can answer, without details. The operator port serves the details."""
    return _readiness_response(services.readiness.report(), shows_checks=False)


@details_router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(services: InjectedServices) -> Response:
    """Return metrics in the Prometheus text format."""
    return Response(await services.metrics.shared_exposition.text(), media_type=CONTENT_TYPE_LATEST)


def _readiness_response(report: ReadyResponse, *, shows_checks: bool) -> Response:
    status = UNREADY if report.status == "unready" else 200
    shown = report if shows_checks else ReadyResponse(status=report.status, checks=())
    return Response(shown.json_bytes(), status, {"Cache-Control": "no-store"}, "application/json")
