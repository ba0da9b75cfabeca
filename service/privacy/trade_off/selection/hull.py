"""Concave hulls of finitely many points in the plane."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray


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
