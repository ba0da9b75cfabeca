"""POST of every resource: its route as it follows from its computation."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from service.api.answers import answer_computation
from service.api.direct_route import DirectRoute
from service.api.documentation import LATER, other_forms, problems, request_body
from service.computations.abstract import Computation


def route_of(computation: Computation[Any, Any]) -> DirectRoute:
    """The route that answers requests of one resource, with its documentation."""

    async def answer(request: Request) -> Response:
        return await answer_computation(computation, request)

    return DirectRoute(
        computation.path,
        answer,
        methods=["POST"],
        name=computation.operation,
        operation_id=computation.operation,
        description=computation.description,
        tags=[computation.tag],
        response_model=computation.response_type,
        responses=other_forms(computation) | LATER | problems(400, 413, 415, 422, 500, 503, 504),
        openapi_extra=request_body(computation),
    )
