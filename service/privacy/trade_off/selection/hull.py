"""Concave hulls of finitely many points in the plane."""

from __future__ import annotations

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray


def upper_hull(x: FloatArray, y: FloatArray) -> IndexArray:
    """Return the indices of the points on the least concave function above all points, for rising `x`, in order.

    Points that the rounding of a comparison omits lie at most a few units of rounding above the result.
    """
    kept: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for at in range(len(xs)):
        if kept and xs[at] == xs[kept[-1]]:
            if ys[at] <= ys[kept[-1]]:
                continue
            kept.pop()
        while len(kept) > 1:
            i, j = kept[-2], kept[-1]
            if (ys[j] - ys[i]) * (xs[at] - xs[j]) > (ys[at] - ys[j]) * (xs[j] - xs[i]):
                break
            kept.pop()
        kept.append(at)
    return np.asarray(kept, dtype=np.intp)
