"""What a line says about points of the curve and about the profile, as proved enclosures of natural logarithms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.combinators.profile_points import proved_power

_NEWTON_STEPS = 60
_SMALL_RESIDUAL = 3e-8
"""Of ln of what is solved for; the last step squares it."""

_INTERPOLATED, _CELLS = 16, 20
"""So many levels begin by interpolation, on so many cells a deviation ..."""
_REACHES = (3, 6, 12)
"""... that reach so many deviations to either side of a line's centre: the first that hold all levels."""

_MARGINS = (4.0, 400.0, 1e5)
"""A root found on a line is proved from thresholds this many times its uncertainty to either side, tried in turn."""


_SMALLEST_RATE, _LARGEST_EXPONENT = 1e-250, 500.0
"""Where rates and e^c are doubles with room for products."""
_SECANTS = 1e-8
"""Relative width of the power that secants may leave: steers."""


@dataclass(frozen=True, slots=True)
class Integrals:
    """Enclosures of I0, I1, ID at thresholds c: `e^{log_scale} [lower, upper]`, arrays of shape (3, C).

    `density`: about that of the loss under H0, on the scale of I0, shape (C,).
    """

    log_scale: FloatArray
    lower: FloatArray
    upper: FloatArray
    density: FloatArray


class Line(Protocol):
    """What is read: a contour that crosses the real axis at `theta`, laid out for thresholds near `center`, for a loss
    (or its core) of about this `deviation`.

    Or as many contours as there are thresholds, all on the same side of the poles 0 and 1; the three are arrays (C,)
    then, and so many thresholds may be asked for again and again, one after the other.
    """

    @property
    def theta(self) -> float | FloatArray:
        """Where it crosses the real axis."""
        ...

    @property
    def center(self) -> float | FloatArray:
        """A threshold."""
        ...

    @property
    def deviation(self) -> float | FloatArray:
        """Of the loss."""
        ...

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Enclosures of I0, I1, ID at thresholds (C,)."""
        ...

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I0, I1, ID and the density of the loss under H0, shape (4, C), and ln of their scales, without bounds."""
        ...


def is_beyond(line: Line, pole: float) -> bool:
    """Whether all of it lies on the right of a pole."""
    return bool(np.all(np.greater(line.theta, pole)))


@dataclass(frozen=True, slots=True)
class Readings:
    """Enclosures of several quantities at n places: `lower <= truth <= upper`, arrays of shape (quantities, n).

    Points: ln power, ln type II error, ln slope. Profile: ln delta. All ends are intersections and only ever tighten.
    """

    lower: FloatArray
    upper: FloatArray

    def of(self, places: IndexArray) -> Readings:
        """Those of some places."""
        return Readings(self.lower[:, places], self.upper[:, places])

    def tighten(self, at: IndexArray, other: Readings) -> None:
        """Intersect the enclosures at the places `at` with others; NaN in these stands for nothing known.

        Raises NumericalFailure where the two do not meet: one of them is wrong.
        """
        lower = np.fmax(self.lower[:, at], other.lower)
        upper = np.fmin(self.upper[:, at], other.upper)
        if not (lower <= upper).all():
            raise NumericalFailure("two certified enclosures of one number do not meet")
        self.lower[:, at], self.upper[:, at] = lower, upper

    def width(self, rows: int = 2) -> FloatArray:
        """Largest relative width at each place, of power and type II error (`rows` 1: power alone), or of delta; shape
        (n,).
        """
        gap = self.lower[:rows] - self.upper[:rows]
        # Both ends infinite: the number is known to be 0.
        return np.max(-np.expm1(np.where(np.isnan(gap), 0.0, gap)), axis=0)


def nothing_known(n: int) -> Readings:
    """Readings of n points of which nothing is known: power and type II error at most 1."""
    result = Readings(np.full((3, n), -np.inf), np.full((3, n), np.inf))
    result.upper[:2] = 0.0
    return result


