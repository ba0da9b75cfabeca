"""Minimum of a convex function that is enclosed at points.

Let f be convex with low <= f <= high at x_0 < ... < x_{n-1}. The line through (x_{i-1}, high) and (x_i, low) is below f
to the right of x_i: its value at x_{i-1} is at least that of f, and its value at x_i is at most that of f. The same
holds to the left of x_i for the line through (x_{i+1}, high) and (x_i, low). On a cell between two points f is above
the line from its left, above the line from its right, and above every mean of the two lines. A bound on a cell is the
smaller value at its endpoints of one of these three: the left line, the right line, and the mean that is level. So a
kink inside a cell costs nothing.

A function F(x) = (t - f(x))/x, x > 0, has the maximum -min H, where H(y) = y f(1/y) - t y is convex in y = 1/x.
"""

from __future__ import annotations

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


def minimiser(c: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the interval in which a function that falls and then rises is proved to have its minimum.

    Parameters
    ----------
    c : array, shape (..., n)
        Points, rising along the last axis.
    low, high : array, shape (..., n)
        Bounds of the function.

    Returns
    -------
    (array, array)
        Last c at which the function is proved to fall, and first c at which it is proved to rise, shape (...). They are
        minus infinity and infinity where nothing is proved.
    """
    falls, rises = low[..., :-1] > high[..., 1:], low[..., 1:] > high[..., :-1]
    return np.where(falls, c[..., :-1], -np.inf).max(axis=-1), np.where(rises, c[..., 1:], np.inf).min(axis=-1)


@np.errstate(all="ignore")
def convex_minimum(x: FloatArray, low: FloatArray, high: FloatArray, margin: float) -> FloatArray:
    """Return a lower bound of the minimum of a convex function over all x, from enclosures at points.

    Parameters
    ----------
    x, low, high : array
        Points, rising along the last axis, and enclosures of the function; shape (..., n), n >= 3.
    margin : float
        Factor >= 1 that covers the rounding of the ratio of two neighbouring differences of x, and of a product.

    Returns
    -------
    array
        Shape (...). Minus infinity where the function is not proved to fall to the second point and to rise from the
        last but one, where points coincide, and where something is not a number.
    """
    middle, widths = low[..., 1:-1], np.diff(x, axis=-1)
    ratio, rounding = widths[..., 1:] / widths[..., :-1], 2 * UNIT_ROUNDOFF * np.abs(middle)
    fall, rise = high[..., :-2] - middle, high[..., 2:] - middle
    # Values of the lines that end at an inner point: at the next point, and at the point before.
    onward = middle - fall * ratio * np.where(fall > 0, margin, 1 / margin) - rounding
    back = middle - rise / ratio * np.where(rise > 0, margin, 1 / margin) - rounding
    right_of, left_of = np.minimum(middle, onward), np.minimum(middle, back)
    left, right = middle[..., :-1], middle[..., 1:]
    lost, gained = left - right_of[..., :-1], right - left_of[..., 1:]
    share = gained / (lost + gained)
    level = np.minimum(
        share * left + (1 - share) * left_of[..., 1:], share * right_of[..., :-1] + (1 - share) * right
    ) - 8 * UNIT_ROUNDOFF * (np.abs(left) + np.abs(right) + lost + gained)
    inner = np.fmax(np.maximum(right_of[..., :-1], left_of[..., 1:]), level).min(axis=-1, initial=np.inf)
    least = np.minimum(inner, np.minimum(left_of[..., 0], right_of[..., -1]))
    sound = (low[..., 0] >= high[..., 1]) & (low[..., -1] >= high[..., -2]) & (widths > 0).all(axis=-1)
    return np.where(sound & ~np.isnan(least), least, -np.inf)
