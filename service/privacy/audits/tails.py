"""Lower tails of noncentral chi-square laws for arrays of noncentralities, as p-values that are never too small."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.line import line_values
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

ROWS: Final = 1024
"""So many queries at once: the nodes of their lines fit into the cache."""
LEAST_DEGREES, LEAST_PRODUCT = 50, 300.0**2
"""Where lines serve: from so many degrees on, or from this 4 x nc."""
LARGEST_NONCENTRALITY: Final = 1e12
# Below both, the series behind scipy is good to 1e-10 for tails that are not tiny.
SMALLEST_SUMMED: Final = 1e-12
SUM_ERROR: Final = 1e-9
SMALLEST_LOG: Final = -690.0
"""Smaller p-values are given as e^-690, which is larger than they are."""


def log_p_values(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    """An upper bound of ln P(X <= statistic), X ~ chi2'_degrees(noncentrality); arrays of shape (q,), statistic >= 0.

    Within 1e-9 of the tail (relative), from contour lines or the series; Chernoff's bound, which is a valid p-value as
    well, for noncentralities above 1e12 and, with few degrees, for tails below 1e-12. At least e^-690.
    """
    logs = chernoff(statistic, degrees, noncentrality)
    product = 4 * statistic * noncentrality
    by_line = (degrees >= LEAST_DEGREES) | (product >= LEAST_PRODUCT)
    by_line &= (noncentrality <= LARGEST_NONCENTRALITY) & (statistic > 1e-290) & (statistic < 1e30)
    places = np.flatnonzero(by_line)
    for start in range(0, places.size, ROWS):
        rows = places[start : start + ROWS]
        logs[rows] = np.minimum(logs[rows], _line(statistic[rows], degrees, noncentrality[rows]))
    by_series = ~by_line & (product < LEAST_PRODUCT)
    logs[by_series] = np.minimum(logs[by_series], _series(statistic[by_series], degrees, noncentrality[by_series]))
    return np.clip(logs, SMALLEST_LOG, 0.0)


def _line(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    each: Any = noncentrality  # the lines are computed element by element, so that each may have its own
    values = line_values(float(degrees), each, statistic)
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
    """Chernoff's upper bound of ln P(X <= x).

    (1-w)/2 (nc/w - x) - (d/2) ln w at w = max(1, (d + sqrt(d^2 + 4 x nc))/(2x)). Source: Chernoff 1952.
    """
    positive = np.maximum(statistic, 1e-290)
    w = np.maximum((degrees + np.sqrt(degrees**2 + 4 * positive * noncentrality)) / (2 * positive), 1.0)
    return (1 - w) / 2 * (noncentrality / w - statistic) - degrees / 2 * np.log(w)
