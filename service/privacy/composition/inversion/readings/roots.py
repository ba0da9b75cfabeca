"""Thresholds at which a tail probability of the loss, or the privacy profile, has a given value.

They are approximated on one contour without bounds, then proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import erfcx, ndtri_exp

from service.privacy.composition.inversion.readings.contour import InversionContour
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.numerics.arrays import FloatArray

_NEWTON_STEPS = 60
_SMALL_RESIDUAL = 3e-7
"""Residual of the logarithm of the solved function, which the last step squares."""

_SQRT_HALF, _SQRT_HALF_PI = math.sqrt(0.5), math.sqrt(0.5 * math.pi)
_LARGEST_SCORE = 2.0
"""Score above which Phi^-1 becomes steep, for values near 1."""

_NEAR = np.linspace(-1.35, 1.35, 13)
"""Deviations beside a contour's centre for the table by which few levels begin by interpolation."""

_INTERPOLATED, _CELLS = 16, 20
"""Number of levels from which a finer table serves the interpolation, and cells of that table for each deviation."""
_HALF_WIDTHS = (3, 6, 12)
"""Deviations to either side of a contour's centre of that table; the first range that holds all levels serves."""

MARGINS = (4.0, 400.0, 1e5)
"""Multiples of a root's uncertainty, tried in turn, of the thresholds on either side that prove the root."""


def solve_tail(contour: InversionContour, alpha: FloatArray, *, at_center: bool = False) -> FloatArray:
    """Return thresholds c with P0(S > c) about alpha, by Newton's method for the normal score of the tail (`_newton`).

    S is the privacy loss of a run, and P0 is its law under H0.

    Parameters
    ----------
    contour : InversionContour
        Contour that gives the tail of S.
    alpha : array, shape (n,)
        False positive rates.
    at_center : bool
        Whether the search begins at the contour's centre, for contours that are expensive at every threshold.

    Returns
    -------
    array, shape (n,)
        Thresholds in nats, without bounds; NaN where the search fails.
    """
    upper = contour.leftmost > 0.0
    log_target = np.log(alpha) if upper else np.log1p(-alpha)
    sign = 1.0 if upper else -1.0
    first = _centers(contour, log_target) if at_center else _first_thresholds(contour, 0, sign, log_target)
    return _newton(contour, first, 0, sign, log_target)


def _centers(contour: InversionContour, log_target: FloatArray) -> FloatArray:
    return np.zeros(len(log_target)) + contour.center


def _first_thresholds(contour: InversionContour, row: int, sign: float, log_target: FloatArray) -> FloatArray:
    """Return the thresholds (nats) at which Newton's method begins: the contour's centre, or interpolated in a table.

    The solved equation is ln(sign I(c)) = `log_target`, shape (n,), where I is the contour's integral with index `row`:
    0 for the tail under H0, or 2 for the profile. The interpolation is cubic.
    """
    x = c = slope = np.zeros(0)
    target = log_target
    if np.size(contour.center) > 1:
        return _centers(contour, log_target)
    if len(log_target) < _INTERPOLATED:
        target = ndtri_exp(log_target)
        if row not in contour.score_tables:
            contour.score_tables[row] = _scores(contour, row, sign)
        x, c, slope = contour.score_tables[row]
    elif row == 0:
        for half_width in _HALF_WIDTHS:
            x, c, slope = _tabulated(contour, sign, half_width)
            if len(x) > 1 and x[0] <= log_target.min() and log_target.max() <= x[-1]:
                break
    if len(x) < 2:
        return _centers(contour, log_target)
    cell = np.clip(np.searchsorted(x, target) - 1, 0, len(x) - 2)
    width = x[cell + 1] - x[cell]
    s = np.clip((target - x[cell]) / width, 0.0, 1.0)
    rest = 1 - s
    ends = c[cell] * rest**2 * (1 + 2 * s) + c[cell + 1] * s**2 * (1 + 2 * rest)
    return ends + width * s * rest * (slope[cell] * rest - slope[cell + 1] * s)


