"""Polynomials on [0, 1] in Bernstein form, B_{r,n}(t) = C(n, r) t^r (1 - t)^{n-r}, with non-negative coefficients.

All functions add and multiply non-negative numbers only, so results keep their relative accuracy. u is 2^-53. Arrays of
coefficients have shape (polynomials, n + 1).
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray

SERIES_GOAL = 60 * math.log(2)
"""Nats below its first term at which a series of positive terms is truncated."""


def moving_integrals(pieces: FloatArray) -> FloatArray:
    """Compute the integral of a piecewise polynomial over [x - 1, x].

    Parameters
    ----------
    pieces : array, shape (pieces, n + 1)
        Bernstein coefficients; row m is the polynomial on [m, m + 1]. Left of the first piece the function is 0.

    Returns
    -------
    array, shape (pieces, n + 2)
        Bernstein coefficients of the integral, with a relative error below (n + 4) u (u = 2^-53) for coefficients >= 0.

    Notes
    -----
    At the position t of a piece, the integral is that of the piece up to t plus that of the piece to the left from t
    on. Both integrals are running sums of the coefficients, divided by n + 1.
    """
    count, size = pieces.shape
    result = np.zeros((count, size + 1))
    np.cumsum(pieces, axis=1, out=result[:, 1:])
    result[1:, :size] += np.cumsum(pieces[:-1, ::-1], axis=1)[:, ::-1]
    return result / size


def right_parts(pieces: FloatArray, start: FloatArray) -> FloatArray:
    """Compute the coefficients in x of p(t + (1 - t) x), the part of each polynomial right of t (de Casteljau).

    Parameters
    ----------
    pieces : array, shape (pieces, n + 1)
        Bernstein coefficients, one polynomial p in each row.
    start : array, shape (pieces,)
        t in [0, 1] of each polynomial.

    Returns
    -------
    array, shape (pieces, n + 1)
        Bernstein coefficients; the first one is p(t). The relative error is below 3 n u (u = 2^-53), if 1 - t is exact.
    """
    result, share = pieces.copy(), start[:, None]
    rest = 1 - share
    for last in range(pieces.shape[1] - 1, 0, -1):
        result[:, :last] = rest * result[:, :last] + share * result[:, 1 : last + 1]
    return result


def series_length(x: float) -> int:
    """Return the number of terms of the power series of e^x that are needed at `x` >= 0.

    The omitted terms add up to less than 2^-58 of the first two terms.
    """
    length = math.ceil(2 * x) + 2
    while (length - 1) * math.log(max(x, 5e-324)) - math.lgamma(length + 1) > -SERIES_GOAL:
        length += 1
    return length


def hyperbolic_moments(degree: int, x: FloatArray, terms: int) -> tuple[FloatArray, FloatArray]:
    """Compute int_0^1 cosh(x t) B_{r,n}(t) dt and int_0^1 sinh(x t) B_{r,n}(t) dt for every r.

    Parameters
    ----------
    degree : int
        n of the Bernstein polynomials.
    x : array, shape (m,)
        Arguments, x >= 0.
    terms : int
        Number of terms, at least `series_length` of the largest x.

    Returns
    -------
    arrays, shape (m, n + 1)
        The moments with cosh, then those with sinh, with a relative error below 4 `terms` u, u = 2^-53. B_{r,n} are the
        Bernstein polynomials of degree n.

    Notes
    -----
    The moments are the sums of x^k/k! (r + 1)_k/((n + 1) (n + 2)_k) over even and over odd k.
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
