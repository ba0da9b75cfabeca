"""POST /v1/curves."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.curves import CurvesRequest, CurvesResponse
from api_schemas.examples import CURVES_EXAMPLES
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.curves import CURVES


async def curves(request: Request) -> Response:
    """Trade-off curves to plot, with both ends of every enclosure, and which of them is harder to attack."""
    return await answer_computation(CURVES, request)


ROUTE = DirectRoute(
    "/v1/curves",
    curves,
    methods=["POST"],
    operation_id="curves",
    tags=["curves"],
    response_model=CurvesResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(CurvesRequest, CURVES_EXAMPLES),
)
