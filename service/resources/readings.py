"""Table of the questions whose answer is one number, with the function that evaluates each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from api_schemas.questions import (
    AdvantageOverPriorQuestion,
    AdvantageQuestion,
    AttackAccuracyQuestion,
    DeletionCapacityQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    NegativePredictiveValueQuestion,
    NumberQuestion,
    PositivePredictiveValueQuestion,
    ReconstructionQuestion,
)
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.questions import membership, profile, reconstruction, unlearning
from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff


def _gamma(curve: AbstractTradeOff, question: ReconstructionQuestion) -> Reading:
    if question.baseline_success is not None:
        return reconstruction.gamma(curve, question.baseline_success)
    if question.prior_probabilities is not None:
        return reconstruction.gamma(curve, max(question.prior_probabilities))
    return _gamma_of_one_in(curve, question.candidates or 1)  # the schema accepts exactly one of the three fields


def _gamma_of_one_in(curve: AbstractTradeOff, candidates: int) -> Reading:
    # Gamma increases. Unless 1/n is a double, its values at the doubles on both sides of 1/n enclose gamma(1/n).
    nearest = 1 / candidates
    if candidates & (candidates - 1) == 0:
        return reconstruction.gamma(curve, nearest)
    low = reconstruction.gamma(curve, math.nextafter(nearest, 0))
    high = reconstruction.gamma(curve, math.nextafter(nearest, 1))
    joined = Enclosure(
        low.value.lower,
        high.value.upper,
        Evidence.weakest(low.value.evidence, high.value.evidence),
        low.value.log_lower,
        high.value.log_upper,
    )
    return replace(high, value=joined)


READINGS: Final[Mapping[type[NumberQuestion], Callable[[AbstractTradeOff, Any], Reading]]] = {
    EpsilonQuestion: lambda curve, asked: profile.epsilon(curve, asked.delta),
    DeltaQuestion: lambda curve, asked: profile.delta(curve, asked.epsilon),
    AdvantageQuestion: lambda curve, _: membership.advantage(curve),
    ReconstructionQuestion: _gamma,
    AttackAccuracyQuestion: lambda curve, asked: membership.attack_accuracy(
        curve, asked.prior, asked.false_positive_rate
    ),
    PositivePredictiveValueQuestion: lambda curve, asked: membership.positive_predictive_value(
        curve, asked.prior, asked.false_positive_rate, asked.side
    ),
    NegativePredictiveValueQuestion: lambda curve, asked: membership.negative_predictive_value(
        curve, asked.prior, asked.false_positive_rate, asked.side
    ),
    AdvantageOverPriorQuestion: lambda curve, asked: membership.advantage_over_prior(curve, asked.prior),
    DeletionCapacityQuestion: lambda curve, asked: unlearning.deletion_capacity(curve, asked.prior, asked.confidence),
}
