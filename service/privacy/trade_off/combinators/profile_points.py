"""Points of a curve from its profile alone, with proofs.

With k = e^c and g(k) = delta(c), which is convex,

    power(alpha) = min_k phi(k),    phi(k) = g(k) + k alpha.

Every k bounds the power from above; `convex_minimum` bounds it from below. Let delta' be the profile of the curve with
swapped hypotheses. The type II error has its own maximum,

    type II error(alpha) = max_k (1 - alpha - delta'(ln k))/k,

where small errors keep their digits. Every k bounds the error from below. The maximum is the negative minimum of a
convex function of 1/k.
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
from service.privacy.trade_off.enclosed.convex import convex_minimum, minimiser

CLOSE: Final = 1e-7
"""Tolerance of the uncertified minimum, over 1 + |c|."""
SPACINGS: Final = (1e-5, 1e-3, 1e-7)
"""Distances of the thresholds of a proof, over 1 + |c|, tried in this order."""
ROUNDS: Final = 16
SMALLEST_GAP: Final = 1e-10
"""Smallest distance of thresholds, over 1 + |c|, when the rounds of a search approach a kink."""
NEARBY: Final = np.arange(-3.0, 4.0)
MARGIN: Final = 1 + 1e-3
"""Factor that covers the rounding of ratios of differences of e^c, for thresholds at least SMALLEST_GAP apart."""
LARGEST: Final = 709.0
"""Largest threshold whose exponential is a double."""
GOOD: Final = 1e-9
"""Relative width of the power at which the search stops."""


def proved_power(
    alpha: float, c: FloatArray, log_low: FloatArray, log_high: FloatArray
) -> tuple[float, float, float, float]:
    """Return bounds of the power at a rate, and of the best threshold, from bounds of the privacy profile.

    Parameters
    ----------
    alpha : float
        The false positive rate.
    c : array of shape (n,)
        Rising thresholds in nats.
    log_low, log_high : array of shape (n,)
        Bounds of ln delta(c).

    Returns
    -------
    (float, float, float, float)
        Lower and upper bound of the power, then of the c that attains the minimum.
    """
    k = np.exp(c)
    rounding = 4 * FUNCTION_ERROR
    low = np.exp(log_low) * (1 - rounding) + k * alpha * (1 - rounding) - SMALLEST
    high = np.exp(log_high) * (1 + rounding) + k * alpha * (1 + rounding) + SMALLEST
    left, right = minimiser(c, low, high)
    least = float(convex_minimum(k, low, high, MARGIN))
    return max(alpha, least), min(float(high.min()), 1.0), float(left), float(right)


def proved_error(
    power: float, c: FloatArray, log_low: FloatArray, log_high: FloatArray
) -> tuple[float, float, float, float]:
    """Return bounds of a type II error from the profile of the swapped hypotheses, and of the best threshold.

    Parameters
    ----------
    power : float
        1 - alpha, the number that is reached with swapped hypotheses.
    c : array, shape (n,)
        Rising thresholds in nats.
    log_low, log_high : array, shape (n,)
        Bounds of ln delta(c).

    Returns
    -------
    (float, float, float, float)
        Lower and upper bound of the largest (power - delta(c)) e^-c, then of the c that attains it.

    Notes
    -----
    The expression rises, then falls in c.
    """
    shrunk, rounding = np.exp(-c), 4 * FUNCTION_ERROR
    least, most = np.exp(log_low) * (1 - rounding), np.exp(log_high) * (1 + rounding) + SMALLEST
    low, high = (power * (1 - rounding) - most) * shrunk, (power * (1 + rounding) - least) * shrunk
    low, high = low * (1 - np.sign(low) * rounding), high * (1 + np.sign(high) * rounding)
    left, right = minimiser(c, -high, -low)
    most_rate = -float(convex_minimum(shrunk[::-1], -high[::-1], -low[::-1], MARGIN))
    proved = max(float(low.max()), 0.0)
    return proved, max(min(most_rate, power), proved), float(left), float(right)


def narrow_threshold(
    steer: Callable[[float], float],
    proved: Callable[[FloatArray], tuple[float, float, float, float]],
    bottom: float,
    top: float,
    known: tuple[float, float],
    good: float = GOOD,
) -> tuple[float, float, float, float]:
    """Return bounds of a number and of the threshold that determines it, by a search.

    Parameters
    ----------
    steer : callable
        An uncertified function of the threshold whose minimum is near the best threshold.
    proved : callable
        Returns bounds of the number and of the threshold from an array of thresholds, like `proved_power`.
    bottom, top : float
        Interval of the search.
    known : (float, float)
        Bounds of the number that are known before.
    good : float
        Relative width at which the search stops.

    Returns
    -------
    (float, float, float, float)
        Lower and upper bound of the number, then of the threshold.
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
        # Approach a kink of the profile by its bounds. Without a kink a few distances are enough.
        gap = (right - left) / (len(NEARBY) - 3)
        if gap < SMALLEST_GAP * (1 + abs(near)) or not math.isfinite(gap):
            spacing = next(spacings, None)
            if spacing is None:
                break
            unit = spacing * (1 + abs(near))
            far = unit * 4.0 ** np.arange(1, 2 + math.ceil(math.log(max((top - bottom) / unit, 4.0), 4.0)))
            # Far points bound the threshold where the profile is straight, so that all thresholds between serve.
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
