"""Bounds from the literature for the field `methods` of an answer to the method `all`."""

from __future__ import annotations

import math

from api_schemas.questions import (
    AdvantageOverPriorQuestion,
    AdvantageQuestion,
    AttackAccuracyQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
)
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.questions.earlier_bounds import DpParameters, EarlierBound
from service.privacy.questions.membership import largest_log_ratio
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import ResponseFields
from service.resources.numbers import enclosed_number, tightness

BoundedQuestion = (
    AdvantageQuestion | AttackAccuracyQuestion | PositivePredictiveValueQuestion | AdvantageOverPriorQuestion
)
"""Questions that earlier theorems answer."""


def earlier_bounds(mechanism: AbstractMechanism, curves: TradeOffPair, question: QuestionSpec) -> list[ResponseFields]:
    """Return the answers of earlier theorems of the literature to `question`, as entries of `methods` in an answer.

    `curves` are the trade-off curves of `mechanism` against the worst case. The list is empty if no earlier theorem
    answers the question.
    """
    if not isinstance(question, BoundedQuestion):
        return []
    parameters = _dp_parameters(mechanism, curves)
    if parameters is None:
        return []
    return [
        {
            "method": bound.name,
            **enclosed_number(bound.value, "upper"),
            "evidence": bound.value.evidence,
            "tight": tightness(bound.value.evidence, bound.source),
            "notes": (f"{bound.source}; guessing attains the lower bound.",),
        }
        for bound in _bounds(parameters, question)
    ]


def _bounds(known: DpParameters, question: BoundedQuestion) -> tuple[EarlierBound, ...]:
    match question:
        case AdvantageQuestion():
            return known.advantage()
        case AttackAccuracyQuestion():
            return known.attack_accuracy(question.prior, question.false_positive_rate)
        case PositivePredictiveValueQuestion(side="at_most"):
            return known.positive_predictive_value(question.prior, question.false_positive_rate)
        case PositivePredictiveValueQuestion():
            return ()
        case AdvantageOverPriorQuestion():
            return known.advantage_over_prior(question.prior)


def _dp_parameters(mechanism: AbstractMechanism, curves: TradeOffPair) -> DpParameters | None:
    # as stated, or pure DP at the upper bound of the largest log-likelihood ratio
    if isinstance(mechanism, ApproximateDp):
        return DpParameters(mechanism.epsilon, mechanism.delta)
    epsilon = max(largest_log_ratio(curve).upper for curve in (curves.add, curves.remove))
    return DpParameters(max(epsilon, 0.0), 0.0) if math.isfinite(epsilon) else None
