"""Gauss-Legendre rules whose small weights keep their relative accuracy."""

from __future__ import annotations

from functools import cache

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

PLACE_ERROR = 4 * UNIT_ROUNDOFF
WEIGHT_ERROR = 4 * UNIT_ROUNDOFF
"""Bounds of the absolute error of the places, and of the relative error of the weights over the number of nodes; tested
for all rules in use.
"""

_NEWTON_STEPS = 3


@cache
def gauss_legendre(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Places in (-1, 1), increasing, and weights, shape (nodes,), of an even number of nodes.

    Newton's method in y = 1 - x, and P_k by its differences D_k = P_k - P_{k-1}, (k + 1) D_{k+1} = k D_k - (2 k + 1) y
    P_k: near the end, where weights are small, nothing cancels. Weight 2 y (2 - y)/(n P_{n-1})^2.
    """
    right, _ = np.polynomial.legendre.leggauss(nodes)
    y = 1 - right[nodes // 2 :]
    before = y
    for _ in range(_NEWTON_STEPS):
        before, last = _last_two(nodes, y)
        slope = nodes * before / (y * (2 - y))  # P_n' at a root
        y = y + last / slope
    before, _ = _last_two(nodes, y)
    weights = 2 * y * (2 - y) / (nodes * before) ** 2
    return np.concatenate([(y - 1)[::-1], 1 - y]), np.concatenate([weights[::-1], weights])


def _last_two(degree: int, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P_{n-1} and P_n at 1 - y."""
    before, value, difference = np.ones_like(y), 1 - y, -y
    for k in range(1, degree):
        difference = (k * difference - (2 * k + 1) * y * value) / (k + 1)
        before, value = value, value + difference
    return before, value
