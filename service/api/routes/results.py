"""GET /v1/results/{digest}."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from api_schemas.attack_counts import AttackCountsResponse
from api_schemas.bounds import BoundsResponse
from api_schemas.curves import CurvesResponse
from api_schemas.glir_audit import GlirAuditResponse
from api_schemas.glrt_audit import GlrtAuditResponse
from api_schemas.pmp_exponential import PmpExponentialResponse
from api_schemas.pmp_finite import PmpFiniteResponse
from api_schemas.pmp_gaussian import PmpGaussianResponse
from api_schemas.pmp_simulations import PmpSimulationsResponse
from service.api.answers import NOT_MODIFIED, stored_response
from service.api.dependencies import UsedServices
from service.api.documentation import problems
from service.api.problems import ResultNotFound
from service.computations.attack_counts import ATTACK_COUNTS
from service.computations.bounds import BOUNDS
from service.computations.curves import CURVES
from service.computations.glir_audit import GLIR_AUDIT
from service.computations.glrt_audit import GLRT_AUDIT
from service.computations.pmp_exponential import PMP_EXPONENTIAL
from service.computations.pmp_finite import PMP_FINITE
from service.computations.pmp_gaussian import PMP_GAUSSIAN
from service.computations.pmp_simulations import PMP_SIMULATIONS
from service.telemetry.http import record_of

router = APIRouter(tags=["results"])

COMPUTATIONS = tuple(
    computation.name
    for computation in (
        BOUNDS,
        CURVES,
        ATTACK_COUNTS,
        GLIR_AUDIT,
        GLRT_AUDIT,
        PMP_EXPONENTIAL,
        PMP_FINITE,
        PMP_GAUSSIAN,
        PMP_SIMULATIONS,
    )
)
IMMUTABLE = "public, max-age=31536000, immutable"

Digest = Annotated[
    str,
    Path(
        pattern="^sha256:[0-9a-f]{64}$",
        description="The `digest` of a result, which is also its `ETag`.",
        openapi_examples={
            "dpsgd_run": {"value": "sha256:" + "0123456789abcdef" * 4},
            "laplace_release": {"value": "sha256:" + "fedcba9876543210" * 4},
        },
    ),
]


@router.get(
    "/v1/results/{digest}",
    response_model=BoundsResponse
    | CurvesResponse
    | AttackCountsResponse
    | GlirAuditResponse
    | GlrtAuditResponse
    | PmpExponentialResponse
    | PmpFiniteResponse
    | PmpGaussianResponse
    | PmpSimulationsResponse,
    responses=NOT_MODIFIED | problems(404, 422, 500),
)
async def result(request: Request, digest: Digest, services: UsedServices) -> Response:
    """A stored result. What a digest names never changes; it may be forgotten."""
    record_of(request.scope).digest = digest
    body = await services.runner.find(COMPUTATIONS, digest)
    if body is None:
        raise ResultNotFound
    headers = {"ETag": f'"{digest}"', "Cache-Control": IMMUTABLE, "Cache-Status": "privacy-bounds; hit"}
    return stored_response(request, digest, body, headers)
