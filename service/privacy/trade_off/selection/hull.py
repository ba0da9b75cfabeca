"""Concave hulls of finitely many points in the plane."""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.trade_off.selection.nodes import ROUNDING

SWEEPS: Final = 24
"""Largest number of sweeps over arrays before the pass over the remaining points."""
SPACING: Final = 0.01
"""Smallest difference of the log slopes of the edges that are kept; more for slopes beyond FAR."""
FAR: Final = 3.0
NARROWEST: Final = 1e-4
"""Smallest range of log slopes with a proportional smallest difference."""


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


def thinned(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rises and log slopes of edges of a hull above the concave polygon through (x, y), from (0, 0).

    Edges whose log slope is within a spacing of that of the last kept edge are omitted, and their neighbours extended
    until they meet. The spacing is a share of the range of log slopes. Rises are in y, and slopes are dy/dx.
    """
    run, rise = np.diff(x), np.diff(y)
    with np.errstate(divide="ignore"):
        logs = np.where(run > 0, np.log(rise) - np.log(np.where(run > 0, run, 1.0)), np.inf)
    kept = [0]
    spacing = SPACING * min(1.0, max(_spread(logs[rise > 0]), NARROWEST))
    for edge in range(1, len(logs)):
        if rise[edge] > 0 and logs[edge] < logs[kept[-1]] - spacing * max(1.0, abs(logs[edge]) / FAR):
            kept.append(edge)
    heights = [0.0]
    for first, second in itertools.pairwise(kept):
        # Both edges go through vertices of the polygon; the first may be vertical.
        ratio = math.exp(logs[second] - logs[first])
        line = y[second] - (x[second] - x[first + 1]) * math.exp(logs[second])
        height = (line - ratio * y[first + 1]) / (1 - ratio) + ROUNDING / spacing * y[second]
        heights.append(min(max(height, heights[-1]), float(y[-1])))
    # The last edge rises up to the height of the polygon.
    heights.append(float(y[-1]))
    return np.diff(heights), logs[kept]


def _spread(logs: FloatArray) -> float:
    """Return the difference of the largest and the smallest finite number in `logs`."""
    finite = logs[np.isfinite(logs)]
    return float(finite.max() - finite.min()) if finite.size else 0.0


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
    """Return the indices of the vertices of the concave hull of the points (x, y), from one pass over all points."""
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
