"""Poisson-sampled step of a shifted noise law: H0 = P0, H1 = (1 - p) P0 + p P1 (add), and the swapped pair (remove).

The classes serve every base curve of `trade_off/shifted/curve.py`, such as Gaussian and Laplace curves. They use the
formulas of `abstract.py` for any curve. Newton's method on the law itself finds the thresholds of the remove direction.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.losses.sampled_ratio import sampled_log_ratio
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import chosen, log_ends, scaled
from service.privacy.trade_off.sampling.abstract import SLACK, AbstractSampledAdd, AbstractSampledRemove
from service.privacy.trade_off.shifted.curve import AbstractShifted

MOST_NEWTON_STEPS = 100
NOISE = 32 * UNIT_ROUNDOFF
"""Smallest distance of thresholds in a search, relative to 1 + their size."""
RADII = np.array([[1 / 16], [1 / 4], [1.0], [4.0]])
MOST_WIDENINGS = 60


@final
class PoissonSampledAdd(AbstractSampledAdd[AbstractShifted]):
    """Trade-off curve of a Poisson-sampled shifted law in the add direction."""

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for mu-GDP, that of the base curve: both curves are equal in the limit alpha -> 0.

        The sampled curve lies above the base curve. None if the mu of the base curve is unknown.
        """
        return self.base.global_gdp_mu

    @override
    def reversed(self) -> AbstractTradeOff:
        return PoissonSampledRemove(self.base, self.rate)


