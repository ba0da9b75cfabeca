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
from typing import Final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.roots import lowest
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.numerics.work import count_work, is_spent
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
NEIGHBOURS, ROWS = 8, 2048
"""Thresholds on each side of the best one that prove a point, and rates that are proved together."""
A_ROW, A_LIST, A_THRESHOLD = 8.0, 150.0, 0.25
"""Work of a rate, of a proof by all thresholds, and of each of them, in microseconds."""
LARGEST: Final = 709.0
"""Largest threshold whose exponential is a double."""
GOOD: Final = 1e-9
"""Relative width of the power at which the search stops."""


def proved_power(
    alpha: float, c: FloatArray, log_low: FloatArray, log_high: FloatArray
) -> tuple[float, float, float, float]:
    """Return bounds of power(alpha) = min over c of delta(c) + e^c alpha, from bounds of the privacy profile delta.

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
        Lower and upper bound of the power, then of the c that attains the minimum. Where nothing is proved, the bounds
        of the power are `alpha` or 1, and those of c infinite.
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
    """Return bounds of the type II error at a rate alpha, from the profile delta of the swapped hypotheses.

    The type II error is the largest (1 - alpha - delta(c)) e^-c over thresholds c.

    Parameters
    ----------
    power : float
        1 - alpha, which is the power of the swapped test.
    c : array, shape (n,)
        Rising thresholds in nats.
    log_low, log_high : array, shape (n,)
        Bounds of ln delta(c).

    Returns
    -------
    (float, float, float, float)
        Lower and upper bound of the type II error, then of the c that attains it. Where nothing is proved, the bounds
        of the error are 0 or `power`, and those of c infinite.

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


def proved_points(
    alpha: FloatArray, c: FloatArray, own: tuple[FloatArray, FloatArray], swapped: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of the power and of the type II error at many rates, from bounds of both profiles at thresholds.

    Parameters
    ----------
    alpha : array, shape (m,)
        False positive rates in (0, 1).
    c : array, shape (n,)
        Rising thresholds in nats, n >= 3, with -c[::-1] = c.
    own, swapped : (array, array)
        Lower and upper bounds of ln delta(c), and of ln delta'(c) for swapped hypotheses, at the same c; shape (n,).

    Returns
    -------
    (array, array)
        Lower and upper bounds of the power, and of the type II error; shape (m, 2).

    Notes
    -----
    Each rate uses the thresholds near its best threshold. It uses all thresholds if these do not prove that the best
    one is among them, for the smaller one of both numbers. The larger one, next to 1, is 1 minus the smaller one.
    """
    powers, errors = np.empty((len(alpha), 2)), np.empty((len(alpha), 2))
    k, shrunk, rounding = np.exp(c), np.exp(-c), 4 * FUNCTION_ERROR
    (least, most), (least_swapped, most_swapped) = (
        (np.exp(low) * (1 - rounding), np.exp(high) * (1 + rounding) + SMALLEST) for low, high in (own, swapped)
    )
    best = _best_thresholds(alpha, k, most, most_swapped)
    near = np.arange(min(2 * NEIGHBOURS + 1, len(c)))
    last, again = len(c) - len(near), np.zeros(len(alpha), dtype=bool)
    for start in range(0, len(alpha), ROWS):
        rows = slice(start, start + ROWS)
        rate = alpha[rows, None]
        first = np.clip(best[rows] - NEIGHBOURS, 0, last)
        at = first[:, None] + near
        x = k[at]
        low = least[at] + x * rate * (1 - rounding) - SMALLEST
        high = most[at] + x * rate * (1 + rounding) + SMALLEST
        powers[rows, 0] = convex_minimum(x, low, high, MARGIN)
        powers[rows, 1] = np.minimum(high.min(axis=1), 1.0)
        unproved = _is_elsewhere(low, high, first, last)
        # The thresholds of swapped hypotheses are -c, in the same order as e^-c.
        at = len(c) - 1 - at
        low = ((1 - rate) * (1 - rounding) - most_swapped[at]) * shrunk[at]
        high = ((1 - rate) * (1 + rounding) - least_swapped[at]) * shrunk[at]
        low, high = low * (1 - np.sign(low) * rounding), high * (1 + np.sign(high) * rounding)
        errors[rows, 0] = np.maximum(low.max(axis=1), 0.0)
        errors[rows, 1] = -convex_minimum(shrunk[at], -high, -low, MARGIN)
        again[rows] = np.where(powers[rows, 1] < 0.5, unproved, _is_elsewhere(-high, -low, first, last))
    count_work(A_ROW * len(alpha))
    for index in np.flatnonzero(again).tolist():
        if is_spent():
            break
        count_work(A_LIST + A_THRESHOLD * len(c))
        rate = float(alpha[index])
        powers[index] = proved_power(rate, c, *own)[:2]
        errors[index] = proved_error(1 - rate, c, *swapped)[:2]
    powers[:, 0] = np.maximum(powers[:, 0], alpha)
    errors[:, 1] = np.maximum(np.minimum(errors[:, 1], 1 - alpha), errors[:, 0])
    return powers, errors


def _is_elsewhere(low: FloatArray, high: FloatArray, first: IndexArray, last: int) -> BoolArray:
    """Return whether the minimum of each of m convex functions may lie outside its n evaluated thresholds, shape (m,).

    `low` and `high`, shape (m, n), bound the functions at n successive thresholds of a longer list. `first`, shape
    (m,), is the index of the first of them, and `last` the largest value of `first`. Beyond an end of the list there
    is no minimum.
    """
    left, right = low[:, 0] >= high[:, 1], low[:, -1] >= high[:, -2]
    return ~(left | (first == 0)) | ~(right | (first == last))


@np.errstate(all="ignore")
def _best_thresholds(alpha: FloatArray, k: FloatArray, own: FloatArray, swapped: FloatArray) -> IndexArray:
    """Return the approximate index of the e^c in `k` that minimises delta(c) + e^c alpha, for each rate in `alpha`.

    `k` has e^c at rising thresholds c, with -c[::-1] = c. `own` and `swapped` have about delta(c) and delta'(c) at the
    same c, the profiles for both orders of the hypotheses. No bound depends on the result. For c >= 0 the rate is minus
    the slope of delta in e^c. For c < 0, 1 - alpha is the value at 0 of the tangent of delta' at e^-c.
    """
    middle = len(k) // 2
    right = (own[middle:-1] - own[middle + 1 :]) / np.diff(k[middle:])
    y, other = k[middle:], swapped[middle:]
    left = (other[:-1] * y[1:] - other[1:] * y[:-1]) / np.diff(y)
    falls, rests = (np.minimum.accumulate(np.nan_to_num(each)) for each in (right, left))
    above = middle + np.searchsorted(-falls, -alpha)
    below = middle - np.searchsorted(-rests, alpha - 1)
    return np.where(alpha <= falls[0], above, below)


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
        Lower and upper bound of the number, at least as narrow as `known`, then of the threshold: infinite where
        nothing is proved. The search ends early when the work of the request is spent.
    """
    if is_spent():
        return *known, -math.inf, math.inf
    near = top
    if top - bottom > CLOSE:
        near = lowest(steer, bottom, top, CLOSE)
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
