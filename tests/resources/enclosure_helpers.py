"""Answers that are one number, and their ends where there must be ends."""

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
"""What `Enclosed` has for a model of answers."""


def ends(answer: EnclosedAnswer | GdpMuAnswer) -> tuple[float, float]:
    assert answer.lower is not None
    assert answer.upper is not None
    return answer.lower, answer.upper


def ends_of(number: EnclosedNumber | EnclosedProbability) -> tuple[float, float]:
    assert number["lower"] is not None
    assert number["upper"] is not None
    return number["lower"], number["upper"]
