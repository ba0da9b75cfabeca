"""Logarithms of probabilities that a contour gives on a scale of its own, rounded outwards."""

from __future__ import annotations

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


def complement(log_low: FloatArray, log_high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an enclosure of ln(1 - x) from an enclosure of ln x, where x is a probability evaluated on a contour.

    Parameters
    ----------
    log_low, log_high : array, shape (n,)
        Bounds of ln x <= 0.

    Returns
    -------
    (array, array)
        Lower and upper bounds of ln(1 - x), shape (n,).

    Notes
    -----
    The rounding of e^{ln x} matters where 1 - x is small. The relative error 1e-15 that the contour adds to its scale
    covers that rounding. The slack here covers the logarithm.
    """
    with np.errstate(divide="ignore"):
        lower, upper = np.log1p(-np.exp(log_high)), np.log1p(-np.exp(log_low))
    return lower * (1 + 1e-15) - 4e-16, np.minimum(upper * (1 - 1e-15) + 4e-16, 0.0)


def logs_of(low: FloatArray, high: FloatArray, log_scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `(lower, upper)`, ln of the bounds `low`, `high` of a probability on the scale e^{log_scale}, shape (n,).

    A lower bound that is not positive counts as 0, and an unknown bound (NaN) is trivial (0 below, 1 above). An upper
    bound is raised to at least 1e-300 on that scale, because smaller doubles lose their digits.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_low, log_high = np.log(np.maximum(low, 0.0)) + log_scale, np.log(np.maximum(high, 1e-300)) + log_scale
    log_low = np.where(np.isnan(log_low), -np.inf, log_low - 4 * UNIT_ROUNDOFF * (1 + np.abs(log_scale)))
    log_high = np.where(np.isnan(log_high), 0.0, log_high + 4 * UNIT_ROUNDOFF * (1 + np.abs(log_scale)))
    return np.minimum(log_low, 0.0), np.minimum(log_high, 0.0)
