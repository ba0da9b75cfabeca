"""Log-likelihood ratios of two chi-square laws, as monotone functions of the statistic T >= 0."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

Ends = tuple[FloatArray, FloatArray]

MOST_NEWTON_STEPS = 30
CLOSE = 1e-14


class AbstractLogRatio(ABC):
    """Log-likelihood ratio L(t) = ln dH1/dH0 (nats) of a statistic as a function of its value t.

    L is strictly monotone on t > 0, and unbounded as t grows. `increasing` states whether L rises with t, and `at_zero`
    encloses L(0), the infimum or the supremum of L. A subclass defines both attributes, `at` and `inverse`.
    """

    increasing: bool
    at_zero: Enclosure

    @abstractmethod
    def at(self, t: FloatArray) -> Ends:
        """Return (lower, upper) bounds of the log-likelihood ratio L(t) in nats at exact t >= 0, shape (n,)."""

    @abstractmethod
    def inverse(self, value: FloatArray) -> FloatArray:
        """Return approximate arguments t >= 0 with L(t) = `value`, without an error bound.

        L is the log-likelihood ratio of the statistic. The result is 0 where L does not reach the value.
        """

    def reversed(self) -> AbstractLogRatio:
        """Return the log-likelihood ratio -L of the swapped hypotheses."""
        return ReversedLogRatio(self)


@final
class LinearLogRatio(AbstractLogRatio):
    """Decreasing ratio L(t) = intercept - steepness t of T ~ chi2'_d(m) (H0) against T ~ r chi2'_d(r m) (H1), r < 1.

    Notes
    -----
    chi2'_d(m) is the noncentral chi-square law with d degrees of freedom and noncentrality m. The first law has the
    density e^{-(t + m)/2} (t/m)^{nu/2} I_nu(sqrt(m t))/2 with nu = d/2 - 1. The second law has the same density at t/r
    and r m, divided by r. Both Bessel functions are equal. So steepness = (1/r - 1)/2 and intercept = (m - r m - d ln
    r)/2. Both are laws of |x|^2 for Gaussians of variances 1 and r.
    """

    increasing = False

    def __init__(self, intercept: Enclosure, steepness: Enclosure) -> None:
        self.at_zero, self._steepness = intercept, steepness

    @override
    def at(self, t: FloatArray) -> Ends:
        slack = 2 * UNIT_ROUNDOFF
        least, most = (t * end for end in (self._steepness.lower, self._steepness.upper))
        low, high = self.at_zero.lower - most * (1 + slack), self.at_zero.upper - least * (1 - slack)
        return low - slack * np.abs(low), high + slack * np.abs(high)

    @override
    def inverse(self, value: FloatArray) -> FloatArray:
        return np.maximum((self.at_zero.upper - value) / self._steepness.upper, 0.0)


@final
class BesselLogRatio(AbstractLogRatio):
    """Increasing ratio L(t) = -lambda/2 + ln 0F1(; d/2; lambda t/4) of central (H0) against noncentral chi-square (H1).

    Notes
    -----
    For d = 1 the ratio is -lambda/2 + ln cosh(sqrt(lambda t)). d is the number of degrees of freedom and lambda the
    noncentrality. The absolute error is about 20 u lambda (u = 2^-53) near the mean of either law, where L is at most a
    few sqrt(lambda): 1e-9 for lambda = 1e6.
    """

    increasing = True

    def __init__(self, degrees: float, noncentrality: Enclosure) -> None:
        self.degrees, self.noncentrality = degrees, noncentrality
        half = 0.5
        self.at_zero = Enclosure(-half * noncentrality.upper, -half * noncentrality.lower, Evidence.CERTIFIED)

    @override
    def at(self, t: FloatArray) -> Ends:
        value, error, _ = self._log_growth(t)
        low, high = self.at_zero.lower, self.at_zero.upper
        # The derivative in lambda lies between -1/2 and min(t/(2 d), sqrt(t/lambda)/2).
        width = (high - low) * np.minimum(t / self.degrees, np.sqrt(t / self.noncentrality.lower))
        error = error + 1.01 * width
        low, high = low + (value - error), high + (value + error)
        slack = 2 * UNIT_ROUNDOFF
        return low - slack * (np.abs(low) + value), high + slack * (np.abs(high) + value)

    @override
    def inverse(self, value: FloatArray) -> FloatArray:
        return self._grown_to(np.maximum(value + 0.5 * self.noncentrality.upper, 0.0))

    def _log_growth(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the growth L(t) - L(0) of the log-likelihood ratio L, its absolute error bound, and its derivative.

        All three arrays have the shape (n,). The derivative is approximate. The noncentrality is known within bounds,
        and the growth belongs to its upper bound.
        """
        scale = self.noncentrality.upper
        if self.degrees == 1:
            y = np.sqrt(scale * t)
            value, error = _log_cosh(y)
            with np.errstate(invalid="ignore", divide="ignore"):
                slope = np.where(y > 0, 0.5 * scale * np.tanh(y) / y, 0.5 * scale)
            return value, error + 2 * UNIT_ROUNDOFF * y * np.minimum(y, 1.0), slope
        from service.privacy.numerics.bessel import log_0f1

        z = 0.25 * scale * t
        value, error, slope = log_0f1(0.5 * self.degrees, z)
        # Rounding of z: z times the derivative is at most min(2 z/d, sqrt z).
        error = error + 2 * UNIT_ROUNDOFF * np.minimum(2 * z / self.degrees, np.sqrt(z))
        return value, error, 0.25 * scale * slope

    def _grown_to(self, growth: FloatArray) -> FloatArray:
        """Return approximate values t of the statistic with L(t) = L(0) + `growth` (nats), in the shape of `growth`.

        L is the log-likelihood ratio.
        """
        scale = self.noncentrality.upper
        if self.degrees == 1:
            y = growth + np.log1p(np.sqrt(-np.expm1(-2 * growth)))  # acosh(e^growth)
            return y * y / scale
        # 0F1 is at most cosh(2 sqrt z) and at most e^{2 z/d}, so both starts are on the left. L is convex in sqrt t.
        root = np.sqrt(np.maximum(growth * growth, 2 * self.degrees * growth) / scale)
        for _ in range(MOST_NEWTON_STEPS):
            value, _, slope = self._log_growth(root * root)
            with np.errstate(invalid="ignore", divide="ignore"):
                step = np.where(root > 0, (growth - value) / (2 * root * slope), 0.0)
            root = np.maximum(root + step, 0.0)
            if (np.abs(step) <= CLOSE * root).all():
                break
        return root * root


@final
class ReversedLogRatio(AbstractLogRatio):
    """Log-likelihood ratio -L of the swapped hypotheses."""

    def __init__(self, ratio: AbstractLogRatio) -> None:
        self.ratio = ratio
        self.increasing = not ratio.increasing
        self.at_zero = -ratio.at_zero

    @override
    def at(self, t: FloatArray) -> Ends:
        low, high = self.ratio.at(t)
        return -high, -low

    @override
    def inverse(self, value: FloatArray) -> FloatArray:
        return self.ratio.inverse(-value)

    @override
    def reversed(self) -> AbstractLogRatio:
        return self.ratio


def _log_cosh(y: FloatArray) -> Ends:
    """Return ln cosh y for y >= 0, and a bound of its absolute error: a few 2^-53 times min(y^2, y)."""
    grown = np.expm1(np.minimum(y, 1.0))
    small = np.log1p(grown * grown / (2 * (1 + grown)))
    large = y + (np.log1p(np.exp(-2 * y)) - math.log(2))
    near = y < 0.5
    value = np.where(near, small, large)
    error = np.where(near, 4 * FUNCTION_ERROR * value, FUNCTION_ERROR + 2 * UNIT_ROUNDOFF * y)
    return value, error