def read_points(line: Line, alpha: FloatArray) -> Readings:
    """ln power, ln type II error and ln slope at rates strictly between 0 and 1, by the inequalities of
    `contour/engine.py`.

    Unknown (power and type II error at most 1) where no threshold is found.
    """
    c = solve_tail(line, alpha)
    result = nothing_known(len(alpha))
    good = np.isfinite(c)
    if not good.any():
        return result
    at, every = np.flatnonzero(good), np.arange(len(alpha))
    c = np.where(good, c, line.center)
    for margin in _MARGINS:
        # A line of its own for each place is not asked without the others.
        asked = at if np.size(line.center) == 1 else every
        proved = _points_around(line, alpha[asked], c[asked], margin)
        proved = proved if len(asked) == len(at) else proved.of(at)
        result.tighten(at, proved)
        at = at[~(np.isfinite(proved.lower[2]) & np.isfinite(proved.upper[2]))]
        if len(at) == 0:
            break
    return result


def read_power_by_profile(line: Line, alpha: float, c: float) -> Readings:
    """ln power at one rate from the profile at thresholds around c alone, as one column of a point (the rest unknown).

    Where the power hardly exceeds the rate, both are large beside the profile D(c) = power(c) - e^c alpha(c), whose
    integral is the smallest and has the smallest error. The power is the least D(c) + e^c alpha, and secants of D bound
    it from below (`proved_power`). For lines with theta > 1.
    """
    result = nothing_known(1)
    if not (line.theta > 1 and math.isfinite(c) and alpha > _SMALLEST_RATE and c < _LARGEST_EXPONENT):
        return result
    here = np.array([c])
    integrals, (sums, log_scales) = line.integrals(here), line.approximate(here)
    error = math.exp(integrals.log_scale[2, 0]) * float(integrals.upper[2, 0] - integrals.lower[2, 0])
    density = math.exp(log_scales[3, 0] + c) * float(sums[3, 0])
    # The power bends by density unit^2/2 within a unit: secants leave about as much as the ends do.
    unit = math.sqrt(2 * max(error, _SECANTS * alpha) / density) if density > 0 else math.nan
    if not 0 < unit < 1:
        return result
    around = c + unit * np.arange(-4.0, 5.0)
    logs = read_profile(line, around)
    least, most, *_ = proved_power(alpha, around, logs.lower[0], logs.upper[0])
    # Logarithms of both ends, rounded.
    result.lower[0, 0] = math.log(least) - 4 * UNIT_ROUNDOFF * (1 + abs(math.log(least)))
    result.upper[0, 0] = min(math.log(most) + 4 * UNIT_ROUNDOFF * (1 + abs(math.log(most))), 0.0)
    return result


