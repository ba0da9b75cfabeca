"""Lower tails of noncentral chi-square laws for arrays of noncentralities, as p-values that are never too small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from service.privacy.enclosure import FloatArray

# Measured against 60-digit values, the series behind scipy is good to 1e-8 up to ten standard deviations, and fails
# beyond; there Chernoff's bound takes over, which is larger than the tail.
SMALLEST_SUMMED: Final = 1e-12
RELATIVE_ERROR: Final = 1e-7
SMALLEST_LOG: Final = -690.0
"""Below this p-values are as good as e^-690, which is larger."""


def log_p_values(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    """An upper bound of ln P(X <= statistic), X ~ chi2'_degrees(noncentrality); arrays of one shape.

    Within 1e-7 of the tail where that is above 1e-12 (degrees and noncentrality up to 1e7), and at most
    exp(K(s) - s x) at the saddlepoint below: valid p-values everywhere. Source: Chernoff 1952.
    """
    from scipy.special import chndtr

    tail = np.asarray(chndtr(statistic, degrees, noncentrality), dtype=np.float64)
    bound = chernoff(statistic, degrees, noncentrality)
    summed = (tail > SMALLEST_SUMMED) & np.isfinite(tail)
    logs = np.where(summed, np.log(np.where(summed, tail, 1.0)) + RELATIVE_ERROR, bound)
    return np.clip(logs, SMALLEST_LOG, 0.0)


def chernoff(statistic: FloatArray, degrees: int, noncentrality: FloatArray) -> FloatArray:
    """Chernoff's upper bound of ln P(X <= x): (1-w)/2 (nc/w - x) - (d/2) ln w at w = (d + sqrt(d^2 + 4 x nc))/(2x) >= 1."""
    positive = np.maximum(statistic, 5e-324)
    with np.errstate(over="ignore", divide="ignore"):
        w = (degrees + np.sqrt(degrees**2 + 4 * positive * noncentrality)) / (2 * positive)
    w = np.clip(w, 1.0, 1e300)
    return (1 - w) / 2 * (noncentrality / w - statistic) - degrees / 2 * np.log(w)


@dataclass(frozen=True, slots=True)
class LogTails:
    lower_low: FloatArray
    lower_high: FloatArray
    upper_low: FloatArray
    upper_high: FloatArray


def log_tails(degrees: int, noncentrality: float, x: FloatArray) -> LogTails:
    from scipy.stats import ncx2

    x = np.maximum(x, 0)
    with np.errstate(all="ignore"):
        low = ncx2.logcdf(x, degrees, noncentrality)
        high = np.log(ncx2.sf(x, degrees, noncentrality))
    return LogTails(low - 1e-9, np.minimum(low + 1e-9, 0), high - 1e-9, np.minimum(high + 1e-9, 0))
