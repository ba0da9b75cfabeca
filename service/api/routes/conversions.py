"""POST /v1/conversions/gdp-gmip."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.conversions import GdpGmipRequest, GdpGmipResponse
from api_schemas.examples import GDP_GMIP_EXAMPLES
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.conversions.gdp_gmip import GDP_GMIP


async def gdp_gmip(request: Request) -> Response:
    """Gaussian differential privacy of noisy SGD as membership privacy and back, and the noise for a target."""
    return await answer_computation(GDP_GMIP, request)


ROUTE = DirectRoute(
    "/v1/conversions/gdp-gmip",
    gdp_gmip,
    methods=["POST"],
    operation_id="gdp_gmip",
    tags=["conversions"],
    response_model=GdpGmipResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(GdpGmipRequest, GDP_GMIP_EXAMPLES),
)
