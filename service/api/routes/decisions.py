"""Route `GET /v1/decisions/{id}`: stored decisions by identifier."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic_core import from_json

from api_schemas.decisions import StoredDecision
from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.dependencies import InjectedServices
from service.api.openapi.document import NOT_MODIFIED, SIGNED, problems
from service.api.responses import result_response
from service.api.routes.results import PRIVATE
from service.api.signed_responses import negotiate_with_statement, statement_response, vary_header
from service.problems import DecisionNotFound
from service.rendering.registry import JSON
from service.resources.assessments.stored_decision import decision_in
from service.telemetry.http import request_context

DECIDING: Final = ("assessments",)
"""Resources whose results contain a decision."""

DecisionId = Annotated[
    str,
    Path(
        alias="id",
        pattern="^sha256:[0-9a-f]{64}$",
        description="Identifier of the decision, from its field `id`.",
        openapi_examples={
            "before_a_release": {"value": "sha256:" + "0123456789abcdef" * 4},
            "users_with_records": {"value": "sha256:" + "fedcba9876543210" * 4},
        },
    ),
]

router = APIRouter(tags=["results"])


@router.get(
    "/v1/decisions/{id}",
    response_model=StoredDecision,
    responses={200: {"content": SIGNED}} | NOT_MODIFIED | problems(404, 406, 422, 500),
    name="decision",
)
async def decision(request: Request, name: DecisionId, services: InjectedServices) -> Response:
    """Return a stored decision with its subject, its date and the digest of its assessment.

    The decision never changes and is kept as long as the assessment. With authentication, a caller finds only decisions
    of the caller's group.
    """
    context = request_context(request.scope)
    context.digest = name
    # The id of a decision is the digest of the assessment: nothing beside the result is stored for it.
    media_type = negotiate_with_statement(request, services, (JSON,))
    body = await services.runner.results.read(DECIDING, name, context.requester)
    stored = None if body is None else await asyncio.to_thread(decision_in, body, name)
    if stored is None:
        raise DecisionNotFound
    if services.audit is not None:
        context.read_decision = {"decision": name, "verdict": from_json(stored)["decision"].get("verdict")}
    tag = f"{name};decision"
    headers = {"ETag": f'"{tag}"', "Cache-Control": PRIVATE, "Cache-Status": "privacy-bounds; hit"}
    headers |= vary_header(services)
    if media_type == ENVELOPE_MEDIA_TYPE:
        return await statement_response(request, name, stored, headers, kind="decision")
    return result_response(request, tag, stored, headers)
