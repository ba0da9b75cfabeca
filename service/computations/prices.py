"""What a request costs: its questions or its points, at the prices of its mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from api_schemas.quantities import Direction
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
    total = _base(tariff, (question.direction for question in questions))
    for question in questions:
        total += _price(question, tariff.hull if question.direction == "both" else tariff.directed)
    return total


def curves_price(directions: Sequence[Direction], points: int, tariff: Tariff) -> int:
    """The same for curves, each read at so many points."""
    prices = (tariff.hull if direction == "both" else tariff.directed for direction in directions)
    return _base(tariff, directions) + sum(_list_price(points, each) for each in prices)


def _base(tariff: Tariff, directions: Iterable[Direction]) -> int:
    asked = set(directions)
    return tariff.base * (1 if tariff.hull is tariff.directed else 2 if "both" in asked else len(asked))


def _list_price(points: int, prices: Prices) -> int:
    return min(prices.spread, prices.point * points) + math.ceil(prices.listed_point * points)


def _price(question: QuestionSpec, prices: Prices) -> int:
    match question:
        case TradeOffQuestion():
            return _list_price(len(question.false_positive_rates), prices)
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
