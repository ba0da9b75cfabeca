"""Gauss-Legendre rules whose small weights keep their relative accuracy."""

from __future__ import annotations

from functools import cache

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

PLACE_ERROR = 4 * UNIT_ROUNDOFF
WEIGHT_ERROR = 4 * UNIT_ROUNDOFF
"""Bounds of the absolute error of the nodes, and of the relative error of the weights divided by the number of nodes.

Both are tested for all rules in use.
"""

_NEWTON_STEPS = 3


@cache
def gauss_legendre(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Compute nodes and weights of a Gauss-Legendre rule on (-1, 1).

    Parameters
    ----------
    nodes : int
        Even number of nodes.

    Returns
    -------
    (array, array)
        Nodes in increasing order, and weights, both of shape (nodes,).

    Notes
    -----
    The roots are found by Newton's method in y = 1 - x. P_k is computed from its differences D_k = P_k - P_{k-1} by (k
    + 1) D_{k+1} = k D_k - (2 k + 1) y P_k. Nothing cancels near the endpoints, where the weights 2 y (2 - y)/(n
    P_{n-1})^2 are small.
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
    """Return the Legendre polynomials of degrees n - 1 and n at 1 - y, in the shape of y; n is `degree`."""
    before, value, difference = np.ones_like(y), 1 - y, -y
    for k in range(1, degree):
        difference = (k * difference - (2 * k + 1) * y * value) / (k + 1)
        before, value = value, value + difference
    return before, value