@final
class PoissonSampledRemove(AbstractSampledRemove[AbstractShifted]):
    """Trade-off curve of a Poisson-sampled shifted law in the remove direction.

    Notes
    -----
    F is the distribution function of the noise, p the sampling rate and mu the shift. The test rejects where the
    outcome y is at most t: rate alpha = (1 - p) F(t) + p F(t - mu), power F(t), type II error F(-t). Two points enclose
    t, and the enclosures of the rate prove on which side each point is. For alpha > 1/2 the complement is solved, so
    that power and type II error keep their relative accuracy.
    """

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for which the curve is mu-GDP: that of the add direction.

        The curve of mu-GDP is its own inverse, so that both directions have one mu. None if it is unknown.
        """
        return self.base.global_gdp_mu

    @override
    def reversed(self) -> AbstractTradeOff:
        return PoissonSampledAdd(self.base, self.rate)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        low = alpha <= 0.5
        target = np.where(low, alpha, 1 - alpha)
        sign = np.where(low, -1.0, 1.0)
        left, right = self._thresholds(target, sign)
        logs, error = self.base.law.log_cdf(np.stack((left, right, -left, -right)))
        upper, lower = np.minimum(logs + error, 0.0), logs - error
        near, far = EnclosureArray.from_logs(lower[0], upper[1]), EnclosureArray.from_logs(lower[3], upper[2])
        # L = ln dP1/dP0 of the base at the threshold y = t (alpha <= 1/2) or y = -t. The slope of the inverse is
        # -ln(1 - p + p e^L).
        slope_left, slope_right = (self._base_slope(-sign * t) for t in (left, right))
        steepest = sampled_log_ratio(np.maximum(slope_left.upper, slope_right.upper), self.rate).upper
        flattest = sampled_log_ratio(np.minimum(slope_left.lower, slope_right.lower), self.rate).lower
        return CurvePoints(chosen(low, far, near), chosen(low, near, far), EnclosureArray(-steepest, -flattest))

    def _base_slope(self, point: FloatArray) -> EnclosureArray:
        value, error = self.base.law.log_ratio(point, self.base.shift.upper)
        return EnclosureArray(value - error, value + error)

    def _thresholds(self, target: FloatArray, sign: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return proved (lower, upper) bounds of thresholds t with (1 - p) F(t) + p F(t + `sign` mu) = `target` <= 1/2.

        F is the distribution function of the noise, p the sampling rate and mu the shift. Raises NumericalFailure if no
        bounds are proved.
        """
        x, x_error = self.base.law.quantile(target)
        mu = self.base.shift.upper
        slack = 2 * x_error + SLACK * (np.abs(x) + mu)
        low, high = np.where(sign < 0, x, x - mu) - slack, np.where(sign < 0, x + mu, x) + slack
        guess = self._newton(target, sign, x, low.copy(), high.copy())
        left, right = np.full_like(x, -np.inf), np.full_like(x, np.inf)
        radius = NOISE * (1 + np.abs(guess)) * RADII
        for _ in range(MOST_WIDENINGS):
            at_left, at_right = np.maximum(guess - radius, low), np.minimum(guess + radius, high)
            proved_left = (self._rate_bounds(at_left, sign)[1] <= target) | (at_left == low)
            proved_right = (self._rate_bounds(at_right, sign)[0] >= target) | (at_right == high)
            left = np.maximum(left, np.where(proved_left, at_left, -np.inf).max(axis=0))
            right = np.minimum(right, np.where(proved_right, at_right, np.inf).min(axis=0))
            if (right - left).max() < np.inf:
                return left, right
            radius = radius * 16
        raise NumericalFailure("the threshold of a sampled step was not bracketed")

    def _rate_bounds(self, t: FloatArray, sign: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of (1 - p) F(t) + p F(t + `sign` mu) over the enclosure of the shift mu.

        F is the distribution function of the noise, p the sampling rate, and t a threshold of the outcome.
        """
        shift = self.base.shift
        moved = t + sign * shift.upper
        # The rounding of the sum and the width of the shift, on both sides.
        wobble = 2 * UNIT_ROUNDOFF * (np.abs(moved) + shift.upper) + (shift.upper - shift.lower)
        logs, error = self.base.law.log_cdf(np.stack((t, t, moved - wobble, moved + wobble)))
        error[0::2] *= -1
        values = np.exp(np.minimum(logs + error, 0.0))
        lower = (self.rest * values[0] + self.rate * values[2]) * (1 - FUNCTION_ERROR - SLACK) - 4 * SMALLEST
        upper = (self.rest * values[1] + self.rate * values[3]) * (1 + FUNCTION_ERROR + SLACK) + 4 * SMALLEST
        return lower, upper

    def _newton(
        self, target: FloatArray, sign: FloatArray, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray:
        """Return approximate thresholds t at which the false positive rate of the test is `target`, by Newton's method.

        The method runs on F^-1(rate(t)), which is nearly linear in t, with the distribution function F of the noise and
        the rate of the test at t. `sign` is the sign of the shift. The start is `x`, within [`low`, `high`].
        """
        law, mu = self.base.law, self.base.shift.upper
        t = np.where(sign < 0, low, high)
        with np.errstate(all="ignore"):
            for _ in range(MOST_NEWTON_STEPS):
                parts = np.exp(law.log_cdf(np.stack((t, t + sign * mu)))[0])
                rate = self.rest * parts[0] + self.rate * parts[1]
                over = rate > target
                low, high = np.where(over, low, t), np.where(over, t, high)
                z = law.quantile(rate)[0]
                steepness = self.rest * law.density(t) + self.rate * law.density(t + sign * mu)
                step = (z - x) * law.density(z) / steepness
                arrived = np.abs(step) <= NOISE * (1 + np.abs(t))
                if arrived.all():
                    break
                following = t - step
                inside = (following > low) & (following < high)
                t = np.where(arrived, t, np.where(inside, following, 0.5 * (low + high)))
        return t

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        # With v = -E >= 0: delta = p delta_base(v) / (p + (1 - p) e^v), eps = -ln(1 + p (e^-v - 1)); delta <= p
        # delta_base(v).
        share = min(delta / self.rate * (1 - 2 * UNIT_ROUNDOFF), 1.0)
        high = self.base.epsilon(share).upper if share > 0 else 0.0
        if high == 0:
            return Enclosure.point(0.0)
        root = decreasing_root(self._profile_at_base_log_ratio, delta, 0.0, high)
        ends = sampled_log_ratio(np.array([-root.lower, -root.upper]), self.rate)
        return Enclosure(max(-float(ends.upper[0]), 0.0), max(-float(ends.lower[1]), 0.0), Evidence.EXACT)

    def _profile_at_base_log_ratio(self, v: FloatArray) -> EnclosureArray:
        log_lower, log_upper = log_ends(self.base.profile(v))
        factor = math.log(self.rate) - np.logaddexp(math.log(self.rate), math.log(self.rest) + v)
        error = FUNCTION_ERROR * (4 + 2 * abs(math.log(self.rate)) + 2 * abs(math.log(self.rest)) + np.abs(v))
        return scaled(log_lower, log_upper, factor, error)