def _scores(contour: InversionContour, row: int, sign: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `(x, c, dc/dx)`: normal scores, thresholds, and derivatives of thresholds, by increasing x.

    x = Phi^-1(sign I(c)), with the normal distribution function Phi and the contour's integral I with index `row` (0
    for the tail under H0, 2 for the profile). The arrays are empty where Phi^-1 becomes steep, or x does not increase.
    """
    thresholds = contour.center - (sign * contour.deviation) * _NEAR
    with np.errstate(all="ignore"):
        sums, log_scale = contour.approximate(thresholds)
        x = np.asarray(ndtri_exp(np.log(sign * sums[row]) + log_scale[row]), dtype=np.float64)
        slope = -sums[row] / (sums[3 if row == 0 else 0] * _SQRT_HALF_PI * erfcx(-_SQRT_HALF * x))
    known = x[-1] < _LARGEST_SCORE and bool((x[1:] > x[:-1]).all()) and bool(np.isfinite(slope).all())
    return (x, thresholds, slope) if known else (x[:0], x[:0], x[:0])


def _tabulated(contour: InversionContour, sign: float, half_width: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `(x, c, dc/dx)` with x = ln of the tail under H0 at thresholds c, by increasing x; equal lengths.

    The thresholds lie within `half_width` standard deviations of the contour's centre. Points without a finite
    logarithm or slope are left out. `sign` is the sign of the contour's integral for the tail.
    """
    thresholds = contour.center + contour.deviation * np.linspace(-half_width, half_width, 2 * half_width * _CELLS + 1)
    with np.errstate(all="ignore"):
        sums, log_scale = contour.approximate(thresholds)
        tail = np.log(sign * sums[0]) + log_scale[0]
        slope = -sums[0] / sums[3]
    usable = np.flatnonzero(np.isfinite(tail) & np.isfinite(slope))
    order = usable[np.argsort(tail[usable])]
    return tail[order], thresholds[order], slope[order]


def solve_profile(contour: InversionContour, delta: FloatArray, *, at_center: bool = False) -> FloatArray:
    """Return thresholds c at which the privacy profile delta(c) is about `delta`, by Newton's method.

    Parameters
    ----------
    contour : InversionContour
        Contour that crosses the real axis at theta > 0.
    delta : array, shape (n,)
        Values of the privacy profile.
    at_center : bool
        Whether the search begins at the contour's centre.

    Returns
    -------
    array, shape (n,)
        Thresholds in nats, without bounds; NaN where the search fails.
    """
    far = contour.leftmost > 1.0
    log_target = np.log(delta) if far else np.log1p(-delta)
    sign = 1.0 if far else -1.0
    first = _centers(contour, log_target) if at_center else _first_thresholds(contour, 2, sign, log_target)
    return _newton(contour, first, 2, sign, log_target)