def _points_around(line: Line, alpha: FloatArray, c: FloatArray, margin: float) -> Readings:
    """Readings from the threshold c and two more, `margin` times its uncertainty to either side."""
    integrals = line.integrals(c)
    lower, upper, log_scale = integrals.lower, integrals.upper, integrals.log_scale
    # The rate (1 - alpha on lines left of the poles) on the scale of I0, with the rounding of its exponent.
    right = is_beyond(line, 0.0)
    level = np.log(alpha) if right else np.log1p(-alpha)
    target = np.exp(level - log_scale[0])
    slack = target * (4 * UNIT_ROUNDOFF * (np.abs(level) + np.abs(log_scale[0])) + 1e-15)
    # Where rates stand beside powers their scales are e^c apart but for roundings, which steep lines make large.
    with np.errstate(invalid="ignore"):
        apart = np.abs((log_scale[1] - log_scale[0]) - c) + 2 * UNIT_ROUNDOFF * np.abs(c)
        reach = np.minimum(np.maximum(np.abs(lower[0]), np.abs(upper[0])), 1e300)
        slack = slack + np.expm1(np.minimum(apart, 1.0)) * (target + reach) + np.where(apart < 1, 0.0, np.inf)
    sign = 1.0 if right else -1.0
    # (alpha(c) - alpha) on that scale.
    alpha_excess_low = lower[0] - sign * target - slack
    alpha_excess_high = upper[0] - sign * target + slack
    away = np.maximum(-alpha_excess_low, alpha_excess_high)  # what is not known, and what c misses
    spread = away / np.maximum(np.abs(integrals.density), 1e-300) + 4e-16 * np.abs(c)
    step = np.minimum(margin * spread, 5.0 / line.deviation)  # steers: any step is valid
    rounding = UNIT_ROUNDOFF * (16 + 4 * np.abs(level) + 4 * np.abs(log_scale[0]))
    left_proved, right_proved = _proved_sides(line, level, c, step, rounding)
    slope_low = np.where(left_proved, c - step, -np.inf)
    slope_high = np.where(right_proved, c + step, np.inf)
    steepest = np.where(right_proved, np.exp(np.where(right_proved, step, 0.0)) * (1 + 1e-15), np.inf)
    with np.errstate(invalid="ignore"):
        chord = np.where(alpha_excess_high > 0, alpha_excess_high * steepest, 0.0)
    if is_beyond(line, 1.0):
        low = lower[1] - chord
        high = np.minimum(upper[1] - alpha_excess_low, upper[2] + target + slack)
        return _with_complement(low, high, log_scale[1], slope_low, slope_high, power_first=True)
    low = -upper[1] + alpha_excess_low
    direct = -upper[2] - target - slack if right else target - slack - upper[2]
    high = -lower[1] + chord
    return _with_complement(np.maximum(low, direct), high, log_scale[1], slope_low, slope_high, power_first=False)


def _proved_sides(
    line: Line, level: FloatArray, c: FloatArray, step: FloatArray, rounding: FloatArray
) -> tuple[BoolArray, BoolArray]:
    """Whether alpha(c - step) >= alpha, and whether alpha(c + step) <= alpha, are proved.

    `level`: ln alpha, or ln(1 - alpha) where theta < 0; `rounding`: relative error of e^level on a line's scale.
    """
    n = len(c)
    both = line.integrals(np.concatenate([c - step, c + step]))
    sign = 1.0 if is_beyond(line, 0.0) else -1.0
    target = np.exp(np.concatenate([level, level]) - both.log_scale[0])
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
    """Rows ln power, ln beta, ln slope from the one of power and beta that the line gives directly, on its scale."""
    log_low, log_high = _logs(low, high, log_scale)
    other_low, other_high = complement(log_low, log_high)
    order = (0, 1) if power_first else (1, 0)
    lower, upper = np.empty((3, len(low))), np.empty((3, len(low)))
    lower[order[0]], upper[order[0]], lower[2] = log_low, log_high, slope_low
    lower[order[1]], upper[order[1]], upper[2] = other_low, other_high, slope_high
    return Readings(lower, upper)


