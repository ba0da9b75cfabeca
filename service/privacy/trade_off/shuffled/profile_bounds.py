"""Bounds of profiles and points that follow from other bounds."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.rounding import FUNCTION_ERROR

SLACK: Final = 16 * FUNCTION_ERROR


def left_of_zero(epsilon: float, log_other: float, side: int) -> float:
    """Return a bound of ln delta(eps) for eps < 0 from the bound `log_other` of ln delta'(-eps) on the same side.

    delta' is the profile of the swapped hypotheses: delta(eps) = (1 - e^eps) + e^eps delta'(-eps). `side` is -1 for a
    lower bound and 1 for an upper bound.
    """
    value = -math.expm1(epsilon) + math.exp(epsilon + min(log_other, 0.0))
    return math.log(value) * (1 - side * SLACK) + side * SLACK if value > 0 else -math.inf


def joined(number: EnclosureArray, other: EnclosureArray) -> EnclosureArray:
    """Return the intersection of `number` and 1 - `other`, which enclose the same number."""
    low = np.maximum(number.lower, (1 - other.upper) * (1 - SLACK) - SLACK)
    high = np.minimum(number.upper, (1 - other.lower) * (1 + SLACK) + SLACK)
    return EnclosureArray(np.maximum(low, 0.0), np.minimum(high, 1.0))
