"""Points of a curve from its profile alone, with proofs.

With k = e^c and g(k) = delta(c), which is convex,

    power(alpha) = min_k phi(k),    phi(k) = g(k) + k alpha.

Any k bounds it from above. From below, on an interval between two known k, the secants through the neighbours on either
side do; beyond the outermost phi is larger than there, once it is proved to fall towards the inside. The type II error
is that of the curve with the hypotheses exchanged, delta' its profile, by its own maximum:

    type II error(alpha) = max_k (1 - alpha - delta'(ln k))/k,

where small errors keep their digits. Any k bounds it from below, and secants as before from above: over a line the
quotient is largest at an end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.numerics.work import is_spent

CLOSE: Final = 1e-7
"""Distance of thresholds, over 1 + |c|, to which the minimum is sought; it steers."""
SPACINGS: Final = (1e-5, 1e-3, 1e-7)
"""Distances of the thresholds of a proof, over 1 + |c|, tried in turn ..."""
ROUNDS: Final = 16
SMALLEST_GAP: Final = 1e-10
"""... after which the levels proved on either side are closed in on, down to this distance, so often altogether."""
NEARBY: Final = np.arange(-3.0, 4.0)
LARGEST: Final = 709.0
"""Thresholds whose exponential is a double."""
GOOD: Final = 1e-9
"""Relative width of the power at which no other distances are tried."""


def proved_power(
    alpha: float, c: FloatArray, log_low: FloatArray, log_high: FloatArray
) -> tuple[float, float, float, float]:
    """What ends of ln delta at thresholds c, rising, prove: ends of the power at a rate, and of the best c."""
    k = np.exp(c)
    rounding = 4 * FUNCTION_ERROR
    low = np.exp(log_low) * (1 - rounding) + k * alpha * (1 - rounding) - SMALLEST
    high = np.exp(log_high) * (1 + rounding) + k * alpha * (1 + rounding) + SMALLEST
    falls, rises = low[:-1] > high[1:], low[1:] > high[:-1]
    left = float(c[:-1][falls].max()) if falls.any() else -math.inf
    right = float(c[1:][rises].min()) if rises.any() else math.inf
    least, most = alpha, float(high.min())
    if falls[0] and rises[-1]:
        # The rounding of k is far below its differences, which are at least 1e-10 of it.
        widths = np.diff(k)
        onward, back = 1.001 * widths[1:] / widths[:-1], 1.001 * widths[:-1] / widths[1:]
        from_left = low[1:-1] - np.maximum(high[:-2] - low[1:-1], 0.0) * onward
        from_right = low[1:-1] - np.maximum(high[2:] - low[1:-1], 0.0) * back
        # Interval i has the points i and i + 1: its left secant ends in the one, its right in the other.
        inner = np.maximum(from_left[:-1], from_right[1:])
        lowest = float(np.min([inner.min(), from_right[0], from_left[-1]]))
        least = max(least, lowest)  # NaN, where an exponential is no double, proves nothing
    return least, min(most, 1.0), left, right


def proved_error(
    power: float, c: FloatArray, log_low: FloatArray, log_high: FloatArray
) -> tuple[float, float, float, float]:
    """The same of the largest (power - delta(c)) e^-c, which rises up to its maximum, then falls."""
    k, rounding = np.exp(c), 4 * FUNCTION_ERROR
    least, most = np.exp(log_low) * (1 - rounding), np.exp(log_high) * (1 + rounding) + SMALLEST
    low, high = (power * (1 - rounding) - most) / k, (power * (1 + rounding) - least) / k
    low, high = low * (1 - np.sign(low) * rounding), high * (1 + np.sign(high) * rounding)
    rises, falls = high[:-1] < low[1:], high[1:] < low[:-1]
    left = float(c[:-1][rises].max()) if rises.any() else -math.inf
    right = float(c[1:][falls].min()) if falls.any() else math.inf
    proved, bound = max(float(low.max()), 0.0), power
    if rises[0] and falls[-1]:
        widths = np.diff(k)
        # What the secants through the points before and after an interval leave at its far end.
        onward = least[1:-1] - (most[:-2] - least[1:-1]) * 1.001 * widths[1:] / widths[:-1]
        fall = least[1:-1] - most[2:]
        back = least[1:-1] + fall * np.where(fall > 0, 0.999, 1.001) * widths[:-1] / widths[1:]
        first = np.append(math.inf, np.maximum(high[1:-1], (power * (1 + rounding) - onward) / k[2:]))
        last = np.append(np.maximum((power * (1 + rounding) - back) / k[:-2], high[1:-1]), math.inf)
        bound = min(bound, float(np.minimum(first, last).max()) * (1 + rounding))
    return proved, max(bound, proved), left, right


def closed_in(
    steer: Callable[[float], float],
    proved: Callable[[FloatArray], tuple[float, float, float, float]],
    bottom: float,
    top: float,
    known: tuple[float, float],
    good: float = GOOD,
) -> tuple[float, float, float, float]:
    """Both ends of a number and of the threshold that decides it, from what thresholds near the least of `steer` prove;
    `known`: both ends before.
    """
    if is_spent():
        return *known, -math.inf, math.inf
    near = top
    if top - bottom > CLOSE:
        from scipy.optimize import minimize_scalar

        found: Any = minimize_scalar(steer, bounds=(bottom, top), method="bounded", options={"xatol": CLOSE})
        near = float(found.x)
    (low, high), left, right = known, -math.inf, math.inf
    spacings = iter(SPACINGS)
    for _ in range(ROUNDS):
        if high - low <= good * high:
            break
        # Where the profile has a kink, its level is closed in on; else a few distances serve.
        gap = (right - left) / (len(NEARBY) - 3)
        if gap < SMALLEST_GAP * (1 + abs(near)) or not math.isfinite(gap):
            spacing = next(spacings, None)
            if spacing is None:
                break
            unit = spacing * (1 + abs(near))
            far = unit * 4.0 ** np.arange(1, 2 + math.ceil(math.log(max((top - bottom) / unit, 4.0), 4.0)))
            # Far points close in on a level where the profile is straight: there all levels between serve.
            c = np.concatenate([near - far[::-1], near + unit * NEARBY, near + far])
            c = np.clip(c, bottom - 1, min(top + 1, LARGEST))
            c = np.unique(c)
        else:
            c = 0.5 * (left + right) + gap * NEARBY
        found_low, found_high, found_left, found_right = proved(np.asarray(c, dtype=np.float64))
        low, high = max(low, found_low), min(high, found_high)
        left, right = max(left, found_left), min(right, found_right)
        if is_spent():
            break
    return low, high, left, right
