"""POST /v1/audits/attack-counts, /v1/audits/glir and /v1/audits/glrt."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from api_schemas.attack_counts import AttackCountsRequest, AttackCountsResponse
from api_schemas.audit_examples import ATTACK_COUNTS_EXAMPLES, GLIR_EXAMPLES, GLRT_EXAMPLES
from api_schemas.glir_audit import GlirAuditRequest, GlirAuditResponse
from api_schemas.glrt_audit import GlrtAuditRequest, GlrtAuditResponse
from service.api.answers import NOT_MODIFIED, answer_computation
from service.api.direct_route import DirectRoute, Endpoint
from service.api.documentation import json_body, json_or_archive_body, problems
from service.computations.audits.attack_counts import ATTACK_COUNTS
from service.computations.audits.glir import GLIR_AUDIT
from service.computations.audits.glrt import GLRT_AUDIT


async def attack_counts_audit(request: Request) -> Response:
    """What the counts of an attack prove about the privacy of what it attacked, and whether a bound allows them."""
    return await answer_computation(ATTACK_COUNTS, request)


async def glir_audit(request: Request) -> Response:
    """The gradient likelihood ratio attack on released mean gradients, against its theory.

    Large gradients come as an .npz archive: one array for each field, named like `steps.0.mean_gradient`, the others as
    arrays without dimensions. Its digest is that of the archive's bytes and of the fields.
    """
    return await answer_computation(GLIR_AUDIT, request)


async def glrt_audit(request: Request) -> Response:
    """The adversary who does not know the direction of a record's influence, simulated, against its theory."""
    return await answer_computation(GLRT_AUDIT, request)


def _route(path: str, endpoint: Endpoint, response_model: Any, body: dict[str, Any]) -> DirectRoute:
    return DirectRoute(
        path,
        endpoint,
        methods=["POST"],
        operation_id=endpoint.__name__,
        tags=["audits"],
        response_model=response_model,
        responses=NOT_MODIFIED | problems(400, 413, 415, 422, 500, 503, 504),
        openapi_extra=body,
    )


ROUTES = (
    _route(
        "/v1/audits/attack-counts",
        attack_counts_audit,
        AttackCountsResponse,
        json_body(AttackCountsRequest, ATTACK_COUNTS_EXAMPLES),
    ),
    _route("/v1/audits/glir", glir_audit, GlirAuditResponse, json_or_archive_body(GlirAuditRequest, GLIR_EXAMPLES)),
    _route("/v1/audits/glrt", glrt_audit, GlrtAuditResponse, json_body(GlrtAuditRequest, GLRT_EXAMPLES)),
)
