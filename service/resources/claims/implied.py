"""Bound on the power of every attack that a claimed number implies.

alpha is the false positive rate, beta the type II error, and power = 1 - beta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from api_schemas.claims import Claim
from api_schemas.questions import (
    AdvantageOverPriorQuestion,
    AdvantageQuestion,
    AttackAccuracyQuestion,
    DeletionCapacityQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    NegativePredictiveValueQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
    ReconstructionQuestion,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)
from service.privacy.questions.membership import Side
from service.privacy.questions.witness import SupportingLine

ALLOWED_ERROR: Final = 1 + 2.0**-48
"""Rounding of an allowed power: a few products and quotients of doubles."""


@final
@dataclass(frozen=True, slots=True)
class AtRate:
    """Bound on the power at the false positive rate `rate`: power <= `allowed`."""

    rate: float
    allowed: float


@final
@dataclass(frozen=True, slots=True)
class GaussianCurve:
    """Upper bound on the power by mu-GDP (Gaussian differential privacy), where both error rates are large enough.

    The false positive rate is at least `rate_min`, and the type II error at least `error_min`.
    """

    mu: float
    rate_min: float
    error_min: float


@final
@dataclass(frozen=True, slots=True)
class Ratio:
    """Upper bound e^`log_ratio` on the likelihood ratio P1/P0 of both hypotheses at every outcome.

    P1 is the law under H1 and P0 that under H0. With `swapped`, the bound is on P0/P1.
    """

    log_ratio: float
    swapped: bool = False


Bound = SupportingLine | AtRate | GaussianCurve | Ratio


def bound_of(claim: Claim) -> Bound | None:
    """Return the bound on the power of every attack that a claim implies, or None.

    The result is None for claims that allow every power, for example an accuracy at the prior 0, and for questions that
    imply no such bound.
    """
    value, question = claim.number, claim.question
    match question:
        case EpsilonQuestion(delta=delta):
            return SupportingLine(value, delta)
        case DeltaQuestion(epsilon=epsilon):
            return SupportingLine(epsilon, value)
        case AdvantageQuestion():
            return SupportingLine(0.0, value)
        case GdpMuQuestion(false_positive_rate_min=rate, type_two_error_min=error):
            return GaussianCurve(value, rate, error)
        case TradeOffQuestion(false_positive_rates=(rate, *_)):
            return AtRate(rate, value if claim.reads == "power" else (1 - value) * ALLOWED_ERROR)
        case ReconstructionQuestion():
            return AtRate(_baseline(question), value)
        case AttackAccuracyQuestion(prior=prior, false_positive_rate=rate):
            return _accuracy_bound(prior, rate, value)
        case _:
            return _posterior_bound(question, value)


def _baseline(question: ReconstructionQuestion) -> float:
    if question.baseline_success is not None:
        return question.baseline_success
    if question.prior_probabilities is not None:
        return max(question.prior_probabilities)
    return 1 / (question.candidates or 1)


def _accuracy_bound(prior: float, rate: float | None, value: float) -> Bound | None:
    if prior in (0.0, 1.0):
        return None if prior == 0 or rate is None else AtRate(rate, value)
    if rate is None:
        return SupportingLine(math.log((1 - prior) / prior), (value - (1 - prior)) / prior)
    return AtRate(rate, (value - (1 - prior) * (1 - rate)) / prior + (ALLOWED_ERROR - 1) / prior)


def _posterior_bound(question: QuestionSpec, value: float) -> Bound | None:
    match question:
        case PositivePredictiveValueQuestion(prior=prior, false_positive_rate=rate, side=side):
            slope = _log_odds(value) - _log_odds(prior)
            if rate is not None and 0 < rate < 1:
                return _accusation_bound(slope, rate, side)
            return _ratio(slope) if side == "at_most" else _ratio(-slope, swapped=True)
        case NegativePredictiveValueQuestion(prior=prior, false_positive_rate=rate, side=side):
            slope = -_log_odds(value) - _log_odds(prior)
            if rate is not None and 0 < rate < 1:
                return _clearance_bound(slope, rate, side)
            return _ratio(-slope, swapped=True) if side == "at_most" else _ratio(slope)
        case AdvantageOverPriorQuestion(prior=prior):
            return _ratio(_log_odds(value / 2 + prior) - _log_odds(prior))
        case DeletionCapacityQuestion() if value == 0:  # the claim allows no deletion at all
            return None
        case DeletionCapacityQuestion(prior=prior, confidence=confidence):
            kept = confidence ** (1 / value) if confidence > 0 else 0.0
            return _ratio(-_log_odds(kept) - _log_odds(prior))
        case UnlearningGuaranteeQuestion(prior=prior):
            return _ratio(-_log_odds(value) - _log_odds(prior))
        case _:
            return None


def _accusation_bound(slope: float, rate: float, side: Side) -> AtRate | None:
    # The claim is about power/alpha = e^slope. "at_least": the attack with the opposite answers has at most the power 1
    # - e^slope alpha at the rate 1 - alpha.
    if not math.isfinite(slope):
        return None
    if side == "at_most":
        return AtRate(rate, SupportingLine(slope, 0.0).at(rate))
    return AtRate(1 - rate, 1 - _product(slope, rate) + (ALLOWED_ERROR - 1))


def _clearance_bound(slope: float, rate: float, side: Side) -> AtRate | None:
    # The claim is about beta/(1 - alpha) = e^slope. "at_least": the attack with the opposite answers has at most the
    # power beta at the rate 1 - alpha.
    if not math.isfinite(slope):
        return None
    if side == "at_most":
        return AtRate(rate, 1 - _product(slope, 1 - rate) + (ALLOWED_ERROR - 1))
    return AtRate(1 - rate, SupportingLine(slope, 0.0).at(1 - rate))


def _product(slope: float, rate: float) -> float:
    return math.exp(min(slope + math.log(rate), 700.0))


def _ratio(slope: float, *, swapped: bool = False) -> Ratio | None:
    return Ratio(slope, swapped) if math.isfinite(slope) else None


def _log_odds(probability: float) -> float:
    """Return ln(p/(1 - p)) of a probability p; infinite at and beyond 0 and 1."""
    if probability <= 0:
        return -math.inf
    return math.inf if probability >= 1 else math.log(probability) - math.log1p(-probability)
