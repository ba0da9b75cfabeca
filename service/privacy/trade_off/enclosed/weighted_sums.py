"""Sums of enclosed numbers with fixed positive weights, rounded outwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import log

SLACK: Final = 4 * FUNCTION_ERROR
SMALL: Final = 1e-290
"""Sums below this number are computed from logarithms."""


class WeightedSums:
    """Sums of w_i x_i over the first axis of arrays, for positive weights w_i that sum to 1.

    The relative error is a few u (u = 2^-53), or a few u per unit of the logarithm for sums of logarithms.
    """

    def __init__(self, weights: Sequence[Fraction]) -> None:
        nearest = np.array([float(weight) for weight in weights])
        self._light, self._heavy = nearest * (1 - UNIT_ROUNDOFF), nearest * (1 + UNIT_ROUNDOFF)
        self._logs = np.array([_log_of(weight) for weight in weights])
        self._error = (len(weights) + 4) * UNIT_ROUNDOFF

    def linear(self, values: FloatArray, side: int) -> FloatArray:
        """Return a lower or upper bound of the weighted sum of numbers.

        Parameters
        ----------
        values : array, shape (weights, ...)
            Numbers x_i >= 0.
        side : int
            -1 to round down, 1 to round up.

        Returns
        -------
        array, shape (...)
            sum w_i x_i.
        """
        total = np.tensordot(self._light if side < 0 else self._heavy, values, axes=1)
        step = SMALLEST * len(self._logs) * (values > 0).any(axis=0)
        return np.maximum(total * (1 + side * self._error) + side * step, 0.0)

    def logs(self, logs: FloatArray, total: FloatArray, side: int) -> FloatArray:
        """Return the logarithm of a weighted sum, from the sum itself where it is a normal double.

        Parameters
        ----------
        logs : array, shape (weights, ...)
            ln x_i <= 0.
        total : array, shape (...)
            The sum sum w_i x_i itself, from the method `linear`.
        side : int
            -1 to round down, 1 to round up.

        Returns
        -------
        array, shape (...)
            ln sum w_i x_i, at most 0.
        """
        terms = logs + self._logs.reshape(-1, *(1 for _ in logs.shape[1:]))
        value: FloatArray = np.logaddexp.reduce(terms, axis=0)
        error = self._error + SLACK * (1 + np.where(np.isfinite(value), np.abs(value), 0.0))
        by_sum = log(total) * (1 - side * FUNCTION_ERROR)
        summed = np.where(np.isfinite(value), value + side * error, value)
        return np.minimum(np.where(total > SMALL, by_sum, summed), 0.0)

    def of_logs(self, logs: FloatArray, side: int) -> FloatArray:
        """Return the logarithm of a weighted sum, from logarithms alone.

        Parameters
        ----------
        logs : array, shape (weights, ...)
            ln x_i.
        side : int
            -1 to round down, 1 to round up.

        Returns
        -------
        array, shape (...)
            ln sum w_i x_i.
        """
        return self.logs(logs, self.linear(np.exp(logs) * (1 + side * FUNCTION_ERROR), side), side)


def log_sum(first: FloatArray, second: FloatArray, side: int) -> FloatArray:
    """Return ln(e^first + e^second), the logarithm of a sum.

    Parameters
    ----------
    first, second : array
        Logarithms of the terms, of compatible shapes.
    side : int
        -1 to round down, 1 to round up.

    Returns
    -------
    array
        The logarithm.
    """
    value = np.logaddexp(first, second)
    return value + side * SLACK * np.where(np.isfinite(value), 1 + np.abs(value), 0.0)


def log_moved(log_value: FloatArray, c: FloatArray, shift: FloatArray, side: int) -> FloatArray:
    """Return ln(e^log_value + e^c shift), the logarithm of a moved number.

    Parameters
    ----------
    log_value : array
        Logarithm of the number.
    c, shift : array
        The number moves by e^c shift: up for a positive, down for a negative `shift`.
    side : int
        -1 to round down, 1 to round up.

    Returns
    -------
    array
        The logarithm; minus infinity where the argument is negative. For an infinite c it is the trivial bound, minus
        or plus infinity as `side`.
    """
    log_shift = c + log(np.abs(shift))
    error = SLACK * (4 + np.abs(c) + np.abs(log_shift))
    raised = log_sum(log_value, log_shift + side * error, side)
    # The subtracted part is rounded in the opposite direction.
    share = np.minimum(np.exp(log_shift - side * error - log_value) * (1 - side * SLACK), 1.0)
    lowered = log_value + np.log1p(-share)
    lowered += side * SLACK * np.where(np.isfinite(lowered), 1 + np.abs(log_value) + np.abs(lowered), 0.0)
    moved = np.where(shift > 0, raised, np.where(shift == 0, log_value, lowered))
    return np.where(np.isfinite(c) & ~np.isnan(moved), moved, side * np.inf)


def _log_of(weight: Fraction) -> float:
    """Return ln of the exact fraction `weight`, which may be too small for a double."""
    return math.log(float(weight)) if weight > SMALL else math.log(weight.numerator) - math.log(weight.denominator)
