"""Power and type II error at rates 1 - a, for an a whose complement is not a double."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.enclosed.decreasing_root import increasing_root
from service.privacy.trade_off.enclosed.logs import log_ends

LARGE_RATE: Final = 2.0**-14
"""Smallest rate without a search: an ulp over such a rate is at most 4e-12."""
NARROW: Final = 1e-12
LEAST_LOGARITHM: Final = -700.0
"""Smallest logarithm of a search: about the smallest normal double."""
LOG_SLACK: Final = 2e-13
"""Bound of the error of exp for arguments down to -700, and of a sum of logarithms relative to their sizes."""


def type_two_error_at_complement(curve: AbstractTradeOff, rate: float) -> Enclosure:
    """Enclose the type II error f(1 - rate) with relative accuracy, however small the rate is.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve f.
    rate : float
        Complement of the false positive rate, in (0, 1].

    Returns
    -------
    Enclosure
        f(1 - rate) with its natural logarithms where 1 - rate is not a double.

    Notes
    -----
    Where 1 - a is not a double, three facts bound f(1 - a), which is convex in a with f(1) = 0:

    - a e^l <= f(1 - a), with l the smallest log-likelihood ratio, and f(1 - a)/a rises with a;
    - f falls, so that the doubles next to 1 - a enclose f(1 - a);
    - f(1 - a) is the beta where the power of the swapped hypotheses reaches a. A search finds this beta if a is small
      and the first two facts leave a wide enclosure.

    For a curve that is known from two sides, each bound comes from one side. A search on wide values would not narrow.
    """
    if isinstance(curve, Bracketed):
        least, most = (type_two_error_at_complement(side, rate) for side in (curve.dominating, curve.attained))
        return Enclosure(least.lower, most.upper, curve.evidence, least.log_lower, most.log_upper)
    rounded = 1 - rate
    if 1 - rounded == rate:
        return curve.type_two_error(np.array([rounded])).at(0, curve.evidence)
    inverse = curve.reversed()
    if inverse.singular_power.lower >= rate:
        return Enclosure.point(0.0)
    low, high = _between_neighbours(curve, rate)
    if rate < LARGE_RATE and high - low > NARROW and high > LEAST_LOGARITHM:

        def log_power(log_beta: FloatArray) -> EnclosureArray:
            return inverse.power(np.exp(log_beta))

        least = max(low - LOG_SLACK * (1 + abs(low)), LEAST_LOGARITHM) if low > -math.inf else LEAST_LOGARITHM
        root = increasing_root(log_power, rate, least, high, curve.evidence)
        if root.lower > least:
            low = max(low, root.lower - LOG_SLACK)
        high = min(high, root.upper + LOG_SLACK)
    return Enclosure.from_logs(min(low, high), high, curve.evidence)


def _between_neighbours(curve: AbstractTradeOff, rate: float) -> tuple[float, float]:
    """Return (lower, upper) bounds of ln f(1 - a) for a = `rate`, from the doubles around 1 - a and the slope at 1.

    f is the type II error of the curve as a function of the false positive rate.
    """
    around = _neighbours(1 - rate)
    lower, upper = (end.tolist() for end in log_ends(curve.type_two_error(around)))
    log_rate, whole = math.log(rate), 1 - float(around[0])
    slack = LOG_SLACK * (1 - log_rate)
    # f(1 - a) <= a, and by the chord from the neighbour whose complement is larger.
    high = min(upper[0], log_rate + slack, upper[0] + math.log(min(rate / whole, 1.0)) + slack)
    slope = curve.smallest_log_ratio.lower
    below = lower[1]
    if math.isfinite(slope):
        below = max(below, log_rate + slope - slack - LOG_SLACK * abs(slope))
    return below, high


def power_at_complement(curve: AbstractTradeOff, rate: float) -> Enclosure:
    """Enclose the power 1 - f(1 - rate) of a curve f, which is at least 1 - rate, for a `rate` in (0, 1].

    The neighbouring doubles of 1 - rate bound it, within one or two units in the last place.
    """
    rounded = 1 - rate
    if 1 - rounded == rate:
        return curve.power_at(rounded)
    bounds = curve.power(_neighbours(rounded))
    return Enclosure(float(bounds.lower[0]), float(bounds.upper[1]), curve.evidence)


def _neighbours(rate: float) -> FloatArray:
    return np.array([math.nextafter(rate, 0.0), min(math.nextafter(rate, 2.0), 1.0)])