def complement(log_low: FloatArray, log_high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Enclosure of ln(1 - x), from one of ln x <= 0 that was read on a line.

    The rounding of e^{ln x}, which matters where 1 - x is small, is inside the 1e-15 that the line adds to its scale's
    error; the slack here is for the logarithm.
    """
    with np.errstate(divide="ignore"):
        lower, upper = np.log1p(-np.exp(log_high)), np.log1p(-np.exp(log_low))
    return lower * (1 + 1e-15) - 4e-16, np.minimum(upper * (1 - 1e-15) + 4e-16, 0.0)


def _logs(low: FloatArray, high: FloatArray, log_scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """ln of a probability's ends given on the scale e^{log_scale}; what is not positive is unknown (0 below, 1 above).

    An upper end is raised to 1e-300 on that scale, where doubles lose their digits.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_low, log_high = np.log(np.maximum(low, 0.0)) + log_scale, np.log(np.maximum(high, 1e-300)) + log_scale
    log_low = np.where(np.isnan(log_low), -np.inf, log_low - 4 * UNIT_ROUNDOFF * (1 + np.abs(log_scale)))
    log_high = np.where(np.isnan(log_high), 0.0, log_high + 4 * UNIT_ROUNDOFF * (1 + np.abs(log_scale)))
    return np.minimum(log_low, 0.0), np.minimum(log_high, 0.0)


def read_profile(line: Line, epsilon: FloatArray) -> Readings:
    """ln delta at finite epsilons, from ID: delta, delta - 1 or delta - 1 + e^eps, by the side of the line."""
    integrals = line.integrals(epsilon)
    low, high = integrals.lower[2], integrals.upper[2]
    if is_beyond(line, 1.0):
        log_low, log_high = _logs(low, high, integrals.log_scale[2])
        return Readings(log_low[None], log_high[None])
    if is_beyond(line, 0.0):
        log_low, log_high = _logs(-high, -low, integrals.log_scale[2])
        lower, upper = complement(log_low, log_high)
        return Readings(lower[None], upper[None])
    # delta - 1 + e^eps may exceed 1, and its scale may overflow far above the line's range: then nothing is known.
    scale = np.exp(np.minimum(integrals.log_scale[2], 600.0))
    base = -np.expm1(np.minimum(epsilon, 700.0))
    # 16 u of everything added up, and of the exponent of the scale: expm1 and exp within 4 ulp, products and sums.
    size = 1 + np.abs(base) + np.abs(scale * low) + np.abs(scale * high)
    slack = 16 * UNIT_ROUNDOFF * size * (1 + np.abs(integrals.log_scale[2]))
    known = integrals.log_scale[2] < 600.0
    lower = np.where(known, np.log(np.clip(base + scale * low - slack, 0.0, 1.0)), -np.inf)
    upper = np.where(known, np.log(np.clip(base + scale * high + slack, 1e-300, 1.0)), 0.0)
    return Readings(lower[None] - 4e-16, np.minimum(upper + 4e-16, 0.0)[None])


def solve_tail(line: Line, alpha: FloatArray) -> FloatArray:
    """Thresholds c with P0(S > c) about alpha, by Newton's method on the logarithm of the tail; NaN where it fails."""
    upper = is_beyond(line, 0.0)
    level = np.log(alpha) if upper else np.log1p(-alpha)
    sign = 1.0 if upper else -1.0
    return _newton(line, _first_thresholds(line, sign, level), 0, sign, level)


def _first_thresholds(line: Line, sign: float, level: FloatArray) -> FloatArray:
    """Where to begin Newton's method: the line's centre, or for many levels by cubic interpolation of its tail."""
    x = c = slope = np.zeros(0)
    if len(level) >= _INTERPOLATED and np.size(line.center) == 1:
        for reach in _REACHES:
            x, c, slope = _tabulated(line, sign, reach)
            if len(x) > 1 and x[0] <= level.min() and level.max() <= x[-1]:
                break
    if len(x) < 2:
        return np.zeros(len(level)) + line.center
    cell = np.clip(np.searchsorted(x, level) - 1, 0, len(x) - 2)
    width = x[cell + 1] - x[cell]
    s = np.clip((level - x[cell]) / width, 0.0, 1.0)
    rest = 1 - s
    ends = c[cell] * rest**2 * (1 + 2 * s) + c[cell + 1] * s**2 * (1 + 2 * rest)
    return ends + width * s * rest * (slope[cell] * rest - slope[cell + 1] * s)


def _tabulated(line: Line, sign: float, reach: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """ln of the tail, thresholds and their derivatives by it, rising in the first."""
    grid = line.center + line.deviation * np.linspace(-reach, reach, 2 * reach * _CELLS + 1)
    with np.errstate(all="ignore"):
        sums, log_scale = line.approximate(grid)
        tail = np.log(sign * sums[0]) + log_scale[0]
        slope = -sums[0] / sums[3]
    usable = np.flatnonzero(np.isfinite(tail) & np.isfinite(slope))
    order = usable[np.argsort(tail[usable])]
    return tail[order], grid[order], slope[order]


def solve_profile(line: Line, delta: FloatArray) -> FloatArray:
    """Thresholds c with delta(c) about delta on a line with theta > 0; NaN where the search fails."""
    far = is_beyond(line, 1.0)
    level = np.log(delta) if far else np.log1p(-delta)
    return _newton(line, np.zeros(len(delta)) + line.center, 2, 1.0 if far else -1.0, level)


def _newton(line: Line, c: FloatArray, row: int, sign: float, level: FloatArray) -> FloatArray:
    """Solve ln(sign I_row(c)) = level, row 0 or 2; dI0/dc is minus the density, and dID/dc is -e^c I0.

    A step is at most four deviations. Both fall in c: what lies beyond the values known on either side is halved
    instead, for laws between whose atoms the density is next to nothing. NaN where the residual stays above 1e-6 and
    the interval did not close; the last step squares a small residual. Of many thresholds of one line those that are
    found are left alone.
    """
    slope_row = 3 if row == 0 else 0
    largest = 4 * line.deviation
    residual = np.full(len(c), np.inf)
    low, high = np.full(len(c), -np.inf), np.full(len(c), np.inf)
    found, at, alone = c.copy(), np.arange(len(c)), np.size(line.center) == 1
    with np.errstate(all="ignore"):
        for _ in range(_NEWTON_STEPS):
            here, below, above = found[at], low[at], high[at]
            sums, log_scale = line.approximate(here)
            value = sign * sums[row]
            difference = np.log(value) + log_scale[row] - level[at]
            hazard = sign * sums[slope_row] / value
            # A value that is not positive is rounding about 0: the tail of the level lies on the other side.
            beyond = sign * np.where(value > 0, difference, -np.inf) > 0
            below, above = np.where(beyond, np.fmax(below, here), below), np.where(beyond, above, np.fmin(above, here))
            move = np.where(value > 0, difference / hazard, -sign * largest)
            move = np.clip(np.where(np.isnan(move), 0.0, move), -largest, largest)
            rest = np.abs(move * hazard)
            outside = (rest > _SMALL_RESIDUAL) & ((here + move <= below) | (here + move >= above))
            halved = outside & np.isfinite(below) & np.isfinite(above)
            found[at] = np.where(halved, 0.5 * (below + above), here + move)
            low[at], high[at], residual[at] = below, above, rest
            left = (rest > _SMALL_RESIDUAL) & (above - below > 1e-15 * np.abs(found[at]))
            if not left.any():
                break
            at = at[left] if alone else at
        return np.where((residual < 1e-6) | (high - low < 1e-12 * line.deviation), found, np.nan)


def prove_root(line: Line, threshold: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Proved ends around approximate roots `threshold` of delta(eps) = delta; NaN where the line cannot.

    Thresholds below 0 are cut off: the answer is the least eps >= 0.
    """
    level = np.log(delta)
    slack = 1e-15 * (1 + np.abs(level))  # the rounding of ln delta, many times over
    lower, upper = np.full_like(level, np.nan), np.full_like(level, np.nan)
    for margin in _root_margins(line, threshold):
        left, right = np.maximum(threshold - margin, 0.0), threshold + margin
        proved = read_profile(line, np.concatenate([left, right]))
        above = (left == 0) | (proved.lower[0, : len(level)] >= level + slack)
        found = np.isnan(lower) & above & (proved.upper[0, len(level) :] <= level - slack)
        lower, upper = np.where(found, left, lower), np.where(found, right, upper)
        if not np.isnan(lower).any():
            break
    return lower, upper


def _root_margins(line: Line, threshold: FloatArray) -> Iterator[FloatArray]:
    """Distances from approximate roots of the profile within which its true roots should lie, smallest first."""
    integrals = line.integrals(threshold)
    sums, _ = line.approximate(threshold)
    width = integrals.upper[2] - integrals.lower[2]
    spread = width / np.maximum(np.abs(sums[0]), 1e-300) + 4e-16 * np.abs(threshold)
    for margin in _MARGINS:
        yield margin * spread
