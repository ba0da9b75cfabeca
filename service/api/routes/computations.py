"""Routes `POST /v1/...` of all resources, derived from the catalogue of resources."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from service.api.computation_endpoint import answer_computation
from service.api.fast_routes import FastRoute
from service.api.openapi.document import ASYNC_RESPONSE, problems, rendered_content, request_body
from service.resources.abstract import Computation


def route_of(computation: Computation[Any, Any]) -> FastRoute:
    """Return the route of a resource, with its published documentation."""

    async def answer(request: Request) -> Response:
        return await answer_computation(computation, request)

    return FastRoute(
        computation.path,
        answer,
        methods=["POST"],
        name=computation.operation,
        operation_id=computation.operation,
        description=computation.description,
        tags=[computation.tag],
        response_model=computation.response_type,
        responses=rendered_content(computation) | ASYNC_RESPONSE | problems(400, 413, 415, 422, 429, 500, 503, 504),
        openapi_extra=request_body(computation),
    )
