"""Sampled step of any curve: H0 = P0, H1 = (1 - p) P0 + p P1 (add), and the swapped hypotheses (remove).

`poisson_sampled.py` has the same curves for shifted laws, with less work for thresholds. The remove direction is the
inverse function.
"""

from __future__ import annotations

from typing import Final, final

import numpy as np
from scipy import special
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.losses.sampled_ratio import sampled_log_ratio
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.enclosed.ulps import LEAST_SCORE
from service.privacy.trade_off.sampling.abstract import AbstractSampledAdd, AbstractSampledRemove, mixed_bounds

RADII: Final = np.array([[2.0], [32.0], [512.0]]) * UNIT_ROUNDOFF
WIDER: Final = 4096.0
MOST_WIDENINGS: Final = 5
SLACK: Final = 4 * FUNCTION_ERROR


@final
class SampledAdd(AbstractSampledAdd[AbstractTradeOff]):
    """Trade-off curve of a sampled step with any base curve, in the add direction."""

    @property
    @override
    def singular_power(self) -> Enclosure:
        base = self.base.singular_power
        lower, upper = self.rate * base.lower, self.rate * base.upper
        return Enclosure(lower * (1 - 2 * UNIT_ROUNDOFF), upper * (1 + 2 * UNIT_ROUNDOFF), base.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return SampledRemove(self.base, self.rate)


@final
class SampledRemove(AbstractSampledRemove[AbstractTradeOff]):
    """Trade-off curve of a sampled step with any base curve, in the remove direction.

    Notes
    -----
    Let b be a rate of the inverse curve of the base, with the power 1 - a there. Then the rate is alpha = (1 - p)(1 -
    a) + p b, the power 1 - a and the type II error a. Two rates enclose b, with a proof on which side of b each of them
    lies. From about alpha = 1/2 the complement of the equation is solved for a instead. No power is singular, as H0
    contains (1 - p) H1.
    """

    @override
    def reversed(self) -> AbstractTradeOff:
        return SampledAdd(self.base, self.rate)

    @override
    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        half = self._weighed(np.array([0.5]), inverse=True)
        low = alpha <= half.upper[0]
        error, power, slope = np.empty((3, 2, len(alpha)))
        for inverse, at in ((True, low), (False, ~low)):
            if not at.any():
                continue
            near, far, ratio = self._solved(alpha[at] if inverse else 1 - alpha[at], inverse=inverse)
            if inverse:
                power[:, at], error[:, at] = near, far
            else:
                error[:, at], power[:, at] = near, far
            # The slope of the inverse is -ln(1 - p + p e^L), with the log-likelihood ratio L of the base there.
            base = -ratio[::-1] if inverse else ratio
            slope[0, at] = -sampled_log_ratio(base[1], self.rate).upper
            slope[1, at] = -sampled_log_ratio(base[0], self.rate).lower
        return CurvePoints(EnclosureArray.from_logs(*error), EnclosureArray.from_logs(*power), EnclosureArray(*slope))

    def _solved(self, target: FloatArray, *, inverse: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds of the base curve's rate or error that gives the rate `target` after sampling.

        The three arrays, of shape (2, n) each, bound ln of the rate or error, ln of its complement, and the log slope.
        The base curve is that of the step without sampling, and p the sampling rate. On the inverse curve a rate b
        solves (1 - p) power(b) + p b = target. On the base curve a solves (1 - p) a + p power(a) = target.
        """
        low, high = self._bracketed(target, inverse=inverse)
        curve = self.inverse if inverse else self.base
        left, right = curve.points(low), curve.points(high)
        slope = np.stack((right.log_slope.lower, left.log_slope.upper))
        if inverse:
            # At b = 0 the power may be any number up to the power of the base there.
            none = low == 0
            near = np.stack((np.where(none, -np.inf, log_ends(left.power)[0]), log_ends(right.power)[1]))
            # The rate minus p b gives another bound of the power, also where b = 0.
            slack = 8 * UNIT_ROUNDOFF * target
            rest = np.stack(((target - self.rate * high) - slack, (target - self.rate * low) + slack)) / self.rest
            rest = np.clip(rest, 0.0, 1.0)
            rest = np.log(rest) + 2 * FUNCTION_ERROR * np.array([[-1.0], [1.0]]) * (1 + np.abs(np.log(rest)))
            near = np.stack((np.fmax(near[0], rest[0]), np.minimum(np.fmin(near[1], rest[1]), 0.0)))
            far = np.stack((log_ends(right.type_two_error)[0], np.where(none, 0.0, log_ends(left.type_two_error)[1])))
            missed = np.log1p(-np.exp(near[::-1]) * (1 + SLACK * np.array([[1.0], [-1.0]])))
            missed += SLACK * np.array([[-1.0], [1.0]]) * np.abs(missed)
            return near, np.stack((np.fmax(far[0], missed[0]), np.fmin(far[1], missed[1]))), slope
        places = np.stack((low, high))
        error = FUNCTION_ERROR * np.array([[1.0], [-1.0]])
        return np.log(places) * (1 + error), np.log1p(-places[::-1]) * (1 + error), slope

    def _bracketed(self, target: FloatArray, *, inverse: bool) -> tuple[FloatArray, FloatArray]:
        """Return rates of the base curve at which a function is proved to be at most, and at least, `target`.

        p is the sampling rate. The function is (1 - p) power(b) + p b at rates b of the inverse curve, or (1 - p) a + p
        power(a) at rates a of the curve itself. Without a proof the rates are 0 and 1.
        """
        count = len(target)
        log_target = np.log(target)

        def excess(scores: FloatArray) -> FloatArray:
            lower, upper = log_ends(self._weighed(special.ndtr(scores), inverse=inverse))
            return 0.5 * (lower + upper) - log_target

        guess = bracketed_roots(excess, np.full(count, LEAST_SCORE), np.full(count, 0.1))
        low, high, radii = np.zeros(count), np.ones(count), RADII
        for _ in range(MOST_WIDENINGS):
            # Steps relative to the rate; a relative error of the normal score multiplies by its square.
            middle = special.ndtr(guess)
            places = np.concatenate((middle * (1 - radii * (1 + guess**2)), middle * (1 + radii * (1 + guess**2))))
            places = np.clip(places, 0.0, 1.0)
            read = self._weighed(places.ravel(), inverse=inverse)
            is_left = read.upper.reshape(places.shape) <= target
            is_right = read.lower.reshape(places.shape) >= target
            low = np.maximum(low, np.where(is_left, places, 0.0).max(axis=0))
            high = np.minimum(high, np.where(is_right, places, 1.0).min(axis=0))
            if ((low > 0) & (high < 1)).all():
                break
            radii = radii * WIDER
        return low, high

    def _weighed(self, rates: FloatArray, *, inverse: bool) -> EnclosureArray:
        """Return the false positive rates of the sampled step for `rates` of the base curve, or of its `inverse`.

        The base curve is that of the step without sampling, and p the sampling rate. The result is (1 - p) power(b) + p
        b at rates b of the inverse curve, and (1 - p) a + p power(a) at rates a of the base curve.
        """
        if inverse:
            return mixed_bounds(rates, self.rate, self.inverse.power(rates), self.rest)
        return mixed_bounds(rates, self.rest, self.base.power(rates), self.rate)
