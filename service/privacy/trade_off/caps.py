"""What the extreme log-likelihood ratios alone prove, however loosely the rest of a curve is known.

With l <= L <= l' almost surely, no mass of H1 lies outside H0 where l' is finite, nor of H0 outside H1 where l is:

    power(alpha) <= e^l' alpha,    type II error >= e^l (1 - alpha),    delta(eps) <= 1 - e^(eps - l') for eps < l',
    delta(eps) = 0 for eps >= l',    and each of the first two bounds the other from its other side.

Only upper ends of power and delta and lower ends of type II errors are touched, and only where they are worse.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from service.privacy.enclosure import SMALLEST, Bounds, Enclosure, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

SLACK: Final = 2 * FUNCTION_ERROR


def log_power_cap(alpha: FloatArray, smallest: float, largest: float) -> FloatArray:
    """An upper end of ln power(alpha) for rates in (0, 1)."""
    with np.errstate(all="ignore"):
        log_alpha = np.log(alpha)
        by_largest = log_alpha + largest
        by_largest = by_largest + SLACK * (np.abs(log_alpha) + abs(largest))
        by_smallest = np.log1p(-((1 - alpha) * math.exp(smallest)) * (1 - SLACK))
        caps = np.minimum(by_largest, by_smallest * (1 - SLACK)) if smallest > -math.inf else by_largest
        return np.minimum(np.where(np.isnan(caps), 0.0, caps), 0.0)


def log_error_floor(alpha: FloatArray, smallest: float, largest: float) -> FloatArray:
    """A lower end of ln f(alpha) for rates in (0, 1)."""
    with np.errstate(all="ignore"):
        log_rest = np.log1p(-alpha)
        by_smallest = log_rest + smallest
        by_smallest = by_smallest - SLACK * (np.abs(log_rest) + abs(smallest))
        log_alpha = np.log(alpha)
        power = np.exp(log_alpha + largest) * (1 + SLACK * (1 + np.abs(log_alpha) + abs(largest)))
        by_largest = np.log1p(-np.minimum(power, 1.0))
        by_largest = np.where(by_largest > -0.5, by_largest * (1 + SLACK), -np.inf)
        floors = np.maximum(by_smallest, by_largest) if largest < math.inf else by_smallest
        return np.where(np.isnan(floors), -np.inf, floors)


def log_profile_cap(epsilon: FloatArray, largest: float) -> FloatArray:
    """An upper end of ln delta(eps) for finite eps."""
    with np.errstate(all="ignore"):
        share = -np.expm1(np.minimum(epsilon - largest, 0.0))
        # The difference is off by half an ulp of the larger of the two.
        share = share + 2 * UNIT_ROUNDOFF * (np.abs(epsilon) + abs(largest)) * (epsilon < largest)
        return np.minimum(np.log(share) * (1 - SLACK), 0.0)


def capped(bounds: Bounds, log_cap: FloatArray) -> Bounds:
    """Upper ends brought down to e^log_cap where they are above."""
    with np.errstate(all="ignore"):
        cap = np.where(log_cap == -np.inf, 0.0, np.minimum(np.exp(log_cap) * (1 + 2.0**-50) + SMALLEST, 1.0))
    above = cap < bounds.upper
    log_upper = bounds.log_upper
    if log_upper is not None:
        log_upper = np.minimum(log_upper, log_cap)
    elif not above.any():
        return bounds
    upper = np.where(above, cap, bounds.upper)
    log_lower = (
        bounds.log_lower if bounds.log_lower is None or log_upper is None else np.minimum(bounds.log_lower, log_upper)
    )
    return Bounds(np.minimum(bounds.lower, upper), upper, log_lower, log_upper)


def floored(bounds: Bounds, log_floor: FloatArray) -> Bounds:
    """Lower ends brought up to e^log_floor where they are below."""
    with np.errstate(all="ignore"):
        floor = np.maximum(np.exp(log_floor) * (1 - 2.0**-50) - SMALLEST, 0.0)
    log_lower = bounds.log_lower
    if log_lower is not None:
        log_lower = np.maximum(log_lower, log_floor)
    lower = np.maximum(bounds.lower, floor)
    log_upper = (
        bounds.log_upper if bounds.log_upper is None or log_lower is None else np.maximum(bounds.log_upper, log_lower)
    )
    return Bounds(lower, np.maximum(bounds.upper, lower), log_lower, log_upper)


def capped_number(number: Enclosure, log_cap: float) -> Enclosure:
    """The upper end of one number brought down to e^log_cap where it is above."""
    cap = 0.0 if log_cap == -math.inf else min(math.exp(log_cap) * (1 + 2.0**-50) + SMALLEST, 1.0)
    known = number.log_upper
    if cap >= number.upper and (known is None or known <= log_cap):
        return number
    upper = min(number.upper, cap)
    log_upper = None if known is None else min(known, log_cap)
    log_lower = number.log_lower
    if log_lower is not None and log_upper is not None:
        log_lower = min(log_lower, log_upper)
    return replace(number, lower=min(number.lower, upper), upper=upper, log_lower=log_lower, log_upper=log_upper)
