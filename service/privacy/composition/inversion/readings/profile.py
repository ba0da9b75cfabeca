"""Privacy profile delta(epsilon) from a contour, as proved enclosures of natural logarithms."""

from __future__ import annotations

import numpy as np

from service.privacy.composition.inversion.readings.contour import InversionContour
from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.readings.logs import complement, logs_of
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


def read_profile(contour: InversionContour, epsilon: FloatArray) -> Readings:
    """Return enclosures of ln delta at the finite thresholds `epsilon` (nats), shape (n,), as one row.

    The contour's third integral ID is delta, delta - 1 or delta - 1 + e^eps, by the side of the contour on which the
    poles 0 and 1 lie. It is delta for a contour on the right of both poles.
    """
    integrals = contour.integrals(epsilon)
    low, high = integrals.lower[2], integrals.upper[2]
    if contour.leftmost > 1.0:
        log_low, log_high = logs_of(low, high, integrals.log_scale[2])
        return Readings(log_low[None], log_high[None])
    if contour.leftmost > 0.0:
        log_low, log_high = logs_of(-high, -low, integrals.log_scale[2])
        lower, upper = complement(log_low, log_high)
        return Readings(lower[None], upper[None])
    # delta - 1 + e^eps may exceed 1, and its scale may overflow far from the contour. The bound is trivial then.
    scale = np.exp(np.minimum(integrals.log_scale[2], 600.0))
    base = -np.expm1(np.minimum(epsilon, 700.0))
    # 16 u of all terms and of the scale's exponent cover expm1 and exp within 4 ulp, products and sums.
    size = 1 + np.abs(base) + np.abs(scale * low) + np.abs(scale * high)
    slack = 16 * UNIT_ROUNDOFF * size * (1 + np.abs(integrals.log_scale[2]))
    known = integrals.log_scale[2] < 600.0
    lower = np.where(known, np.log(np.clip(base + scale * low - slack, 0.0, 1.0)), -np.inf)
    upper = np.where(known, np.log(np.clip(base + scale * high + slack, 1e-300, 1.0)), 0.0)
    return Readings(lower[None] - 4e-16, np.minimum(upper + 4e-16, 0.0)[None])
