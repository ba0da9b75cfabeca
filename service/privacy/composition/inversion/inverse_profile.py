"""Upper bounds of the profile of a run with swapped hypotheses, by the contours of the run itself."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.composition.inversion.direction_contours import DirectionContours
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

_LARGEST_INVERSE, _FARTHEST_INVERSE = 600.0, 5.0
"""Largest |epsilon| (nats) at which contours bound the inverse curve's profile, and largest distance of -epsilon.

The distance, in deviations, counts from the centre of a contour that was laid out for epsilon.
"""


@np.errstate(all="ignore")
def cap_inverse_profile(contours: DirectionContours, epsilon: float) -> float:
    """Return an upper bound of the profile with swapped hypotheses at `epsilon` (nats); 1 where no bound is known.

    That profile is delta(eps) = 1 - e^eps (1 - delta'(-eps)), where delta' is the profile of the direction of
    `contours`. The contour on which delta' is evaluated at eps serves -eps as well if both are near its saddle point.
    Otherwise the best contour for -eps serves.
    """
    at = np.array([epsilon])
    levels: list[int] = contours.run.level_orders_for_thresholds(at)[0].tolist()
    built = (contours.built_tilt_grid(TRUNCATION_DIGITS[level]) for level in levels)
    tilt_grid = next((tilt_grid for tilt_grid in built if tilt_grid is not None), None)
    if tilt_grid is None or contours.deforms_first or abs(epsilon) > _LARGEST_INVERSE:
        return 1.0
    tilt = tilt_grid.for_thresholds(at)[0]
    if not (tilt.has_contour and abs(epsilon + tilt.threshold) <= _FARTHEST_INVERSE * tilt.deviation):
        tilt = tilt_grid.for_thresholds(-at)[0]
    integrals = tilt.contour.integrals(-at)
    log_scale, high = float(integrals.log_scale[2, 0]) + epsilon, float(integrals.upper[2, 0])
    if not (log_scale <= _LARGEST_INVERSE and high < math.inf):
        return 1.0
    # The integral is delta', delta' - 1 or delta' - 1 + e^-eps.
    base = -math.expm1(epsilon) if tilt.theta > 1 else float(tilt.theta > 0)
    term = math.exp(log_scale) * high
    rounding = 16 * UNIT_ROUNDOFF * (1 + abs(log_scale) + 2 * abs(epsilon)) * (abs(base) + abs(term))
    return min(base + term + rounding + 1e-300, 1.0)  # the last covers underflow
