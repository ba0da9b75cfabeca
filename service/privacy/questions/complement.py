"""Readings of a curve at rates 1 - a, for an a whose complement is not a double."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.enclosure import Bounds, Enclosure, FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.decreasing_root import increasing_root

LARGE_RATE: Final = 2.0**-14
"""From here on an ulp over the rate is 4e-12 at most."""


def type_two_error_at_complement(curve: AbstractTradeOff, rate: float) -> Enclosure:
    """f(1 - rate), with relative accuracy however small the rate is.

    Where 1 - rate is no double, neighbouring doubles enclose it: f is convex and ends in f(1) = 0, so that they differ
    by at most an ulp over the rate, relative to f. For small rates it is the beta at which the inverse curve's power
    reaches `rate`.
    """
    rounded = 1 - rate
    if 1 - rounded == rate:
        return curve.type_two_error(np.array([rounded])).at(0, curve.evidence)
    if rate >= LARGE_RATE:
        bounds = curve.type_two_error(_neighbours(rounded))
        return Enclosure(float(bounds.lower[1]), float(bounds.upper[0]), curve.evidence)
    inverse = curve.reversed()
    if inverse.singular_power.lower >= rate:
        return Enclosure.point(0.0)

    def log_power(log_beta: FloatArray) -> Bounds:
        return inverse.power(np.exp(log_beta))

    # f(1 - rate) <= rate, and nothing below the smallest double can be resolved.
    root = increasing_root(log_power, rate, -744.0, math.log(rate), curve.evidence)
    lower = max(math.exp(root.lower) * (1 - 1e-13) - 5e-324, 0.0) if root.lower > -744 else 0.0
    return Enclosure(lower, min(math.exp(root.upper) * (1 + 1e-13) + 5e-324, rate), curve.evidence)


def power_at_complement(curve: AbstractTradeOff, rate: float) -> Enclosure:
    """1 - f(1 - rate), which is at least 1 - rate: neighbouring doubles enclose it within an ulp or two."""
    rounded = 1 - rate
    if 1 - rounded == rate:
        return curve.power_at(rounded)
    bounds = curve.power(_neighbours(rounded))
    return Enclosure(float(bounds.lower[0]), float(bounds.upper[1]), curve.evidence)


def _neighbours(rate: float) -> FloatArray:
    return np.array([math.nextafter(rate, 0.0), min(math.nextafter(rate, 2.0), 1.0)])
