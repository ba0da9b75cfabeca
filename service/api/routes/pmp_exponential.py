"""POST /v1/pmp/exponential."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.pmp_examples import PMP_EXPONENTIAL_EXAMPLES
from api_schemas.pmp_exponential import PmpExponentialRequest, PmpExponentialResponse
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.pmp.exponential import PMP_EXPONENTIAL


async def pmp_exponential(request: Request) -> Response:
    """Practical membership privacy of the exponential mechanism on a parent set, and its epsilon there."""
    return await answer_computation(PMP_EXPONENTIAL, request)


ROUTE = DirectRoute(
    "/v1/pmp/exponential",
    pmp_exponential,
    methods=["POST"],
    operation_id="pmp_exponential",
    tags=["pmp"],
    response_model=PmpExponentialResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(PmpExponentialRequest, PMP_EXPONENTIAL_EXAMPLES),
)
