"""Answers that are single numbers, and their bounds."""

from __future__ import annotations

from api_schemas.answers import (
    AdvantageOverPriorAnswer,
    GdpMuAnswer,
    GuaranteeAnswer,
    NumberAnswer,
    ProbabilityAnswer,
)
from api_schemas.enclosures import EnclosedNumber, EnclosedProbability

EnclosedAnswer = NumberAnswer | AdvantageOverPriorAnswer | ProbabilityAnswer | GuaranteeAnswer
"""Fields of `Enclosed` as a model of answers."""


def answer_bounds(answer: EnclosedAnswer | GdpMuAnswer) -> tuple[float, float]:
    assert answer.lower is not None
    assert answer.upper is not None
    return answer.lower, answer.upper


def bounds_of(number: EnclosedNumber | EnclosedProbability) -> tuple[float, float]:
    assert number["lower"] is not None
    assert number["upper"] is not None
    return number["lower"], number["upper"]
