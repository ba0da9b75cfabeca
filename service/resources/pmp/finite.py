"""Resource `POST /v1/pmp/finite`: table of output probabilities, its PMP parameter, and comparisons.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import math
from typing import Final

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.pmp_examples import PMP_FINITE_EXAMPLES
from api_schemas.pmp_finite import AdjacentWorstCase, FiniteMaximiser, PmpFiniteRequest, PmpFiniteResponse
from service.privacy.pmp.attacks import success_bound, tight_eta
from service.privacy.pmp.finite import AdjacentTable, MembershipTable, Rows
from service.resources.abstract import Computation, Quote
from service.resources.numbers import enclosed_number, tightness
from service.resources.pmp.definition import DATA_ARE_A_RANDOM_HALF, DISTINCT_RECORDS, NO_COMPOSITION, NO_CONVERSE

SOURCE: Final = "Lowy et al. 2023 (practical membership privacy), Definition 2, by sums over all subsets"
TABLE_IS_RIGHT: Final = Assumption(
    code="table_is_right",
    text="The rows are the exact probabilities of the outputs on the halves of the parent set. Nothing else is "
    "released.",
    holds="unknown",
)
DIVIDED: Final = (
    "normalised: {divided} of {rows} rows do not sum to 1 (off by at most {off:.1e}). Each of these rows was "
    "divided by its sum. All numbers are for the resulting table, with an accuracy of a few units of 1e-16."
)

FIXED_COST, SUM_COST, PAIR_COST = 300, 0.3, 0.03
"""Costs in microseconds: of the smallest table, of a number in the sums of a point, and of an output of two adjacent
subsets."""


def _compute_pmp_finite(request: PmpFiniteRequest, digest: str, engine_version: str) -> PmpFiniteResponse:
    subsets = tuple(request.subsets_in_order)
    rows = Rows.of(request.probabilities)
    table, adjacent = MembershipTable.of(rows, subsets), AdjacentTable.of(rows, subsets)
    largest, asked = table.epsilon(), request.epsilon
    worst = adjacent.epsilon()
    worst_delta = None if asked is None else adjacent.delta(asked)
    # The laws with and without a point are means over pairs of adjacent subsets: the worst case bounds both.
    epsilon = largest.epsilon.at_most(worst.upper)
    delta = None if asked is None or worst_delta is None else table.delta(asked).at_most(worst_delta.upper)
    success = success_bound(epsilon)
    divided = (DIVIDED.format(divided=rows.divided, rows=len(subsets), off=rows.off),) if rows.divided else ()
    return PmpFiniteResponse(
        digest=digest,
        engine_version=engine_version,
        data_size=request.points // 2,
        epsilon_pmp=enclosed_number(epsilon, "upper"),
        evidence=epsilon.evidence.value,
        tight=tightness(epsilon.evidence, None),
        conditional=True,
        source=SOURCE,
        maximiser=FiniteMaximiser(point=largest.point_index, output=largest.output_index, direction=largest.direction),
        delta_pmp=None if delta is None else enclosed_number(delta, "upper"),
        bayes_success=enclosed_number(table.bayes_success().at_most(success.upper), "upper"),
        success_bound=enclosed_number(success, "upper"),
        eta_mip=enclosed_number(tight_eta(epsilon), "upper"),
        worst_case=AdjacentWorstCase(
            epsilon=enclosed_number(worst, "upper"),
            delta=None if worst_delta is None else enclosed_number(worst_delta, "upper"),
        ),
        notes=(NO_COMPOSITION, NO_CONVERSE, DISTINCT_RECORDS, *divided),
        assumptions=(DATA_ARE_A_RANDOM_HALF, TABLE_IS_RIGHT),
    )


def _pmp_finite_quote(request: PmpFiniteRequest) -> Quote:
    points, outputs = request.points, len(request.probabilities[0])
    numbers = math.comb(points, points // 2) * outputs
    return Quote(int(FIXED_COST + SUM_COST * points * numbers + PAIR_COST * (points // 2) ** 2 * numbers))


PMP_FINITE: Final = Computation(
    name="pmp-finite",
    path="/v1/pmp/finite",
    description="Compute practical membership privacy of a mechanism with finitely many outputs, given as a table.",
    examples=PMP_FINITE_EXAMPLES,
    request_type=PmpFiniteRequest,
    response_type=PmpFiniteResponse,
    function=_compute_pmp_finite,
    quote=_pmp_finite_quote,
)
