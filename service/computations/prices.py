"""What a request costs: its questions or its points, at the prices of its mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

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
from service.computations.abstract import Quote
from service.privacy.composition.plan import Plan
from service.privacy.composition.tariff import Prices, Tariff
from service.privacy.questions.complement import LARGE_RATE

INLINE_LIMIT: Final = 10_000
"""Microseconds: what the ceilings of closed forms may come to together for the event loop to read them. Half of what it
may be held up for, as first readings in a process that has done other things take longer."""


def quote(priced: Sequence[tuple[float, Plan]], beside: float = 0.0) -> Quote:
    """What readings of these plans cost together, and `beside` them; in the event loop only where all are closed."""
    cost = math.ceil(math.fsum(each for each, _ in priced) + beside)
    closed = all(plan.closed for _, plan in priced)
    _, dearest = max(priced, key=lambda each: each[0])
    return Quote(cost, inline=closed and cost <= INLINE_LIMIT, engine=dearest.engine)


def price(questions: Sequence[QuestionSpec], tariff: Tariff) -> float:
    """Microseconds of CPU, roughly; of closed forms, at most."""
    total = _base(tariff, (question.direction for question in questions))
    for question in questions:
        total += _price(question, tariff.hull if question.direction == "both" else tariff.directed)
    return total


def curves_price(directions: Sequence[Direction], points: int, tariff: Tariff) -> float:
    """The same for curves, each read at so many points."""
    prices = (tariff.hull if direction == "both" else tariff.directed for direction in directions)
    return _base(tariff, directions) + sum(_list_price(points, each) for each in prices)


def _base(tariff: Tariff, directions: Iterable[Direction]) -> float:
    asked = set(directions)
    return tariff.base * (1 if tariff.is_one_curve else 2 if "both" in asked else len(asked))


def _list_price(points: int, prices: Prices) -> float:
    return min(prices.spread, prices.point * points) + prices.listed_point * points


def _price(question: QuestionSpec, prices: Prices) -> float:
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
