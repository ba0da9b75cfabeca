"""Estimated cost of an audit by the gradient likelihood-ratio test (GLiR)."""

from __future__ import annotations

from typing import Final

from api_schemas.glir_audit import GlirAuditRequest
from api_schemas.gradients import GradientStep
from service.privacy.audits.glir import P_VALUE_DRAWS
from service.privacy.audits.glir_theory import LARGEST_GROUPS, LEVELS
from service.resources.abstract import Quote
from service.resources.audits.glir_upload import AnyGlirRequest

BASE_COST: Final = 2_000
DECOMPOSITION_COST: Final = 4e-4
"""Cost of the eigenvectors of a covariance, divided by d^3."""
PRODUCT_COST: Final = 1e-4
"""Cost of one multiplication and addition in a matrix product."""
ENTRY_COST: Final = 0.06
"""Cost of an entry of a query's gradient: drawn or read, clipped, whitened and compared."""
TAIL_COST: Final = 5
"""Cost of a p-value, or of an evaluation of the theory."""
QUERY_COST: Final = 2
"""Cost of sorting a query and writing it."""


def glir_audit_quote(request: AnyGlirRequest) -> Quote:
    """Return the estimated cost, in microseconds of CPU time, of a GLiR audit (gradient likelihood ratio attack).

    A worker computes the audit.
    """
    isotropic = request.noise_std > 0 and request.noise_covariance == "isotropic"
    if isinstance(request, GlirAuditRequest) and request.simulate is not None:
        shapes = [(request.simulate.queries, request.simulate.dimension, None)] * request.simulate.steps
        known = True
    elif isinstance(request, GlirAuditRequest):
        shapes = [_shape(step) for step in request.steps or ()]
        known = request.members is not None
    else:
        shapes = [(request.queries, request.dimension, rows) for rows in request.background_rows]
        known = request.has_members
    steps = sum(_step_cost(queries, dimension, background, isotropic) for queries, dimension, background in shapes)
    theory = 2 * LARGEST_GROUPS * LEVELS * TAIL_COST if known else 0
    return Quote(int(BASE_COST + steps + theory + QUERY_COST * shapes[0][0]))


def _shape(step: GradientStep) -> tuple[int, int, int | None]:
    # stated variances need no eigenvectors of the background gradients
    rows = None if step.background_variances is not None else len(step.background_gradients or ())
    return len(step.query_gradients), len(step.mean_gradient), rows


def _step_cost(queries: int, dimension: int, background: int | None, isotropic: bool) -> float:
    work = queries * (ENTRY_COST * dimension + TAIL_COST + QUERY_COST)
    if background is not None:
        work += 2 * DECOMPOSITION_COST * dimension**3 + PRODUCT_COST * dimension**2 * 3 * (background + queries)
        work += 2 * ENTRY_COST * background * dimension
    if isotropic and background is None:
        work += P_VALUE_DRAWS * dimension * (ENTRY_COST + PRODUCT_COST * queries)
    return work
