"""Route `GET /v1/results/{digest}`: stored results by digest."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.dependencies import InjectedServices
from service.api.openapi.document import NOT_MODIFIED, any_result, problems
from service.api.responses import result_response
from service.api.signed_responses import negotiate_with_statement, statement_response, vary_header
from service.problems import ResultNotFound
from service.rendering.registry import JSON
from service.resources.abstract import Computation
from service.telemetry.http import request_context

PRIVATE = "private, max-age=31536000, immutable"
"""Caching header of a result. A result contains the request with its names and policy, so that no shared cache may keep
it.
"""

Digest = Annotated[
    str,
    Path(
        pattern="^sha256:[0-9a-f]{64}$",
        description="Digest of a result, equal to its `ETag`.",
        openapi_examples={
            "dpsgd_run": {"value": "sha256:" + "0123456789abcdef" * 4},
            "laplace_release": {"value": "sha256:" + "fedcba9876543210" * 4},
        },
    ),
]


def router(offered: tuple[Computation[Any, Any], ...]) -> APIRouter:
    """Return the route to stored results of the resources `offered`."""
    made = APIRouter(tags=["results"])
    names = tuple(computation.name for computation in offered)

    @made.get(
        "/v1/results/{digest}",
        responses=any_result(offered) | NOT_MODIFIED | problems(404, 406, 422, 500),
    )
    async def result(request: Request, digest: Digest, services: InjectedServices) -> Response:
        """Return a stored result. The result of a digest never changes, but the service may delete it.

        With authentication, a caller finds only results that the caller's group has received.
        """
        context = request_context(request.scope)
        context.digest = digest
        media_type = negotiate_with_statement(request, services, (JSON,))
        body = await services.runner.results.read(names, digest, context.requester)
        if body is None:
            raise ResultNotFound
        headers = {"ETag": f'"{digest}"', "Cache-Control": PRIVATE, "Cache-Status": "privacy-bounds; hit"}
        headers |= vary_header(services)
        if media_type == ENVELOPE_MEDIA_TYPE:
            return await statement_response(request, digest, body, headers)
        return result_response(request, digest, body, headers)

    return made
