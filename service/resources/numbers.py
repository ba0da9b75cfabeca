"""Enclosures (lower and upper bound) of the numeric core in the format of responses.

`value` is the safe bound. Numbers below the normal range of doubles also have decimal logarithms.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from api_schemas.enclosures import EnclosedNumber
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from api_schemas.curves import EnclosedColumn

SMALLEST_PLAIN_NUMBER: Final = 1e-290
"""Positive numbers below this also have decimal logarithms in the response."""

LOG10_OF_E: Final = math.log10(math.e)
# The product, the constant and the correction round three times: together less than four half-ulps.
LOG10_RELATIVE_ERROR: Final = 2.0**-51

LOGARITHMS: Final[tuple[Literal["value_log10", "lower_log10", "upper_log10"], ...]] = (
    "value_log10",
    "lower_log10",
    "upper_log10",
)
UNPROVED: Final = (Evidence.STATISTICAL, Evidence.ASYMPTOTIC)

SafeEnd = Literal["lower", "upper"]


def with_evidence_of(curve: AbstractTradeOff, enclosure: Enclosure) -> Enclosure:
    """Return an enclosure with evidence no stronger than that of the curve it comes from."""
    if curve.evidence not in UNPROVED:
        return enclosure
    return replace(enclosure, evidence=Evidence.weakest(enclosure.evidence, curve.evidence))


def tightness(evidence: Evidence, bracket: str | None) -> bool | None:
    """Return the field `tight` of a number: whether both bounds rest on one attained case.

    True means that both bounds rest on the same attained pair or closed form. False means that they come from two
    theorems, which the note `bracket` names. None means that the bounds are not proved.
    """
    return None if evidence in UNPROVED else bracket is None


def notes_for(pair: TradeOffPair, evidence: Evidence) -> tuple[str, ...]:
    """Return the note that the bounds of a number of these curves come from two theorems, if they do."""
    return pair.notes if pair.bracket is None or evidence in UNPROVED else (*pair.notes, pair.bracket)


def enclosed_number(enclosure: Enclosure, safe_end: SafeEnd) -> EnclosedNumber:
    """Return one number with its bounds, and the bound `safe_end` ("lower" or "upper") as its value.

    An approximation (evidence "asymptotic") has null bounds.
    """
    lower, upper = enclosure.lower, enclosure.upper
    value = lower if safe_end == "lower" else upper
    number = EnclosedNumber(value=value, lower=lower, upper=upper)
    log_lower, log_upper = _logarithm(lower, enclosure.log_lower), _logarithm(upper, enclosure.log_upper)
    if upper < SMALLEST_PLAIN_NUMBER and log_upper > -math.inf:
        lower_log10 = log_lower * LOG10_OF_E - abs(log_lower) * LOG10_RELATIVE_ERROR
        upper_log10 = log_upper * LOG10_OF_E + abs(log_upper) * LOG10_RELATIVE_ERROR
        number["value_log10"] = lower_log10 if safe_end == "lower" else upper_log10
        number["lower_log10"] = lower_log10
        number["upper_log10"] = upper_log10
    decimal = enclosure.decimal
    if decimal is not None:
        number["value_decimal"] = decimal.lower if safe_end == "lower" else decimal.upper
        number["lower_decimal"] = decimal.lower
        number["upper_decimal"] = decimal.upper
    return _unbounded(number) if enclosure.evidence is Evidence.ASYMPTOTIC else number


def enclosed_numbers(bounds: EnclosureArray, safe_end: SafeEnd, evidence: Evidence) -> list[EnclosedNumber]:
    """Return an array of numbers with their bounds in the format of responses, one object for each number.

    The bound `safe_end` ("lower" or "upper") is the value of each number. With asymptotic `evidence`, bounds are null.
    """
    lower, upper = bounds.lower.tolist(), bounds.upper.tolist()
    value = lower if safe_end == "lower" else upper
    numbers: list[EnclosedNumber] = [
        {"value": safe, "lower": low, "upper": high} for safe, low, high in zip(value, lower, upper, strict=True)
    ]
    if evidence is Evidence.ASYMPTOTIC:
        numbers = [_unbounded(number) for number in numbers]
    for index in _tiny(bounds):
        numbers[index] = enclosed_number(bounds.at(index, evidence), safe_end)
    return numbers


def enclosed_column(bounds: EnclosureArray, safe_end: SafeEnd, evidence: Evidence) -> EnclosedColumn:
    """Return an array of numbers with their bounds in the format of responses, one list for each field.

    The bound `safe_end` ("lower" or "upper") is the value of each number. With asymptotic `evidence`, bounds are null.
    """
    lower, upper = bounds.lower.tolist(), bounds.upper.tolist()
    bounded = evidence is not Evidence.ASYMPTOTIC
    column: EnclosedColumn = {
        "value": lower if safe_end == "lower" else upper,
        "lower": lower if bounded else None,
        "upper": upper if bounded else None,
    }
    tiny = {index: enclosed_number(bounds.at(index, evidence), safe_end) for index in _tiny(bounds)}
    for name in LOGARITHMS:
        logarithms = {index: number.get(name) for index, number in tiny.items()}
        if any(logarithm is not None for logarithm in logarithms.values()):
            column[name] = [logarithms.get(index) for index in range(len(lower))]
    return column


def meets(enclosure: Enclosure, relative_tolerance: float) -> bool:
    """Return whether the bounds differ by at most `relative_tolerance`, relative to the upper one.

    Confidence bounds count. The result is False for an asymptotic number, which has no bounds.
    """
    return enclosure.evidence is not Evidence.ASYMPTOTIC and enclosure.relative_width() <= relative_tolerance


def narrow(bounds: EnclosureArray, evidence: Evidence, relative_tolerance: float) -> bool:
    """Return whether every enclosure is at most `relative_tolerance` wide, relative to its upper bound.

    With asymptotic `evidence` there are no bounds, and the result is False.
    """
    if evidence is Evidence.ASYMPTOTIC:
        return False
    wide = bounds.upper - bounds.lower > relative_tolerance * bounds.upper
    tiny = _tiny(bounds)
    wide[tiny] = [bounds.at(index, Evidence.EXACT).relative_width() > relative_tolerance for index in tiny]
    return not wide.any()


def _unbounded(number: EnclosedNumber) -> EnclosedNumber:
    alone = EnclosedNumber(value=number["value"], lower=None, upper=None)
    if "value_log10" in number:
        alone["value_log10"] = number["value_log10"]
    return alone


def _tiny(bounds: EnclosureArray) -> list[int]:
    return np.flatnonzero(bounds.upper < SMALLEST_PLAIN_NUMBER).tolist()


def _logarithm(end: float, logarithm: float | None) -> float:
    if logarithm is not None:
        return logarithm
    return math.log(end) if end > 0 else -math.inf
