"""Concave hulls of finitely many points in the plane."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray

SWEEPS: Final = 24
"""Largest number of sweeps over arrays before the pass over the remaining points."""


def upper_hull(x: FloatArray, y: FloatArray) -> IndexArray:
    """Return the indices of the points on the least concave function above all points, in order.

    Parameters
    ----------
    x, y : array of shape (n,)
        Coordinates of the points, with rising `x`.

    Returns
    -------
    array of int
        Indices of the vertices. The first point is one of them, so that the first edge may be vertical.

    Notes
    -----
    Slopes are compared in doubles. A point that rounding omits lies at most a few units of rounding above the result.
    """
    left, is_complete = _without_low_points(x, y)
    return left if is_complete else left[_scanned(x[left], y[left])]


def _without_low_points(x: FloatArray, y: FloatArray) -> tuple[IndexArray, bool]:
    """Return the indices of the points that remain after sweeps over all points, and whether they are all vertices.

    A point is low if it is not above the chord of its neighbours. A sweep omits every second low point at most, so that
    the neighbours of an omitted point remain in this sweep.
    """
    left = np.arange(len(x))
    for sweep in range(SWEEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.diff(y[left]) / np.diff(x[left])
        finite = np.isfinite(slope)
        low = (slope[:-1] <= slope[1:]) & finite[:-1] & finite[1:]
        if not low.any():
            return left, bool(finite.all())
        low[sweep % 2 :: 2] = False
        left = left[np.concatenate(([True], ~low, [True]))]
    return left, False


def _scanned(x: FloatArray, y: FloatArray) -> IndexArray:
    """Return the indices of the vertices, from one pass over all points."""
    kept, slopes = [0], [math.inf]
    xs, ys = x.tolist(), y.tolist()
    for at in range(1, len(xs)):
        if xs[at] == xs[kept[-1]] and ys[at] <= ys[kept[-1]]:
            continue
        slope = _slope(xs, ys, kept[-1], at)
        while len(kept) > 1 and slope >= slopes[-1]:
            kept.pop()
            slopes.pop()
            slope = _slope(xs, ys, kept[-1], at)
        kept.append(at)
        slopes.append(slope)
    return np.asarray(kept, dtype=np.intp)


def _slope(x: list[float], y: list[float], first: int, second: int) -> float:
    run = x[second] - x[first]
    return (y[second] - y[first]) / run if run > 0 else math.inf
