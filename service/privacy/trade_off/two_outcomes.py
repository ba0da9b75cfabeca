"""Trade-off curve of two outcomes: one shift of a mechanism of bounded range."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import with_logs

SLACK = 8 * FUNCTION_ERROR
"""Relative error of a product of a few exponentials, quotients and differences of exponentials of exact arguments."""


@final
class TwoOutcomesTradeOff(AbstractTradeOff):
    """Trade-off curve of a privacy loss with two values, `high` > 0 and -`low` < 0.

    Parameters
    ----------
    high, low : float
        Both losses in nats, in [1e-290, 700]. Other values raise ValueError.

    Notes
    -----
    The masses are P1(high) = (1 - e^-low)/(1 - e^{-high-low}) and P0(high) = e^-high P1(high). The power is min(e^high
    alpha, 1 - e^-low (1 - alpha)), and f is the larger of 1 - e^high alpha and e^-low (1 - alpha). The profile at x is
    1 - e^x below -low, P1(high) (1 - e^{x-high}) up to high, and 0 above. Errors are a few u = 2^-53 relative to the
    larger term of each sum.
    """

    evidence = Evidence.EXACT
    method = "closed_form"

    def __init__(self, high: float, low: float) -> None:
        if not (1e-290 <= high <= 700 and 1e-290 <= low <= 700):
            raise ValueError(f"losses {high!r} and {-low!r} are out of range")
        self.high, self.low = high, low
        spread = -math.expm1(-high - low)
        self.likely = -math.expm1(-low) / spread
        """P1(high)."""
        self.rare = self.likely * math.exp(-high)
        """P0(high)."""

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(self.high)

    @override
    def reversed(self) -> AbstractTradeOff:
        return TwoOutcomesTradeOff(self.low, self.high)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        steep, left = math.exp(self.high), math.exp(-self.low) * (1 - alpha)
        rising = np.minimum(steep * alpha, 1.0)
        first = alpha <= self.rare
        missed = math.exp(-self.low) * -math.expm1(-self.high) / -math.expm1(-self.high - self.low)  # P1(-low)
        error = np.where(first, missed + np.maximum(self.rare - alpha, 0.0) * steep, left)
        power = np.where(first, rising, self.likely + np.maximum(alpha - self.rare, 0.0) * math.exp(-self.low))
        near = np.abs(alpha - self.rare) <= SLACK * self.rare
        return CurvePoints(
            with_logs(*_outward(error, 1 - alpha)),
            with_logs(*(np.maximum(end, alpha) for end in _outward(power, np.ones_like(alpha)))),
            EnclosureArray(
                np.where(first & ~near, self.high, -self.low),
                np.where(first | near, self.high, -self.low),
            ),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        inside = np.clip(epsilon, -self.low, self.high)
        middle = self.likely * -np.expm1(inside - self.high)
        # The error of the difference of two losses is at most the roundings of both.
        off = UNIT_ROUNDOFF * (np.abs(inside) + self.high)
        below = epsilon < -self.low
        value = np.where(below, -np.expm1(np.minimum(epsilon, 0.0)), middle)
        lower, upper = _outward(value, np.ones_like(epsilon))
        lower, upper = np.where(below, lower, np.maximum(lower - off, 0.0)), np.where(below, upper, upper + off)
        return with_logs(lower, np.where(epsilon >= self.high, 0.0, np.minimum(upper, 1.0)))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        error = 4 * SLACK * (1 + self.high)
        if delta >= self.likely * (1 + SLACK):
            return Enclosure.point(0.0)
        share = min(delta / self.likely, 1 - SLACK)
        value = self.high + math.log1p(-share)
        error += 4 * SLACK / (1 - share)
        return Enclosure(max(value - error, 0.0), max(value + error, 0.0), Evidence.CERTIFIED)


def _outward(value: FloatArray, most: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (lower, upper) bounds of the numbers `value` in [0, `most`] with a relative error of SLACK."""
    step = 8 * SMALLEST
    return np.clip(value * (1 - SLACK) - step, 0.0, most), np.clip(value * (1 + SLACK) + step, 0.0, most)
