"""Route `GET /v1/decisions/{id}`: stored decisions by identifier."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic_core import from_json, to_json

from api_schemas.decisions import StoredDecision
from service.api.dependencies import InjectedServices
from service.api.openapi.document import NOT_MODIFIED, problems
from service.api.responses import result_response
from service.api.routes.results import PRIVATE
from service.problems import DecisionNotFound
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
    responses=NOT_MODIFIED | problems(404, 422, 500),
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
    body = await services.runner.read_stored(DECIDING, name, context.requester)
    stored = None if body is None else await asyncio.to_thread(decision_in, body, name)
    if stored is None:
        raise DecisionNotFound
    body, context.read_decision = stored
    tag = f"{name};decision"
    headers = {"ETag": f'"{tag}"', "Cache-Control": PRIVATE, "Cache-Status": "privacy-bounds; hit"}
    return result_response(request, tag, body, headers)


def decision_in(body: bytes, name: str) -> tuple[bytes, dict[str, Any]] | None:
    """Return the body of a StoredDecision from an assessment, with its id and verdict for the audit stream.

    Return None if the assessment has no decision with this id.

    The members are copied without validation, since an earlier engine version may have stored the assessment.
    """
    assessment: dict[str, Any] = from_json(body)
    decided, context = assessment["decision"], assessment["context"]
    if decided is None or decided["id"] != name:
        return None
    found = {"decision": decided, "subject": context.get("subject"), "date": context.get("date")}
    told = {key: value for key, value in found.items() if value is not None}
    stored = to_json(told | {"result": assessment["digest"], "engine_version": assessment["engine_version"]})
    return stored, {"decision": name, "verdict": decided.get("verdict")}
