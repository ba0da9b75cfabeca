"""Lower tails of noncentral chi-square laws for arrays of noncentralities, as p-values that are never too small."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.contour import contour_values
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

ROWS: Final = 1024
"""Number of queries evaluated together. The nodes of their contours fit into the cache."""
LEAST_DEGREES, LEAST_PRODUCT = 50, 300.0**2
"""Smallest degrees, or smallest 4 x nc, for contour inversion."""
LARGEST_NONCENTRALITY: Final = 1e12
SMALLEST_SUMMED: Final = 1e-12
SUM_ERROR: Final = 1e-9
"""Smallest tail by scipy's series, and its relative error bound.

For fewer degrees and a smaller 4 x nc, the series has a relative error of 1e-10.
"""
SMALLEST_LOG: Final = -690.0
"""Smallest ln p. Smaller p-values are rounded up to e^-690."""


def log_p_values(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    """Compute upper bounds of ln P(X <= statistic) for X ~ chi2'_degrees(noncentrality).

    Parameters
    ----------
    statistic : array, shape (q,)
        Statistics >= 0.
    degrees : int
        Degrees of freedom.
    noncentrality : array, shape (q,)
        Noncentralities >= 0.

    Returns
    -------
    array, shape (q,)
        Upper bounds, at least -690. Contour inversion and series exceed the tail by a relative 1e-9 at most. Chernoff's
        bound serves noncentralities above 1e12 and, with few degrees, tails below 1e-12. It is a valid p-value too.
    """
    logs = chernoff(statistic, degrees, noncentrality)
    product = 4 * statistic * noncentrality
    by_contour = (degrees >= LEAST_DEGREES) | (product >= LEAST_PRODUCT)
    by_contour &= (noncentrality <= LARGEST_NONCENTRALITY) & (statistic > 1e-290) & (statistic < 1e30)
    places = np.flatnonzero(by_contour)
    for start in range(0, places.size, ROWS):
        rows = places[start : start + ROWS]
        logs[rows] = np.minimum(logs[rows], _contour(statistic[rows], degrees, noncentrality[rows]))
    by_series = ~by_contour & (product < LEAST_PRODUCT)
    logs[by_series] = np.minimum(logs[by_series], _series(statistic[by_series], degrees, noncentrality[by_series]))
    return np.clip(logs, SMALLEST_LOG, 0.0)


def _contour(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    each: Any = noncentrality  # `contour_values` works element by element, so each statistic may have its own
    values = contour_values(float(degrees), each, statistic)
    is_lower = values.saddle.pole >= 0
    scale, margin = values.saddle.exponent, values.saddle.exponent_error
    margin = margin + (FUNCTION_ERROR + 4 * UNIT_ROUNDOFF) * (1 + np.abs(scale))
    with np.errstate(divide="ignore"):
        small = scale + margin + np.log(values.tail + values.tail_error)
        rest = scale - margin + np.log(np.maximum(values.tail - values.tail_error, 0.0))
        return np.where(is_lower, small, np.log1p(-np.exp(np.where(is_lower, -1.0, rest))) + 1e-14)


def _series(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    from scipy.special import chndtr

    tail = np.asarray(chndtr(statistic, degrees, noncentrality), dtype=np.float64)
    return np.log(np.where(tail > SMALLEST_SUMMED, tail, 1.0)) + SUM_ERROR


def chernoff(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    """Return Chernoff's upper bound of ln P(X <= x), shape (q,), for a noncentral chi-square number X.

    X has d = `degrees` degrees of freedom and noncentrality c = `noncentrality`, and x is `statistic`. The bound is
    (1-w)/2 (c/w - x) - (d/2) ln w at w = max(1, (d + sqrt(d^2 + 4 x c))/(2x)). Source: Chernoff 1952.
    """
    positive = np.maximum(statistic, 1e-290)
    w = np.maximum((degrees + np.sqrt(degrees**2 + 4 * positive * noncentrality)) / (2 * positive), 1.0)
    return (1 - w) / 2 * (noncentrality / w - statistic) - degrees / 2 * np.log(w)
