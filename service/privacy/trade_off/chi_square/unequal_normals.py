"""Large-dimension limit of the GLRT curves: tests with one threshold between normal laws of unequal variance.

The adversary of the generalised likelihood ratio test (GLRT) does not know the direction of the record's answer.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
from scipy import special
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root

LARGEST_EPSILON = 1e6


@final
class UnequalNormalsTradeOff(AbstractTradeOff):
    """Approximate curve R(x) = Q((Q^-1(x) - m)/rho), or its inverse function R'(x) = Q(rho Q^-1(x) - m).

    The adversary of the generalised likelihood ratio test (GLRT) does not know the direction of the record's answer.

    Notes
    -----
    Q is the upper normal tail probability, x the false positive rate, lambda the noncentrality, m = lambda/sqrt(2 d)
    and rho = sqrt(1 + 2 lambda/d). The curve approximates GLRT curves for many dimensions d and small lambda/d, without
    an error bound. Both bounds of every number are the approximation.

    For R, H0 is y ~ N(0, 1), H1 is y ~ N(m, rho^2), and the test rejects large y. For R' the hypotheses are swapped.
    Far on one side such a test has less power than a guess; there the power is x. The profile is the largest R(x) -
    e^eps x, at the larger root of the likelihood ratio.

    References
    ----------
    Kaissis et al. 2024 (GLRT), Equation 44.
    """

    evidence = Evidence.ASYMPTOTIC
    method = "clt"

    def __init__(self, dimension: int, noncentrality: float, *, inverse: bool = False) -> None:
        self._dimension, self._noncentrality, self._inverse = dimension, noncentrality, inverse
        self.mean = noncentrality / math.sqrt(2 * dimension)
        excess = 2 * noncentrality / dimension
        variance = 1 + excess
        self.deviation = math.sqrt(variance)
        # L(y) = bend y^2 + slope y + start
        self._bend = 0.5 * excess / variance
        self._slope = self.mean / variance
        self._start = -0.5 * (math.log1p(excess) + self.mean * self._slope)

    @property
    def _least(self) -> float:
        """Minimum (nats) of the log-likelihood ratio L(y) over all outcomes y."""
        return self._start - self._slope * self._slope / (4 * self._bend)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return _approximately(-self._least if self._inverse else math.inf)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return _approximately(0.0)

    @override
    def reversed(self) -> UnequalNormalsTradeOff:
        return UnequalNormalsTradeOff(self._dimension, self._noncentrality, inverse=not self._inverse)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        quantile = -special.ndtri(alpha)
        argument = self.deviation * quantile - self.mean if self._inverse else (quantile - self.mean) / self.deviation
        y = self.mean - self.deviation * quantile if self._inverse else quantile
        argument = np.minimum(argument, quantile)
        slope = (self._bend * y + self._slope) * y + self._start
        return CurvePoints(
            _at(special.log_ndtr(argument)),
            _at(special.log_ndtr(-argument)),
            EnclosureArray(*(-slope if self._inverse else slope,) * 2),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        level = -epsilon if self._inverse else epsilon
        gap = level - self._start
        root = np.sqrt(np.maximum(self._slope**2 + 4 * self._bend * gap, 0.0))
        y = 2 * gap / (self._slope + root)
        # Normal scores of the threshold under N(m, rho^2), and under N(0, 1).
        first, second = (y - self.mean) / self.deviation, y
        power, rate = special.log_ndtr(-first), special.log_ndtr(-second)
        if self._inverse:
            power, rate = special.log_ndtr(second), special.log_ndtr(first)
        with np.errstate(divide="ignore"):
            value = power + np.log(-np.expm1(np.minimum(rate + epsilon - power, 0.0)))
            trivial = np.log(-np.expm1(np.minimum(epsilon, 0.0)))
        return _at(np.maximum(np.where(level > self._least, value, -np.inf), trivial))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        if self._profile_formula(np.zeros(1)).upper[0] <= delta:
            return _approximately(0.0)
        high = min(self.largest_log_ratio.upper, LARGEST_EPSILON)
        return decreasing_root(self._profile_formula, delta, 0.0, high, self.evidence)


def _at(logs: FloatArray) -> EnclosureArray:
    logs = np.minimum(logs, 0.0)
    values = np.exp(logs)
    return EnclosureArray(values, values, logs, logs)


def _approximately(value: float) -> Enclosure:
    return Enclosure(value, value, Evidence.ASYMPTOTIC)
