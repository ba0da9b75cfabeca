"""POST /v1/conversions/membership."""

from __future__ import annotations

from fastapi import Request, Response

from api_schemas.examples import MEMBERSHIP_CONVERSIONS_EXAMPLES
from api_schemas.membership_conversions import MembershipConversionsRequest, MembershipConversionsResponse
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import json_body, problems
from service.computations.conversions.membership import MEMBERSHIP_CONVERSIONS


async def membership_conversions(request: Request) -> Response:
    """The largest epsilon, prior or sampling rate that keeps a promise about membership, in closed form."""
    return await answer_computation(MEMBERSHIP_CONVERSIONS, request)


ROUTE = DirectRoute(
    "/v1/conversions/membership",
    membership_conversions,
    methods=["POST"],
    operation_id="membership_conversions",
    tags=["conversions"],
    response_model=MembershipConversionsResponse,
    responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
    openapi_extra=json_body(MembershipConversionsRequest, MEMBERSHIP_CONVERSIONS_EXAMPLES),
)
