"""Limits on answers: targets of a calibration, and rules of a policy."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.base import Request, is_none
from api_schemas.choices import PointReading
from api_schemas.questions import (
    AdvantageOverPriorQuestion,
    AttackAccuracyQuestion,
    DeletionCapacityQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    NegativePredictiveValueQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
    ReconstructionQuestion,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)
from api_schemas.threat_models import ThreatModelSpec

SLACK: Final = 1e-12
"""Relative: limits so near to the end of a range may be at it."""
_LIMIT: Final = Field(ge=0, le=1e15)


class Limit(Request):
    """Limit on one number: either `at_most` or `at_least`.

    The number is the `value` of the answer. For `unlearning_guarantee` it is the smallest probability. For `gdp_mu` it
    is mu over the range, or `global_mu` if no part of the curve lies in the range. A `trade_off` has one false positive
    rate here, and `reads` selects one of its two numbers.
    """

    question: QuestionSpec
    at_most: Annotated[
        Annotated[float, _LIMIT] | None,
        Field(
            validation_alias=AliasChoices("at_most", "max"),
            description="Largest allowed value. The upper bound of the enclosure must not exceed it.",
            examples=[0.01],
            exclude_if=is_none,
        ),
    ] = None
    at_least: Annotated[
        Annotated[float, _LIMIT] | None,
        Field(
            validation_alias=AliasChoices("at_least", "min"),
            description="Smallest allowed value. The lower bound of the enclosure must not be smaller.",
            examples=[0.9],
            exclude_if=is_none,
        ),
    ] = None
    reads: PointReading = "power"
    threat_model: Annotated[
        ThreatModelSpec | None,
        Field(description="Threat model of this limit. Default: the threat model of the request.", exclude_if=is_none),
    ] = None

    @model_validator(mode="after")
    def _one_number(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise _refusal("at_most", "Send exactly one of at_most and at_least.")
        if isinstance(self.question, TradeOffQuestion) and len(self.question.false_positive_rates) != 1:
            raise _refusal("question", "Must be about one number: a trade_off with one false positive rate.")
        if not isinstance(self.question, TradeOffQuestion) and self.reads != "power":
            raise _refusal("reads", "Only for the question trade_off.")
        return self

    @property
    def limit(self) -> float:
        """Allowed largest or smallest value."""
        return self.at_most if self.at_most is not None else self.at_least or 0.0

    @property
    def field(self) -> Literal["at_most", "at_least"]:
        """Name of the field that was sent: `at_most` or `at_least`."""
        return "at_least" if self.at_most is None else "at_most"


class CalibrationTarget(Limit):
    """A limit on the answer to one question, which a calibration has to meet."""

    def check_limit(self, *, whatever: bool) -> None:
        """Raise PydanticCustomError for a limit that no answer meets.

        `whatever` is whether a parameter of the question is free, so that the answers for all its values count.
        """
        least, most = widest(self.question) if whatever else value_range(self)
        if self.at_most is not None and self.at_most < least * (1 - SLACK):
            raise _refusal("at_most", "Must be larger: guessing alone exceeds this limit for every mechanism.")
        if self.at_least is not None and self.at_least > most * (1 + SLACK):
            raise _refusal("at_least", "Must be smaller: no mechanism reaches this limit.")


def value_range(target: Limit) -> tuple[float, float]:
    """Return the smallest and the largest possible answer to the question of a target, up to a few roundings."""
    question = target.question
    match question:
        case TradeOffQuestion(false_positive_rates=(rate, *_)):
            return (rate, 1.0) if target.reads == "power" else (0.0, 1 - rate)
        case ReconstructionQuestion():
            chances = (question.baseline_success, question.candidates and 1 / question.candidates)
            known = next((chance for chance in chances if chance is not None), None)
            return (max(question.prior_probabilities or (0.0,)) if known is None else known), 1.0
        case AttackAccuracyQuestion(false_positive_rate=None, prior=prior):
            return max(prior, 1 - prior), 1.0
        case AttackAccuracyQuestion(false_positive_rate=float() as rate, prior=prior):
            right = (1 - prior) * (1 - rate)
            return prior * rate + right, prior + right
        case PositivePredictiveValueQuestion():
            return _positive_range(question)
        case NegativePredictiveValueQuestion():
            return _negative_range(question)
        case DeletionCapacityQuestion():
            return _capacity_range(question)
        case EpsilonQuestion(delta=1.0):
            return 0.0, 0.0
        case AdvantageOverPriorQuestion(prior=prior):
            return 0.0, 2 * (1 - prior) if prior > 0 else 0.0
        case UnlearningGuaranteeQuestion(prior=prior):
            return (0.0 if prior > 0 else 1.0), 1 - prior
        case _:
            return widest(question)


def _positive_range(question: PositivePredictiveValueQuestion) -> tuple[float, float]:
    """Return the range of the positive predictive value p power / (p power + (1 - p) a).

    p is the prior and a the false positive rate. The power is from a to 1 for the largest value, and from 0 to a for
    the smallest.
    """
    prior, rate = question.prior, question.false_positive_rate or 0.0
    if question.side == "at_least":
        return (0.0 if prior < 1 else 1.0), prior
    return prior, prior / (prior + (1 - prior) * rate) if prior > 0 else 0.0


def _capacity_range(question: DeletionCapacityQuestion) -> tuple[float, float]:
    """Return the range of the deletion capacity floor(ln B / ln L), where B is the confidence.

    The bound L of the negative predictive value for one record is from 0 to 1 - p, where p is the prior and nothing is
    learnt.
    """
    prior, confidence = question.prior, question.confidence
    if confidence == 0:
        return math.inf, math.inf
    if prior == 0:
        return math.inf, math.inf
    alone = 0.0 if prior == 1 else math.log(confidence) / math.log1p(-prior)
    # (1 + SLACK): a ratio may round to just below a whole number.
    return 0.0, float(math.floor(alone * (1 + SLACK)))


def _negative_range(question: NegativePredictiveValueQuestion) -> tuple[float, float]:
    """Return the range of the negative predictive value (1 - p)(1 - a) / ((1 - p)(1 - a) + p beta).

    p is the prior and a the false positive rate. The type II error beta is from 1 - a to 0 for the largest value, and
    from 1 - a to 1 for the smallest.
    """
    prior, rate = question.prior, question.false_positive_rate
    if prior == 0:
        return 1.0, 1.0
    if question.side == "at_most":
        return 1 - prior, 1.0 if prior < 1 else 0.0
    kept = 0.0 if rate is None else (1 - prior) * (1 - rate)
    return (kept / (kept + prior) if kept else 0.0), 1 - prior


def widest(question: QuestionSpec) -> tuple[float, float]:
    """Return the smallest and the largest possible answer to a question of this type, for any parameters."""
    match question:
        case EpsilonQuestion() | GdpMuQuestion() | DeletionCapacityQuestion():
            return 0.0, math.inf
        case AdvantageOverPriorQuestion():
            return 0.0, 2.0
        case _:
            return 0.0, 1.0


def why_idle(limit: Limit) -> str | None:
    """Return why a limit has no effect: every run meets it, or no run does.

    Return None for a limit that has an effect.
    """
    least, most = value_range(limit)
    number, upwards = limit.limit, limit.at_most is not None
    if least >= most * (1 - SLACK):
        return (
            f"The answer to this question is {least:.6g} for every run. Choose a question whose answer depends on "
            "the run."
        )
    beyond_most, beyond_least = number >= most * (1 - SLACK), number <= least * (1 + SLACK)
    if beyond_most if upwards else beyond_least:
        end = f"at most {most:.6g}" if upwards else f"at least {least:.6g}"
        return f"No run can violate this limit, because the answer is {end} for every run.{_meant(limit, least, most)}"
    if number < least * (1 - SLACK) if upwards else number > most * (1 + SLACK):
        side, end = ("least", least) if upwards else ("most", most)
        return (
            f"No run can meet this limit, because the answer is at {side} {end:.6g} for every "
            f"run.{_meant(limit, least, most)}"
        )
    return None


def _meant(limit: Limit, least: float, most: float) -> str:
    """Return a hint about percentages if the limit, taken as a percentage, would have an effect, else "".

    `least` and `most` are the smallest and the largest possible answer.
    """
    share = limit.limit / 100
    is_share = most < math.inf and not isinstance(limit.question, DeletionCapacityQuestion)
    return f" Did you mean {share:.12g}?" if is_share and limit.limit >= 1 and least < share < most else ""


def _refusal(field: str, sentence: str) -> PydanticCustomError:
    return PydanticCustomError("target", "{sentence}", {"sentence": sentence, "field": field})
