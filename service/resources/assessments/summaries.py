"""Summary of the trade-off curve of a run: mu of Gaussian DP with its regret, and the power that one epsilon allows."""

from __future__ import annotations

import math

from api_schemas.assessment_context import AssessmentContext
from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import ApproximateDpMechanism, PureDpMechanism
from api_schemas.questions import TradeOffQuestion
from api_schemas.scalar_types import LARGEST_EPSILON
from service.privacy.enclosure import Evidence
from service.privacy.questions import gdp_regret
from service.privacy.questions.empty_range import range_may_be_empty
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import ResponseFields
from service.resources.assessments.attackers import MU_RANGE
from service.resources.nested import evaluate_nested
from service.resources.numbers import UNPROVED, enclosed_number, with_evidence_of


def gdp_summary(curves: TradeOffPair, mu: ResponseFields) -> ResponseFields | None:
    """Return mu of Gaussian differential privacy with its regret, as fields of `GdpSummary`, or None.

    `curves` are those of the run, and `mu` is the answer for the direction add. The regret is the largest distance of
    the mu-GDP curve below that of the run, along lines of slope 1, for the upper bound of mu. The result is None if mu
    is infinite or not proved, or if its range of error rates may contain no point of the curve.
    """
    curve = curves.add
    if curve.evidence in UNPROVED or not math.isfinite(mu["upper"]) or range_may_be_empty(mu["notes"]):
        return None
    found = with_evidence_of(curve, gdp_regret.regret(curve, mu["upper"]))
    return {
        "mu": {end: mu[end] for end in ("value", "lower", "upper")},
        "smallest_rate": MU_RANGE,
        "regret": enclosed_number(found, "upper"),
        "evidence": Evidence.weakest(Evidence(mu["evidence"]), found.evidence),
        "source": f"{mu['source']}; {gdp_regret.SOURCE}",
    }


def one_point(
    mechanism: object, context: AssessmentContext, epsilon: ResponseFields, power: ResponseFields
) -> ResponseFields | None:
    """Return the power that one proved (epsilon, delta) alone allows, and that of the run, as fields of `OnePoint`.

    Both powers are upper bounds at the false positive rate of `context`. `epsilon` is the answer at the delta of the
    context, and `power` that of the trade-off curve. The result is None without these upper bounds, for an epsilon
    above the largest of a request, and if `mechanism` itself is a stated (epsilon, delta).
    """
    stated = isinstance(mechanism, ApproximateDpMechanism | PureDpMechanism)
    largest, known = epsilon["upper"], power["upper"]
    if stated or largest is None or known is None or largest > LARGEST_EPSILON:
        return None
    alone = ApproximateDpMechanism(type="approximate_dp", epsilon=largest, delta=context.delta)
    rate = context.false_positive_rate
    question = TradeOffQuestion(type="trade_off", false_positive_rates=(rate,))
    response = evaluate_nested(BoundsRequest(mechanism=alone, questions=(question,)), {})
    return {
        "epsilon": largest,
        "false_positive_rate": rate,
        "power": known,
        "power_from_one_point": response["answers"][0]["points"][0]["power"]["upper"],
    }
