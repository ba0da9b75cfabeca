"""What a request costs: its questions, at the prices of its mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence

from api_schemas.questions import (
    AdvantageQuestion,
    AttackAccuracyQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
    TradeOffQuestion,
)
from service.privacy.composition.cost import Prices, Tariff
from service.privacy.questions.complement import LARGE_RATE


def price(questions: Sequence[QuestionSpec], tariff: Tariff) -> int:
    """Microseconds of CPU, roughly, and rather too many than too few."""
    directions = {question.direction for question in questions}
    curves = 1 if tariff.hull is tariff.directed else 2 if "both" in directions else len(directions)
    total = tariff.base * curves
    for question in questions:
        total += _price(question, tariff.hull if question.direction == "both" else tariff.directed)
    return total


def _price(question: QuestionSpec, prices: Prices) -> int:
    match question:
        case TradeOffQuestion():
            points = len(question.false_positive_rates)
            return min(prices.spread, prices.point * points) + math.ceil(prices.listed_point * points)
        case GdpMuQuestion():
            return prices.gdp_mu
        case EpsilonQuestion():
            return prices.epsilon
        case DeltaQuestion() | AdvantageQuestion():
            return prices.profile
        case AttackAccuracyQuestion():
            return prices.profile if question.false_positive_rate is None else prices.point
        case PositivePredictiveValueQuestion(side="at_least"):
            return prices.complement if (question.false_positive_rate or 1) < LARGE_RATE else 2 * prices.point
        case _:
            return prices.point
