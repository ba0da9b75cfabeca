"""POST /v1/pmp/finite."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.pmp_examples import PMP_FINITE_EXAMPLES
from api_schemas.pmp_finite import PmpFiniteRequest, PmpFiniteResponse
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.pmp.finite import PMP_FINITE


async def pmp_finite(request: Request) -> Response:
    """Practical membership privacy of a mechanism with finitely many outputs, given as a table."""
    return await answer_computation(PMP_FINITE, request)


ROUTE = DirectRoute(
    "/v1/pmp/finite",
    pmp_finite,
    methods=["POST"],
    operation_id="pmp_finite",
    tags=["pmp"],
    response_model=PmpFiniteResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(PmpFiniteRequest, PMP_FINITE_EXAMPLES),
)
