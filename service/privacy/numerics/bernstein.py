"""Polynomials on [0, 1] in Bernstein form, B_{r,n}(t) = C(n, r) t^r (1 - t)^{n-r}, with coefficients >= 0.

Everything here adds and multiplies non-negative numbers only, so results keep their relative accuracy. Arrays of
coefficients have shape (polynomials, n + 1).
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray

SERIES_GOAL = 60 * math.log(2)
"""Nats below its first term at which a series of positive terms ends."""


def moving_integrals(pieces: FloatArray) -> FloatArray:
    """The integral of a piecewise polynomial over [x - 1, x], row m its piece on [m, m + 1]; what lies left of the
    first piece is 0. Shape (pieces, n + 2); relative error below (n + 4) u.

    On a piece it is the integral of that piece up to t plus that of the piece before from t on: running sums of the
    coefficients, over n + 1.
    """
    count, size = pieces.shape
    result = np.zeros((count, size + 1))
    np.cumsum(pieces, axis=1, out=result[:, 1:])
    result[1:, :size] += np.cumsum(pieces[:-1, ::-1], axis=1)[:, ::-1]
    return result / size


def right_parts(pieces: FloatArray, start: FloatArray) -> FloatArray:
    """Coefficients of p(t + (1 - t) x) in x, each piece with its own t = start in [0, 1] (de Casteljau). The first is
    p(t). Relative error below 3 n u, 1 - t taken as exact.
    """
    result, share = pieces.copy(), start[:, None]
    rest = 1 - share
    for last in range(pieces.shape[1] - 1, 0, -1):
        result[:, :last] = rest * result[:, :last] + share * result[:, 1 : last + 1]
    return result


def series_length(x: float) -> int:
    """Terms of the series of e^x, x >= 0, after which all that follow add up to less than 2^-58 of the first two."""
    length = math.ceil(2 * x) + 2
    while (length - 1) * math.log(max(x, 5e-324)) - math.lgamma(length + 1) > -SERIES_GOAL:
        length += 1
    return length


def hyperbolic_moments(degree: int, x: FloatArray, terms: int) -> tuple[FloatArray, FloatArray]:
    """int_0^1 cosh(x t) B_{r,n}(t) dt and the same with sinh, shape (x, n + 1), x >= 0.

    sum_k x^k/k! (r + 1)_k/((n + 1) (n + 2)_k) over even and over odd k; relative error below 4 `terms` u with `terms`
    at least `series_length` of the largest x.
    """
    r = np.arange(degree + 1.0)
    term = np.full((len(x), degree + 1), 1.0 / (degree + 1))
    even, odd = term.copy(), np.zeros_like(term)
    for k in range(1, terms):
        term = term * ((x / k)[:, None] * ((r + k) / (degree + 1 + k)))
        if k % 2:
            odd += term
        else:
            even += term
    return even, odd
