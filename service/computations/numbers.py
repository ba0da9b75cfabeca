"""Enclosures of the core as they travel: the safe end as `value`, logarithms where a double is too small."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from api_schemas.bounds import EnclosedNumber
from service.privacy.enclosure import Bounds, Enclosure, Evidence

SMALLEST_PLAIN_NUMBER: Final = 1e-290
"""Positive numbers below this also travel as decimal logarithms."""

LOG10_OF_E: Final = math.log10(math.e)
# Two roundings of the product and the constant, and one of the correction itself, are below four half-ulps.
LOG10_RELATIVE_ERROR: Final = 2.0**-51

SafeEnd = Literal["lower", "upper"]


def enclosed_number(enclosure: Enclosure, safe_end: SafeEnd) -> EnclosedNumber:
    """One number with its enclosure, as on the wire."""
    lower, upper = enclosure.lower, enclosure.upper
    number = EnclosedNumber(value=lower if safe_end == "lower" else upper, lower=lower, upper=upper)
    log_lower, log_upper = _logarithm(lower, enclosure.log_lower), _logarithm(upper, enclosure.log_upper)
    if upper < SMALLEST_PLAIN_NUMBER and log_upper > -math.inf:
        lower_log10 = log_lower * LOG10_OF_E - abs(log_lower) * LOG10_RELATIVE_ERROR
        upper_log10 = log_upper * LOG10_OF_E + abs(log_upper) * LOG10_RELATIVE_ERROR
        number["value_log10"] = lower_log10 if safe_end == "lower" else upper_log10
        number["lower_log10"] = lower_log10
        number["upper_log10"] = upper_log10
    return number


def enclosed_numbers(bounds: Bounds, safe_end: SafeEnd) -> list[EnclosedNumber]:
    """An array of numbers with their enclosures, as on the wire."""
    lower, upper = bounds.lower.tolist(), bounds.upper.tolist()
    value = lower if safe_end == "lower" else upper
    numbers: list[EnclosedNumber] = [
        {"value": safe, "lower": low, "upper": high} for safe, low, high in zip(value, lower, upper, strict=True)
    ]
    for index in _tiny(bounds):
        numbers[index] = enclosed_number(bounds.at(index, Evidence.EXACT), safe_end)
    return numbers


def narrow(bounds: Bounds, relative_tolerance: float) -> bool:
    """Whether every enclosure is at most `relative_tolerance` wide, relative to its upper end."""
    wide = bounds.upper - bounds.lower > relative_tolerance * bounds.upper
    tiny = _tiny(bounds)
    wide[tiny] = [bounds.at(index, Evidence.EXACT).relative_width() > relative_tolerance for index in tiny]
    return not wide.any()


def _tiny(bounds: Bounds) -> list[int]:
    return np.flatnonzero(bounds.upper < SMALLEST_PLAIN_NUMBER).tolist()


def _logarithm(end: float, logarithm: float | None) -> float:
    if logarithm is not None:
        return logarithm
    return math.log(end) if end > 0 else -math.inf
