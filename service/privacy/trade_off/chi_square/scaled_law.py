"""Law of a scaled noncentral chi-square number, with enclosed parameters."""

from __future__ import annotations

from typing import final

import numpy as np

from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.law import ChiSquareLogTails, NoncentralChiSquare, Tail
from service.privacy.numerics.chi_square.quantiles import quantiles

ONE = Enclosure.point(1.0)


@final
class ScaledChiSquare:
    """Law of T = r X for a noncentral chi-square X and a scale r > 0, both with enclosed parameters."""

    def __init__(self, degrees: float, noncentrality: Enclosure, scale: Enclosure = ONE) -> None:
        """Set up the law for `degrees` of freedom from 1 to 1e9, `noncentrality` up to 1e12 and `scale` r > 0."""
        self._least = NoncentralChiSquare(degrees, noncentrality.lower)
        self._most = NoncentralChiSquare(degrees, noncentrality.upper)
        self._scale = scale

    def log_tails(self, low: FloatArray, high: FloatArray) -> ChiSquareLogTails:
        """Return enclosures of ln P(T <= t) and ln P(T > t), valid for every t in [`low`, `high`], shape (n,).

        T is the scaled chi-square statistic.
        """
        left, right = _divided(low, self._scale.upper, -1), _divided(high, self._scale.lower, 1)
        if self._least != self._most:
            most, least = self._most.log_tails(left), self._least.log_tails(right)
            return ChiSquareLogTails(most.lower_low, least.lower_high, least.upper_low, most.upper_high)
        if left is right:
            return self._most.log_tails(left)
        both, n = self._most.log_tails(np.concatenate((left, right))), len(left)
        return ChiSquareLogTails(both.lower_low[:n], both.lower_high[n:], both.upper_low[n:], both.upper_high[:n])

    def quantiles(self, log_low: FloatArray, log_high: FloatArray, tail: Tail) -> tuple[FloatArray, FloatArray]:
        """Return bounds of quantiles of the scaled chi-square statistic T.

        Parameters
        ----------
        log_low, log_high : array, shape (n,)
            Bounds of ln of the tail probability.
        tail : {"lower", "upper"}
            The tail.

        Returns
        -------
        (array, array)
            Lower and upper bounds of the t at which ln P(tail at t) is in [log_low, log_high], shape (n,).
        """
        first, second = (log_low, log_high) if tail == "lower" else (log_high, log_low)
        if self._least != self._most:
            below = quantiles(self._least, first, tail).below
            above = quantiles(self._most, second, tail).above
        else:
            both, n = quantiles(self._most, np.concatenate((first, second)), tail), len(first)
            below, above = both.below[:n], both.above[n:]
        return _multiplied(below, self._scale.lower, -1), _multiplied(above, self._scale.upper, 1)


def _divided(values: FloatArray, by: float, side: int) -> FloatArray:
    return values if by == 1 else np.maximum(np.nextafter(values / by, side * np.inf), 0.0)


def _multiplied(values: FloatArray, by: float, side: int) -> FloatArray:
    return values if by == 1 else np.maximum(np.nextafter(values * by, side * np.inf), 0.0)
