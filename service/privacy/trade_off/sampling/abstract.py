"""Sampling of a step with any curve: H0 = P0, H1 = (1 - p) P0 + p P1 (add), and the swapped hypotheses (remove).

The remove direction is the inverse function. Sources: Dong, Roth, Su 2022, section 4 (f_p = p f + (1 - p) Id); Zhu,
Dong, Wang 2022, Theorem 11.
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray
from service.privacy.losses.sampled_ratio import base_log_ratio, sampled_log_ratio
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import chosen, log_ends, moved, scaled, with_logs

SLACK = 8 * UNIT_ROUNDOFF
BaseT = TypeVar("BaseT", bound=AbstractTradeOff)


class AbstractSampled(AbstractTradeOff, Generic[BaseT]):
    """Base class of both directions of a sampled step: a base curve and a sampling rate 0 < p < 1.

    The base curve is that of the step without sampling. `AbstractSampledAdd` and `AbstractSampledRemove` have the
    formulas of the directions.
    """

    def __init__(self, base: BaseT, sample_rate: float) -> None:
        self.base, self.rate = base, sample_rate
        self.rest = 1 - sample_rate  # correctly rounded
        self.evidence, self.method = base.evidence, base.method


class AbstractSampledAdd(AbstractSampled[BaseT]):
    """Trade-off curve of a sampled step in the add direction: f_p(alpha) = (1 - p)(1 - alpha) + p f(alpha).

    p is the sampling rate, and f the type II error of the base curve.

    Notes
    -----
    The power is (1 - p) alpha + p power_base(alpha). The profile is p delta_base(ln(1 + (e^eps - 1)/p)) above ln(1 -
    p), and 1 - e^eps below. All sums have positive terms, so that the relative accuracy is that of the base curve f.
    """

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return sampled_enclosure(self.base.largest_log_ratio, self.rate)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        base = self.base.points(alpha)
        least, most = base.log_slope.lower, base.log_slope.upper
        return CurvePoints(
            mixed_bounds(1 - alpha, self.rest, base.type_two_error, self.rate),
            mixed_bounds(alpha, self.rest, base.power, self.rate),
            EnclosureArray(sampled_log_ratio(least, self.rate).lower, sampled_log_ratio(most, self.rate).upper),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        at = base_log_ratio(epsilon, self.rate)
        base_low, base_high = log_ends(self.base.profile(np.concatenate((at.upper, at.lower))))
        count = len(epsilon)
        log_rate = math.log(self.rate)
        bounds = scaled(base_low[:count], base_high[count:], log_rate, FUNCTION_ERROR * (abs(log_rate) + 1))
        below = np.expm1(np.minimum(epsilon, 0.0)) <= -self.rate
        return low_profile(bounds, below, epsilon) if below.any() else bounds

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        # delta = p delta_base, and both epsilons are 0 together. The quotient is rounded outwards.
        share = delta / self.rate
        larger, smaller = share * (1 + 2 * UNIT_ROUNDOFF), share * (1 - 2 * UNIT_ROUNDOFF)
        if smaller >= 1:
            return Enclosure.point(0.0)
        high, low = self.base.epsilon(smaller).upper, self.base.epsilon(min(larger, 1.0)).lower
        ends = sampled_log_ratio(np.array([low, high]), self.rate)
        lower, upper = max(float(ends.lower[0]), 0.0), max(float(ends.upper[1]), 0.0)
        return Enclosure(lower, 0.0 if high == 0 else upper, self.evidence)


class AbstractSampledRemove(AbstractSampled[BaseT]):
    """Trade-off curve of a sampled step in the remove direction: the inverse of (1 - p)(1 - alpha) + p f(alpha).

    p is the sampling rate, and f the type II error of the base curve.

    Notes
    -----
    The profile is delta(eps) = p e^{eps + E} delta_inverse(-E) with E = ln(1 + (e^-eps - 1)/p) for eps < -ln(1 - p),
    and 0 above. delta_inverse is the profile of the inverse of the base curve. A subclass defines `_points_formula` and
    `reversed`.
    """

    def __init__(self, base: BaseT, sample_rate: float) -> None:
        super().__init__(base, sample_rate)
        self.inverse = base.reversed()

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return -sampled_enclosure(self.base.smallest_log_ratio, self.rate)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        at = base_log_ratio(-epsilon, self.rate)
        log_rate = math.log(self.rate)
        # Where E is minus infinity, eps >= -ln(1 - p). A finite number replaces E there, because the result is 0.
        low, high = np.maximum(at.lower, -1e300), np.maximum(at.upper, -1e300)
        base_low, base_high = log_ends(self.inverse.profile(np.concatenate((-low, -high))))
        count = len(epsilon)
        log_low = np.where(at.lower > -np.inf, base_low[:count], -np.inf)
        log_high = np.where(at.upper > -np.inf, base_high[count:], -np.inf)
        # |E| adds its own rounding. Where E is huge and negative, the logarithm of the base is even larger.
        error = FUNCTION_ERROR * (1 + abs(log_rate) + np.abs(epsilon))
        return EnclosureArray.from_logs(
            moved(log_low, epsilon + log_rate + low, -error),
            np.minimum(moved(log_high, epsilon + log_rate + high, error), 0.0),
        )


def mixed_bounds(exact: FloatArray, rest: float, bounds: EnclosureArray, rate: float) -> EnclosureArray:
    """Return bounds of `rest` * `exact` + `rate` * x, where `bounds` encloses x.

    Every factor is within one rounding. The sum has a positive term, so that it does not underflow and needs no
    logarithms.
    """
    lower = (rest * exact + rate * bounds.lower) * (1 - SLACK) - SMALLEST
    upper = (rest * exact + rate * bounds.upper) * (1 + SLACK) + 2 * SMALLEST
    return EnclosureArray(np.maximum(lower, 0.0), np.minimum(upper, 1.0))


def low_profile(bounds: EnclosureArray, below: BoolArray, epsilon: FloatArray) -> EnclosureArray:
    """Return enclosures of the profile with 1 - e^eps in place of entries with eps <= ln(1 - p) (`below`).

    `bounds` are the enclosures at `epsilon` (nats), of which entries outside the mask `below` are kept. p is the
    sampling rate. No likelihood ratio of a sampled step is smaller than 1 - p.
    """
    value = -np.expm1(np.minimum(epsilon, 0.0))
    # `below` is decided in doubles. Next to the limit the truth is larger by less than this slack.
    slack = 4 * FUNCTION_ERROR
    return chosen(below, with_logs(value * (1 - slack), np.minimum(value * (1 + slack), 1.0)), bounds)


def sampled_enclosure(ratio: Enclosure, rate: float) -> Enclosure:
    """Enclose ln(1 - p + p e^L), the log-likelihood ratio (nats) after sampling with probability p = `rate`.

    `ratio` encloses the log-likelihood ratio L without sampling.
    """
    ends = sampled_log_ratio(np.array([ratio.lower, ratio.upper]), rate)
    return Enclosure(float(ends.lower[0]), float(ends.upper[1]), ratio.evidence)
