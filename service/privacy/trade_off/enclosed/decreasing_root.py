"""Certified roots: the point where a decreasing function, such as a privacy profile, reaches a level."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work, is_spent
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.enclosed.ulps import above, below

EnclosedFunction = Callable[[FloatArray], EnclosureArray]
FIRST = np.linspace(0.0, 1.0, 20)
"""Points of the first round, in widths of the interval. Many points cost little more than one point."""
INNER = np.linspace(0.0, 1.0, 5)
NEAR = np.array([-32.0, -8.0, -2.0, 2.0, 8.0, 32.0])
"""Points of later rounds around the interpolated root, in units of the error of the root from rounding noise."""
FAR = np.array([-1e-2, -1e-4, -1e-7, 1e-7, 1e-4, 1e-2])
"""Points of later rounds around the interpolated root, in widths of the bracket."""
MOST_ROUNDS = 60
A_ROUND = 100.0
"""Approximate work of a round without its evaluations, in microseconds."""
MOST_WIDENINGS = 8
CLOSE_ENOUGH = 20.0
"""Width of the enclosure, in units of the noise, at which the search stops."""


def decreasing_root(
    function: EnclosedFunction, level: float, low: float, high: float, evidence: Evidence = Evidence.EXACT
) -> Enclosure:
    """Enclose the smallest x in [low, high] with function(x) <= level, for a decreasing function.

    Parameters
    ----------
    function : callable
        Returns enclosures of the function, with values in [0, 1], at an array of points.
    level : float
        In (0, 1).
    low, high : float
        The true function satisfies function(low) > level >= function(high). The enclosures need not show this.
    evidence : Evidence
        The evidence of `function`.

    Returns
    -------
    Enclosure
        The root. Each bound is `low`, `high` or a point whose enclosure proves on which side of the root it lies.
    """
    target = math.log(level)
    slack = 4 * UNIT_ROUNDOFF * (1 - target)
    left, right = low, high  # proved
    points = low + FIRST * (high - low)
    stalled = 0
    for _ in range(MOST_ROUNDS):
        count_work(A_ROUND)
        lower, upper = log_ends(function(points))
        lower, upper = lower - target, upper - target
        width = right - left
        left = max([left, *points[lower >= slack].tolist()])
        right = min([right, *points[upper <= -slack].tolist()])
        stalled = stalled + 1 if right - left > 0.5 * width else 0
        values = np.where(lower > -np.inf, 0.5 * (lower + upper), upper)
        index = int(np.argmax(values <= 0))
        if values[index] > 0 or index == 0:
            # Noise hides the crossing next to one end of the grid.
            end = 0 if values[index] <= 0 else len(points) - 1
            low, high, guess = left, right, float(points[end])
            noise = 2 * math.ulp(max(abs(low), abs(high)))
        else:
            low, high = max(float(points[index - 1]), left), min(float(points[index]), right)
            guess = _interpolated(points.tolist(), values.tolist(), index, low, high)
            spread = float(upper[index - 1]) - float(lower[index - 1])
            noise = _noise(points, values, spread, index)
        if right - left <= CLOSE_ENOUGH * noise or stalled == 3 or is_spent():
            break
        span = high - low
        candidates = np.concatenate((guess + NEAR * noise, guess + FAR * span, low + INNER * span))
        points = np.sort(np.minimum(np.maximum(candidates, left), right))
    return Enclosure(left, right, evidence)


def decreasing_root_near(
    log_end: Callable[[float, int], float], level: float, guess: float, radius: float, high: float
) -> Enclosure | None:
    """Enclose the root of a decreasing function in [0, high] near a good guess, with a few evaluations.

    Parameters
    ----------
    log_end : callable
        Given (point, side), returns the lower (side -1) or upper (1) bound of the logarithm of the function there.
    level : float
        In (0, 1).
    guess : float
        An approximate root.
    radius : float
        Distance of the first two points from the guess. It is doubled a few times until both sides are proved.
    high : float
        A known upper bound of the root.

    Returns
    -------
    Enclosure or None
        The root. None if a side is not proved within MOST_WIDENINGS distances.
    """
    target = math.log(level)
    slack = 4 * UNIT_ROUNDOFF * (1 - target)
    left = right = None
    for _ in range(MOST_WIDENINGS):
        if left is None:
            left = below(guess - radius)
            left = 0.0 if left <= 0 else left if log_end(left, -1) >= target + slack else None
        if right is None:
            right = above(guess + radius)
            right = high if right >= high else right if log_end(right, 1) <= target - slack else None
        if left is not None and right is not None:
            return Enclosure(left, right, Evidence.EXACT)
        radius = 2 * radius
    return None


def increasing_root(
    function: EnclosedFunction, level: float, low: float, high: float, evidence: Evidence = Evidence.EXACT
) -> Enclosure:
    """Enclose the largest x in [low, high] with function(x) <= level, for an increasing function.

    Parameters
    ----------
    function : callable
        Returns enclosures of the function, with values in [0, 1], at an array of points.
    level : float
        In (0, 1).
    low, high : float
        The true function satisfies function(low) <= level < function(high). The enclosures need not show this.
    evidence : Evidence
        The evidence of `function`.

    Returns
    -------
    Enclosure
        The root. Each bound is `low`, `high` or a point whose enclosure proves on which side of the root it lies.
    """
    mirrored = decreasing_root(lambda points: function(-points), level, -high, -low, evidence)
    return -mirrored


def _noise(points: FloatArray, values: FloatArray, spread: float, index: int) -> float:
    """Return the possible error of a root, from the width of enclosures over the slope between two points.

    The result is in the unit of the points. The function has the `values` at the `points`, and `spread` is the width of
    its enclosures. `index` is the index of the point after the root. The result is at least two units in the last
    place.
    """
    floor = 2 * math.ulp(float(points[index]))
    drop = float(values[index - 1] - values[index])
    if not (math.isfinite(drop) and math.isfinite(spread)) or drop <= 0:
        return floor
    return max(floor, spread * float(points[index] - points[index - 1]) / drop)


def _interpolated(grid: list[float], readings: list[float], index: int, low: float, high: float) -> float:
    """Return the root of a function between grid[index - 1] and grid[index] by inverse interpolation, or the midpoint.

    `readings` are the values of the function on `grid`. The interpolation is Neville's, of the argument as a function
    of the value. The midpoint of `low` and `high` serves where the result is not between both.
    """
    chosen = _spread_out(grid, index)
    points, values = [grid[at] for at in chosen], [readings[at] for at in chosen]
    if all(map(math.isfinite, values)) and len(set(values)) == len(values):
        for level in range(1, len(points)):
            for at in range(len(points) - level):
                before, after = values[at], values[at + level]
                points[at] = (points[at + 1] * before - points[at] * after) / (before - after)
        if low < points[0] < high:
            return points[0]
    return 0.5 * (low + high)


def _spread_out(grid: list[float], index: int) -> list[int]:
    """Return indices of up to three points of `grid` on either side of the gap before `index`.

    Successive points on one side are at least half of the gap apart, so that errors of their values matter less.
    """
    apart = 0.5 * (grid[index] - grid[index - 1])
    before, after = [index - 1], [index]
    for at in range(index - 2, -1, -1):
        if len(before) < 3 and grid[before[0]] - grid[at] >= apart:
            before.insert(0, at)
    for at in range(index + 1, len(grid)):
        if len(after) < 3 and grid[at] - grid[after[-1]] >= apart:
            after.append(at)
    return before + after