def _newton(contour: InversionContour, c: FloatArray, row: int, sign: float, log_target: FloatArray) -> FloatArray:
    """Solve ln(sign I(c)) = log_target for thresholds c (nats), beginning at `c`; return the roots, shape (n,).

    I is the contour's integral with index `row`: I0 = P0(S > c) for 0, or ID, the profile, for 2, each up to the sign
    and a constant. dI0/dc is minus the density of the loss under H0, and dID/dc is -e^c I0. Steps are those of Newton's
    method for Phi^-1 of both sides (Phi: normal distribution function), which is nearly linear in c where a loss is
    nearly normal. For values near 1 the steps use the logarithms of both sides.

    A step is at most four standard deviations. Both functions fall in c. A step beyond the known values on either side
    is replaced by half of the interval, for laws between whose atoms the density is negligible. The result is NaN where
    the residual stays above 1e-6 and the interval did not close. The last step squares a small residual. Of many
    thresholds of one contour, those that are found are not evaluated again.
    """
    slope_row = 3 if row == 0 else 0
    largest = 4 * contour.deviation
    residual = np.full(len(c), np.inf)
    low, high = np.full(len(c), -np.inf), np.full(len(c), np.inf)
    found, at, alone = c.copy(), slice(None), np.size(contour.center) == 1
    target_score = ndtri_exp(log_target)
    with np.errstate(all="ignore"):
        for _ in range(_NEWTON_STEPS):
            here, below, above = found[at], low[at], high[at]
            sums, log_scale = contour.approximate(here)
            value = sign * sums[row]
            log_value = np.log(value) + log_scale[row]
            difference = log_value - log_target[at]
            hazard = sign * sums[slope_row] / value
            positive = value > 0
            # A value that is not positive is rounding around 0, so that the threshold lies on the other side.
            beyond = sign * np.where(positive, difference, -np.inf) > 0
            below, above = np.where(beyond, np.fmax(below, here), below), np.where(beyond, above, np.fmin(above, here))
            score = np.asarray(ndtri_exp(log_value), dtype=np.float64)
            bent = (score - target_score[at]) / (_SQRT_HALF_PI * erfcx(-_SQRT_HALF * score))
            move = np.where(positive, np.where(score < _LARGEST_SCORE, bent, difference) / hazard, -sign * largest)
            move = np.minimum(np.maximum(np.where(np.isnan(move), 0.0, move), -largest), largest)
            rest, moved = np.abs(move * hazard), here + move
            far = rest > _SMALL_RESIDUAL
            gap = above - below  # infinite where a bound is not known
            halved = far & ((moved <= below) | (moved >= above)) & (gap < np.inf)
            if halved.any():
                moved = np.where(halved, 0.5 * (below + above), moved)
            found[at], low[at], high[at], residual[at] = moved, below, above, rest
            left = far & (gap > 1e-15 * np.abs(moved))
            if not left.any():
                break
            if alone and not left.all():
                at = np.arange(len(c))[at][left]
        return np.where((residual < 1e-6) | (high - low < 1e-12 * contour.deviation), found, np.nan)


def prove_root(contour: InversionContour, threshold: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return proved bounds of the smallest eps >= 0 at which the privacy profile is at most `delta`.

    Parameters
    ----------
    contour : InversionContour
        Contour that gives the profile delta(eps).
    threshold : array, shape (n,)
        Approximate roots, nats. Bounds below 0 become 0.
    delta : array, shape (n,)
        Values of the profile.

    Returns
    -------
    (array, array)
        Lower and upper bounds in nats, shape (n,); NaN where the proof fails.
    """
    log_target = np.log(delta)
    slack = 1e-15 * (1 + np.abs(log_target))  # the rounding of ln delta, many times over
    lower, upper = np.full_like(log_target, np.nan), np.full_like(log_target, np.nan)
    for margin in _root_margins(contour, threshold):
        left, right = np.maximum(threshold - margin, 0.0), threshold + margin
        proved = read_profile(contour, np.concatenate([left, right]))
        above = (left == 0) | (proved.lower[0, : len(log_target)] >= log_target + slack)
        found = np.isnan(lower) & above & (proved.upper[0, len(log_target) :] <= log_target - slack)
        lower, upper = np.where(found, left, lower), np.where(found, right, upper)
        if not np.isnan(lower).any():
            break
    return lower, upper


def _root_margins(contour: InversionContour, threshold: FloatArray) -> Iterator[FloatArray]:
    """Yield distances (nats), shape (n,), from approximate roots `threshold` within which true roots should lie.

    The distances increase from one array to the next. They are multiples of the contour's error over the profile's
    slope.
    """
    integrals = contour.integrals(threshold)
    width = integrals.upper[2] - integrals.lower[2]
    low, high = integrals.lower[0], integrals.upper[0]
    with np.errstate(invalid="ignore"):
        slope = 0.5 * np.abs(low + high)
        known = high - low <= slope  # not where pole terms of I0 are beyond all doubles
    if not known.all():
        slope = np.abs(contour.approximate(threshold)[0][0])
    spread = width / np.maximum(slope, 1e-300) + 4e-16 * np.abs(threshold)
    for margin in MARGINS:
        yield margin * spread
