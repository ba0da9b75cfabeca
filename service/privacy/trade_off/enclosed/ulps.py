"""Error model of the special functions of SciPy, and helpers that round outwards.

`tests/privacy/trade_off/test_ulps.py` tests the model against 60-digit values over the used ranges. Errors are
relative, in units of u = 2^-53, for exact arguments: `ndtri` 12 u; `log_ndtr(t)` 8 u max(1, 1 + t |t|); `erfcx` on [-5,
inf) 24 u; `erf`, `erfinv` 8 u; `ndtri_exp` 1e-11 (its error grows in the far tail). `numerics.rounding.FUNCTION_ERROR`
covers the elementary functions.
"""

from __future__ import annotations

import math

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

NORMAL_QUANTILE_ERROR = 12 * UNIT_ROUNDOFF
LOG_NORMAL_CDF_ERROR = 8 * UNIT_ROUNDOFF
SCALED_ERFC_ERROR = 24 * UNIT_ROUNDOFF
ERF_ERROR = 8 * UNIT_ROUNDOFF
LOG_QUANTILE_ERROR = 1e-11
LEAST_SCORE, LARGEST_SCORE = -37.5, 8.2
"""Normal scores whose probabilities are about the smallest normal double, and the largest double below 1."""


def quotient(numerator: float, denominator: float) -> Enclosure:
    """Enclose a quotient of two doubles.

    Parameters
    ----------
    numerator, denominator : float
        Exact numbers.

    Returns
    -------
    Enclosure
        Exact for a power of two as denominator, otherwise within one unit in the last place.
    """
    value = numerator / denominator
    if math.frexp(denominator)[0] == 0.5:
        return Enclosure.point(value)
    return around(value)


def around(value: float, ulps: int = 1) -> Enclosure:
    """Enclose a number from its computed value.

    Parameters
    ----------
    value : float
        Computed value.
    ulps : int
        Largest error in units in the last place.

    Returns
    -------
    Enclosure
        Bounds on both sides of the value.
    """
    return Enclosure(below(value, ulps), above(value, ulps), Evidence.EXACT)


def below(value: float, ulps: int = 1) -> float:
    """Return a number lowered by some units in the last place.

    Parameters
    ----------
    value : float
        The number.
    ulps : int
        Number of units.

    Returns
    -------
    float
        The lowered number.
    """
    return math.nextafter(value, -math.inf) if ulps == 1 else value - ulps * math.ulp(value)


def above(value: float, ulps: int = 1) -> float:
    """Return a number raised by some units in the last place.

    Parameters
    ----------
    value : float
        The number.
    ulps : int
        Number of units.

    Returns
    -------
    float
        The raised number.
    """
    return math.nextafter(value, math.inf) if ulps == 1 else value + ulps * math.ulp(value)
