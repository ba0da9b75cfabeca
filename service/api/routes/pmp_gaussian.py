"""POST /v1/pmp/gaussian."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.pmp_gaussian import PmpGaussianRequest, PmpGaussianResponse
from api_schemas.pmp_gaussian_examples import PMP_GAUSSIAN_EXAMPLES
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_or_archive_body, problems
from service.computations.pmp.gaussian import PMP_GAUSSIAN


async def pmp_gaussian(request: Request) -> Response:
    """Practical membership privacy of a noisy sum or mean of a random half of given points.

    Many points come as an .npz archive: `points`, `target.epsilon` and `target.delta`, and the other parameters as
    arrays without dimensions. Its digest is that of the archive's bytes and of the fields.
    """
    return await answer_computation(PMP_GAUSSIAN, request)


ROUTE = DirectRoute(
    "/v1/pmp/gaussian",
    pmp_gaussian,
    methods=["POST"],
    operation_id="pmp_gaussian",
    tags=["pmp"],
    response_model=PmpGaussianResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_or_archive_body(PmpGaussianRequest, PMP_GAUSSIAN_EXAMPLES),
)
