"""A curve that is known to lie between two others."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.logs import log, log_ends

NEIGHBOURS: Final = np.array([1e-3, 0.1, 0.9])
"""Distances, relative to alpha or 1 - alpha, of the rates between which chords bound the slope."""
SLACK: Final = 4 * FUNCTION_ERROR


@final
class Between(AbstractTradeOff):
    """Some curve f with `weaker` >= f >= `stronger`: the power of the weaker attack bounds its own from below, that of
    the stronger from above, and chords of both the slope.
    """

    def __init__(self, weaker: AbstractTradeOff, stronger: AbstractTradeOff) -> None:
        self.weaker, self.stronger = weaker, stronger
        self.evidence = Evidence.weakest(weaker.evidence, stronger.evidence)
        self.method = stronger.method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """At least where the weaker attack's power starts; more is not known of f."""
        if self.weaker.singular_power.upper == self.stronger.singular_power.upper == 0:
            return self._joined(self.weaker.largest_log_ratio, self.stronger.largest_log_ratio)
        return Enclosure(self.weaker.largest_log_ratio.lower, np.inf, self.evidence)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self._joined(self.stronger.smallest_log_ratio, self.weaker.smallest_log_ratio)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._joined(self.weaker.singular_power, self.stronger.singular_power)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        first, second = self.weaker.global_gdp_mu, self.stronger.global_gdp_mu
        return None if first is None or second is None else self._joined(first, second)

    @override
    def reversed(self) -> AbstractTradeOff:
        return Between(self.weaker.reversed(), self.stronger.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        shift = NEIGHBOURS[:, None]
        left, right = alpha * (1 - shift), alpha + (1 - alpha) * shift
        rates = np.concatenate((alpha[None], left, right))
        weak, strong = (curve.points(rates.ravel()) for curve in (self.weaker, self.stronger))
        power = _between(weak.power, strong.power)
        error = _between(strong.type_two_error, weak.type_two_error)
        low, high = power.lower.reshape(rates.shape), power.upper.reshape(rates.shape)
        missed_low, missed_high = error.lower.reshape(rates.shape), error.upper.reshape(rates.shape)
        # A concave power is less steep than its chords to the left and steeper than those to the right; the type II
        # errors have the same chords, with more digits where they are the smaller numbers.
        steepest = np.minimum(high[0] - low[1:4], missed_high[1:4] - missed_low[0]) / (alpha - left)
        flattest = np.maximum(low[4:] - high[0], missed_low[0] - missed_high[4:]) / (right - alpha)
        steep, flat = log(steepest.min(axis=0)), log(np.maximum(flattest.max(axis=0), 0.0))
        slope = Bounds(flat - SLACK * (1 + _size(flat)), steep + SLACK * (1 + _size(steep)))
        return CurvePoints(_first(error, len(alpha)), _first(power, len(alpha)), slope)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        return _between(self.weaker.profile(epsilon), self.stronger.profile(epsilon))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._joined(self.weaker.epsilon(delta), self.stronger.epsilon(delta))

    def _joined(self, low: Enclosure, high: Enclosure) -> Enclosure:
        return Enclosure(low.lower, high.upper, self.evidence, low.log_lower, high.log_upper)


def _between(low: Bounds, high: Bounds) -> Bounds:
    return Bounds(low.lower, high.upper, log_ends(low)[0], log_ends(high)[1])


def _first(bounds: Bounds, count: int) -> Bounds:
    low, high = log_ends(bounds)
    return Bounds(bounds.lower[:count], bounds.upper[:count], low[:count], high[:count])


def _size(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), np.abs(values), 0.0)
