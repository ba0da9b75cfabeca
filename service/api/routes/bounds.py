"""POST /v1/bounds."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.examples import BOUNDS_EXAMPLES
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.bounds import BOUNDS


async def bounds(request: Request) -> Response:
    """What an attacker can gain from one mechanism: every question answered with a proved enclosure."""
    return await answer_computation(BOUNDS, request)


ROUTE = DirectRoute(
    "/v1/bounds",
    bounds,
    methods=["POST"],
    operation_id="bounds",
    tags=["bounds"],
    response_model=BoundsResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(BoundsRequest, BOUNDS_EXAMPLES),
)
