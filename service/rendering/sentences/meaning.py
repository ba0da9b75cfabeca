"""Limits of a policy as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from api_schemas.choices import Direction
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
from api_schemas.targets import Limit
from service.rendering.numbers import format_exact, group_digits, percent_exact, points_exact
from service.rendering.sentences.attacker import attacker

DIRECTIONS: Final[Mapping[Direction, str]] = {
    "add": "tested against the data without the record",
    "remove": "where the data with and without the record exchange their roles",
    "both": "in the worse of both directions of the test",
}


def meaning(limit: Limit) -> str:
    """Return a limit of a policy as a sentence. Every number has all digits that were sent."""
    given, claim = _conditions(limit.question), _claim(limit)
    text = f"At {given}, {claim}" if given else claim
    if limit.threat_model is not None:
        text += f", against {attacker(limit.threat_model)}"
    direction = limit.question.direction
    is_default = direction == type(limit.question).model_fields["direction"].default
    if not is_default and not isinstance(limit.question, AdvantageQuestion):
        text += f", {DIRECTIONS[direction]}"
    return f"{text[0].upper()}{text[1:]}."


def _conditions(question: QuestionSpec) -> str:
    match question:
        case TradeOffQuestion(false_positive_rates=(rate, *_)):
            return _rate(rate)
        case EpsilonQuestion(delta=delta):
            return f"delta {format_exact(delta)}"
        case DeltaQuestion(epsilon=epsilon):
            return f"epsilon {format_exact(epsilon)}"
        case DeletionCapacityQuestion(prior=prior, confidence=confidence):
            return f"{_prior(prior)} and a confidence of {percent_exact(confidence)}"
        case AdvantageOverPriorQuestion(prior=prior) | UnlearningGuaranteeQuestion(prior=prior):
            return _prior(prior)
        case (
            AttackAccuracyQuestion(prior=prior, false_positive_rate=rate)
            | PositivePredictiveValueQuestion(prior=prior, false_positive_rate=rate)
            | NegativePredictiveValueQuestion(prior=prior, false_positive_rate=rate)
        ):
            return _prior(prior) if rate is None else f"{_prior(prior)} and {_rate(rate)}"
        case _:
            return ""


def _claim(limit: Limit) -> str:
    side = "at most" if limit.at_most is not None else "at least"
    match limit.question:
        case EpsilonQuestion():
            return f"epsilon is {side} {format_exact(limit.limit)}"
        case DeltaQuestion():
            return f"delta is {side} {format_exact(limit.limit)}"
        case AdvantageQuestion():
            points = f"{side} {_points(Decimal(repr(limit.limit)))}"
            return f"the best attack identifies a share of members {points} above its false positive rate"
        case AdvantageOverPriorQuestion():
            more = f"{side} {_points(Decimal(repr(limit.limit)) / 2)}"
            return f"the accusations of the best attack are right {more} more often than the prior"
        case GdpMuQuestion():
            return f"mu of Gaussian differential privacy is {side} {format_exact(limit.limit)}{_range(limit.question)}"
        case DeletionCapacityQuestion():
            return f"{side} {_records(limit.limit)} can be deleted by doing nothing"
        case _:
            return _claim_of_share(limit, f"{side} {percent_exact(limit.limit)}")


def _claim_of_share(limit: Limit, amount: str) -> str:
    match limit.question:
        case ReconstructionQuestion():
            return f"{_reconstruction(limit.question)} {amount}"
        case AttackAccuracyQuestion():
            return f"{amount} of guesses about membership are right{_attack_phrase(limit)}"
        case PositivePredictiveValueQuestion():
            return f"{amount} of accusations are right{_attack_phrase(limit)}"
        case NegativePredictiveValueQuestion():
            return f'{amount} of answers "not a member" are right{_attack_phrase(limit)}'
        case UnlearningGuaranteeQuestion():
            release = "for the most telling release" if limit.at_most is not None else "for every release"
            return f"a record is not a member with a chance of {amount}, {release}"
        case _:
            return (
                f"{amount} of members are {'identified' if limit.reads == 'power' else 'missed'}{_attack_phrase(limit)}"
            )


def _attack_phrase(limit: Limit) -> str:
    question, is_upper = limit.question, limit.at_most is not None
    if isinstance(question, PositivePredictiveValueQuestion | NegativePredictiveValueQuestion):
        if question.side == "at_least":
            return " by the attack that is right least often" if is_upper else ", for every attack"
        return "" if is_upper else " by the attack that is right most often"
    return "" if is_upper == (limit.reads == "power") else " by the best attack"


def _range(question: GdpMuQuestion) -> str:
    rate, missed = percent_exact(question.false_positive_rate_min), percent_exact(question.type_two_error_min)
    return f", for attacks that wrongly accuse {rate} or more of the others and miss {missed} or more of the members"


def _records(number: float) -> str:
    count = group_digits(int(number)) if number.is_integer() else format_exact(number)
    return f"{count} record{'' if number == 1 else 's'}"


def _reconstruction(question: ReconstructionQuestion) -> str:
    if question.candidates is not None:
        return (
            f"a record that is one of {group_digits(question.candidates)} candidates is reconstructed with a chance of"
        )
    if question.prior_probabilities is not None:
        largest = percent_exact(max(question.prior_probabilities))
        return f"a record whose likeliest value has a prior probability of {largest} is reconstructed with a chance of"
    chance = percent_exact(question.baseline_success or 0.0)
    return f"a reconstruction with a chance of {chance} without the release has with it a chance of"


def _rate(rate: float) -> str:
    return f"a false positive rate of {percent_exact(rate)}"


def _prior(prior: float) -> str:
    return f"a prior of {percent_exact(prior)}"


def _points(share: Decimal) -> str:
    number = points_exact(share)
    return f"{number} percentage point{'' if number == '1' else 's'}"
