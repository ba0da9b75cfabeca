"""Points of a trade-off curve in normal quantiles, in which a Gaussian trade-off curve is a straight line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.enclosed.ulps import LOG_QUANTILE_ERROR, NORMAL_QUANTILE_ERROR

SMALLEST_RATE: Final = 1e-300
CLOSE: Final = 1e-10
"""Relative width of the enclosure of mu at which a search stops."""


@dataclass(frozen=True, slots=True)
class NormalPoints:
    """Points of a trade-off curve in normal quantiles, arrays of one shape.

    u = -Phi^-1(alpha), q = Phi^-1(power), and mu = q + u.
    """

    u: EnclosureArray
    q: EnclosureArray
    mu: EnclosureArray


def normal_points(rates: FloatArray, power: EnclosureArray, type_two_error: EnclosureArray) -> NormalPoints:
    """Compute the normal quantiles of the points of a curve, shape (n,).

    `rates` are false positive rates strictly between 0 and 1, and `power` and `type_two_error` the points there.
    Each quantile comes from the smaller one of both numbers.
    """
    value = -special.ndtri(rates)
    u = _around(value, NORMAL_QUANTILE_ERROR * np.abs(value))
    q = _probit(power, type_two_error)
    # An infinite quantile, of a power of 0 or 1, has no rounding.
    left, right = (
        2 * UNIT_ROUNDOFF * np.where(np.isfinite(end), np.abs(value) + np.abs(end), 0.0) for end in (q.lower, q.upper)
    )
    return NormalPoints(u, q, EnclosureArray(q.lower + u.lower - left, q.upper + u.upper + right))


def _probit(power: EnclosureArray, type_two_error: EnclosureArray) -> EnclosureArray:
    """Enclose Phi^-1(power), from the smaller of `power` and `type_two_error` = 1 - power."""
    lower = np.where(power.lower < 0.5, _quantile(power, -1), -_quantile(type_two_error, 1))
    upper = np.where(power.upper < 0.5, _quantile(power, 1), -_quantile(type_two_error, -1))
    return EnclosureArray(lower, upper)


def _quantile(bounds: EnclosureArray, side: int) -> FloatArray:
    # A lower bound of 1 is rounded: no number here is 1.
    end = np.minimum(bounds.lower, 1 - UNIT_ROUNDOFF) if side < 0 else bounds.upper
    value = special.ndtri(end)
    error = NORMAL_QUANTILE_ERROR * np.abs(value)
    tiny = end < SMALLEST_RATE
    if tiny.any():
        log = log_ends(bounds)[0 if side < 0 else 1]
        from_log = special.ndtri_exp(np.maximum(log, -1e300))
        value = np.where(tiny, from_log, value)
        error = np.where(tiny, LOG_QUANTILE_ERROR * np.abs(from_log), error)
    # Phi^-1 of 0 or 1 is infinite without an error.
    return np.where(np.isfinite(value), value + side * np.where(np.isfinite(error), error, 0.0), value)


def _around(value: FloatArray, error: FloatArray) -> EnclosureArray:
    return EnclosureArray(value - error, value + error)
