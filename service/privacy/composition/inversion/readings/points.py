"""Points of a trade-off curve from a contour, as proved enclosures of natural logarithms.

A point has a false positive rate alpha, a power, a type II error (1 - power) and the slope of the curve there.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.composition.inversion.readings.contour import InversionContour
from service.privacy.composition.inversion.readings.enclosures import Readings, nothing_known
from service.privacy.composition.inversion.readings.logs import complement, logs_of
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.composition.inversion.readings.roots import MARGINS, solve_tail
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.exponentials import exp_held
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.combinators.profile_points import proved_power

_SMALLEST_RATE, _LARGEST_EXPONENT = 1e-250, 500.0
"""Smallest rate and largest threshold whose rate and e^c leave room for products in doubles."""
_SECANTS = 1e-8
"""Relative width of the power that secants may leave; it steers."""
_FEW = 8
"""Maximal number of wide points of a list that are also evaluated from the profile."""


def read_points(contour: InversionContour, alpha: FloatArray) -> Readings:
    """Return enclosures of points of the trade-off curve at false positive rates `alpha` in (0, 1), shape (n,).

    The rows are ln power, ln type II error and ln slope. `contour` gives the tails of the loss of the run. A threshold
    c of the loss is found for each rate alpha. Tangents and chords of the curve at c and beside c prove the bounds
    (inequalities in `inversion/engine.py`). The enclosures are trivial (power and type II error at most 1) where no
    threshold is found.
    """
    c = solve_tail(contour, alpha)
    result = nothing_known(len(alpha))
    good = np.isfinite(c)
    if not good.any():
        return result
    at, every = np.flatnonzero(good), np.arange(len(alpha))
    c = np.where(good, c, contour.center)
    for margin in MARGINS:
        # Several contours are always evaluated together, one for each rate.
        asked = at if np.size(contour.center) == 1 else every
        proved = _points_around(contour, alpha[asked], c[asked], margin)
        proved = proved if len(asked) == len(at) else proved.of(at)
        result.tighten(at, proved)
        at = at[~(np.isfinite(proved.lower[2]) & np.isfinite(proved.upper[2]))]
        if len(at) == 0:
            break
    return result


def read_few_points(contour: InversionContour, alpha: FloatArray, width: float) -> Readings:
    """Return enclosures of ln power, ln type II error and ln slope at the rates `alpha`, from a single contour.

    If at most 8 points are wider than the relative `width`, and the contour crosses the real axis right of 1, these
    points are also evaluated from the profile.
    """
    result = read_points(contour, alpha)
    indices = np.flatnonzero(result.width() > width)
    if not 0 < len(indices) <= _FEW or contour.leftmost <= 1.0:
        return result
    threshold = 0.5 * (result.lower[2] + result.upper[2])[indices]
    threshold = np.where(np.isfinite(threshold), threshold, solve_tail(contour, alpha[indices]))
    for index, c in zip(indices, threshold, strict=True):
        result.tighten(np.array([index]), read_power_by_profile(contour, float(alpha[index]), float(c)))
    return result


def read_power_by_profile(contour: InversionContour, alpha: float, c: float) -> Readings:
    """Return enclosures of ln power and ln type II error at one rate alpha from the profile alone.

    The profile is evaluated at thresholds around `c`. The result is one column of a point whose slope is unknown. The
    enclosures are trivial unless the contour crosses the axis at theta > 1, and for some extreme `alpha` and `c`.

    Notes
    -----
    Where the power hardly exceeds the rate, both are large beside the profile D(c) = power(c) - e^c alpha(c), with
    power and rate of the test that the loss exceeds c. The integral of the profile is the smallest and has the smallest
    error. The power at alpha is the minimum over c of D(c) + e^c alpha, and secants of D bound it from below
    (`proved_power`).
    """
    result = nothing_known(1)
    if not (contour.theta > 1 and math.isfinite(c) and alpha > _SMALLEST_RATE and c < _LARGEST_EXPONENT):
        return result
    here = np.array([c])
    integrals, (sums, log_scales) = contour.integrals(here), contour.approximate(here)
    # Both steer: any unit is valid.
    error = exp_held(integrals.log_scale[2, 0]) * float(integrals.upper[2, 0] - integrals.lower[2, 0])
    density = exp_held(log_scales[3, 0] + c) * float(sums[3, 0])
    # The power bends by density unit^2/2 within a unit: secants leave about as much as the error of the bounds.
    unit = math.sqrt(2 * max(error, _SECANTS * alpha) / density) if density > 0 else math.nan
    if not 0 < unit < 1:
        return result
    around = c + unit * np.arange(-4.0, 5.0)
    logs = read_profile(contour, around)
    least, most, *_ = proved_power(alpha, around, logs.lower[0], logs.upper[0])
    # Logarithms of both bounds, with their rounding.
    result.lower[0, 0] = math.log(least) - 4 * UNIT_ROUNDOFF * (1 + abs(math.log(least)))
    result.upper[0, 0] = min(math.log(most) + 4 * UNIT_ROUNDOFF * (1 + abs(math.log(most))), 0.0)
    result.lower[1], result.upper[1] = complement(result.lower[0], result.upper[0])
    return result


def _points_around(contour: InversionContour, alpha: FloatArray, c: FloatArray, margin: float) -> Readings:
    """Return enclosures of points at the rates `alpha` from the approximate thresholds `c` and two more for each.

    `contour` gives the tails of the loss. The arrays have the shape (n,), and c is in nats. The two thresholds lie on
    either side of c, at `margin` times the uncertainty of c. The rows are ln power, ln type II error and ln slope.
    """
    integrals = contour.integrals(c)
    lower, upper, log_scale = integrals.lower, integrals.upper, integrals.log_scale
    # The rate (1 - alpha on contours left of the poles) on the scale of I0, with the rounding of its exponent.
    right = contour.leftmost > 0.0
    log_target = np.log(alpha) if right else np.log1p(-alpha)
    target = np.exp(log_target - log_scale[0])
    slack = target * (4 * UNIT_ROUNDOFF * (np.abs(log_target) + np.abs(log_scale[0])) + 1e-15)
    # The scales of rates and powers differ by e^c and by roundings, which are large on steep contours.
    with np.errstate(invalid="ignore"):
        apart = np.abs((log_scale[1] - log_scale[0]) - c) + 2 * UNIT_ROUNDOFF * np.abs(c)
        largest = np.minimum(np.maximum(np.abs(lower[0]), np.abs(upper[0])), 1e300)
        slack = slack + np.expm1(np.minimum(apart, 1.0)) * (target + largest) + np.where(apart < 1, 0.0, np.inf)
    sign = 1.0 if right else -1.0
    # (alpha(c) - alpha) on that scale.
    alpha_excess_low = lower[0] - sign * target - slack
    alpha_excess_high = upper[0] - sign * target + slack
    away = np.maximum(-alpha_excess_low, alpha_excess_high)  # the uncertainty, and the distance of alpha(c) from alpha
    spread = away / np.maximum(np.abs(integrals.density), 1e-300) + 4e-16 * np.abs(c)
    step = np.minimum(margin * spread, 5.0 / contour.deviation)  # steers: any step is valid
    rounding = UNIT_ROUNDOFF * (16 + 4 * np.abs(log_target) + 4 * np.abs(log_scale[0]))
    left_proved, right_proved = _proved_sides(contour, log_target, c, step, rounding)
    slope_low = np.where(left_proved, c - step, -np.inf)
    slope_high = np.where(right_proved, c + step, np.inf)
    steepest = np.where(right_proved, np.exp(np.where(right_proved, step, 0.0)) * (1 + 1e-15), np.inf)
    with np.errstate(invalid="ignore"):
        chord = np.where(alpha_excess_high > 0, alpha_excess_high * steepest, 0.0)
    if contour.leftmost > 1.0:
        low = lower[1] - chord
        high = np.minimum(upper[1] - alpha_excess_low, upper[2] + target + slack)
        return _with_complement(low, high, log_scale[1], slope_low, slope_high, power_first=True)
    low = -upper[1] + alpha_excess_low
    direct = -upper[2] - target - slack if right else target - slack - upper[2]
    high = -lower[1] + chord
    return _with_complement(np.maximum(low, direct), high, log_scale[1], slope_low, slope_high, power_first=False)


def _proved_sides(
    contour: InversionContour, log_target: FloatArray, c: FloatArray, step: FloatArray, rounding: FloatArray
) -> tuple[BoolArray, BoolArray]:
    """Return two masks (n,): whether alpha(c - step) >= alpha and whether alpha(c + step) <= alpha are proved.

    alpha(c) is the probability under H0 that the loss exceeds c, and alpha is the wanted rate. `log_target` is ln
    alpha, or ln(1 - alpha) on contours that cross the real axis left of 0. `rounding` is the relative error of
    e^log_target on the contour's scale.
    """
    n = len(c)
    both = contour.integrals(np.concatenate([c - step, c + step]))
    sign = 1.0 if contour.leftmost > 0.0 else -1.0
    target = np.exp(np.concatenate([log_target, log_target]) - both.log_scale[0])
    left_proved = both.lower[0, :n] - sign * target[:n] * (1 + sign * rounding) >= 0
    right_proved = both.upper[0, n:] - sign * target[n:] * (1 - sign * rounding) <= 0
    return left_proved, right_proved


def _with_complement(
    low: FloatArray,
    high: FloatArray,
    log_scale: FloatArray,
    slope_low: FloatArray,
    slope_high: FloatArray,
    *,
    power_first: bool,
) -> Readings:
    """Return enclosures with the rows ln power, ln type II error, ln slope from bounds of one of both numbers.

    `low` and `high` bound the power (`power_first`) or the type II error on the scale e^log_scale. The other number is
    one minus this number. `slope_low` and `slope_high` bound ln slope. All arrays have the shape (n,).
    """
    log_low, log_high = logs_of(low, high, log_scale)
    other_low, other_high = complement(log_low, log_high)
    order = (0, 1) if power_first else (1, 0)
    lower, upper = np.empty((3, len(low))), np.empty((3, len(low)))
    lower[order[0]], upper[order[0]], lower[2] = log_low, log_high, slope_low
    lower[order[1]], upper[order[1]], upper[2] = other_low, other_high, slope_high
    return Readings(lower, upper)
