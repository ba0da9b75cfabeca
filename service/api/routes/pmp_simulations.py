"""POST /v1/pmp/simulations."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.pmp_gaussian_examples import PMP_SIMULATIONS_EXAMPLES
from api_schemas.pmp_simulations import PmpSimulationsRequest, PmpSimulationsResponse
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.pmp.simulations import PMP_SIMULATIONS


async def pmp_simulations(request: Request) -> Response:
    """Practical membership privacy of either mechanism on simulated parent sets: every trial, means and spreads."""
    return await answer_computation(PMP_SIMULATIONS, request)


ROUTE = DirectRoute(
    "/v1/pmp/simulations",
    pmp_simulations,
    methods=["POST"],
    operation_id="pmp_simulations",
    tags=["pmp"],
    response_model=PmpSimulationsResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(PmpSimulationsRequest, PMP_SIMULATIONS_EXAMPLES),
)
