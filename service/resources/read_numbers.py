"""Numbers of answers, and their exact comparison with claims and with one another.

Bounds are doubles, and therefore rational: they are compared as fractions. Numbers below 1e-290 also have decimal
logarithms of their bounds, rounded outwards. Those numbers are compared by their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

from api_schemas.questions import (
    DeletionCapacityQuestion,
    NegativePredictiveValueQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)
from service.privacy.enclosure import Evidence
from service.privacy.questions.empty_range import range_may_be_empty
from service.resources.numbers import UNPROVED

LOG10_SLACK: Final = 2.0**-50
"""Relative error of a decimal logarithm, and of sums of two, with a wide margin."""


def is_guarantee(question: QuestionSpec, reads: str = "power") -> bool:
    """Return whether a larger answer to `question` means more privacy, so that its lower bound is the safe one.

    `reads` names the quantity of a trade-off curve: "power" or the type II error.
    """
    match question:
        case TradeOffQuestion():
            return reads == "type_two_error"
        case PositivePredictiveValueQuestion(side=side) | NegativePredictiveValueQuestion(side=side):
            return side == "at_least"
        case DeletionCapacityQuestion() | UnlearningGuaranteeQuestion():
            return True
        case _:
            return False


@final
@dataclass(frozen=True, slots=True)
class ReadNumber:
    """Number of an answer: `lower <= truth <= upper`, both None if nothing is proved.

    `value` is the safe bound (which never states more privacy than there is), which is the lower one if `guarantee` is
    true. `log10` holds the decimal logarithms of both bounds of a positive number below 1e-290.
    """

    value: float
    lower: float | None
    upper: float | None
    evidence: Evidence
    guarantee: bool
    tight: bool | None = None
    log10: tuple[float, float] | None = None

    @staticmethod
    def of(answer: Mapping[str, Any], reads: str = "power", place: int = 0) -> ReadNumber:
        """Return the number in the answer to a question, for comparison with other numbers.

        For a trade-off curve, `reads` names the quantity and `place` is the index of the point. If the range of error
        rates of mu may contain no point of the curve, mu of the whole curve is returned.
        """
        question: QuestionSpec = answer["question"]
        number: Mapping[str, Any] = answer["points"][place][reads] if "points" in answer else answer
        if "global_mu" in answer and range_may_be_empty(answer["notes"]):
            number = answer["global_mu"]
        evidence: Evidence = answer["evidence"]
        guarantee, tight = is_guarantee(question, reads), answer["tight"]
        if evidence in UNPROVED:
            return ReadNumber(number["value"], None, None, evidence, guarantee, tight)
        logs = (number["lower_log10"], number["upper_log10"]) if "lower_log10" in number else None
        return ReadNumber(number["value"], number["lower"], number["upper"], evidence, guarantee, tight, logs)

    def is_above(self, value: float, tolerance: float = 0.0) -> bool:
        """Return whether the true number is proved to be above `value` >= 0: value < lower (1 - tolerance)."""
        if self.lower is None or tolerance >= 1 or (value >= self.lower and self.log10 is None):
            return False
        if self.log10 is not None:
            return _log10(value, 1) < _log10_of_product(self.log10[0], math.log1p(-tolerance), -1)
        return math.isinf(self.lower) or Fraction(value) < Fraction(self.lower) * (1 - Fraction(tolerance))

    def is_below(self, value: float, tolerance: float = 0.0) -> bool:
        """Return whether the true number is proved to be below `value` >= 0: value > upper (1 + tolerance)."""
        if self.upper is None or math.isinf(self.upper):
            return False
        if self.log10 is not None:
            return _log10(value, -1) > _log10_of_product(self.log10[1], math.log1p(tolerance), 1)
        return math.isinf(value) or Fraction(value) > Fraction(self.upper) * (1 + Fraction(tolerance))

    def is_wider_than(self, tolerance: float) -> bool:
        """Return whether the bounds differ by more than the tolerance, relative to the upper bound."""
        if self.lower is None or self.upper is None:
            return True
        if self.log10 is not None:
            return self.log10[0] < _log10_of_product(self.log10[1], math.log1p(-min(tolerance, 0.5)), -1)
        if math.isinf(self.upper):
            return self.lower < self.upper
        return self.upper - self.lower > tolerance * self.upper


def _log10(value: float, side: int) -> float:
    if value <= 0 or math.isinf(value):
        return -math.inf if value <= 0 else math.inf
    found = math.log10(value)
    return found + side * abs(found) * LOG10_SLACK


def _log10_of_product(log10: float, natural: float, side: int) -> float:
    # log10 of a product with e^`natural`, rounded down (side -1) or up (side 1)
    if math.isinf(log10):
        return log10
    other = natural / math.log(10)
    return log10 + other + side * (abs(log10) + abs(other)) * LOG10_SLACK


def rounded_down(value: Fraction) -> float:
    """Return the largest double that is at most `value`."""
    try:
        found = float(value)
    except OverflowError:
        return math.nextafter(math.inf, 0) if value > 0 else -math.inf
    return math.nextafter(found, -math.inf) if Fraction(found) > value else found


def rounded_up(value: Fraction) -> float:
    """Return the smallest double that is at least `value`."""
    return -rounded_down(-value)
