"""Points e^{ikx} of the unit circle and Fourier sums over equally spaced nodes.

The points are computed without the first terms of their Taylor series, so that small x cause no cancellation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import count_work

ComplexArray = NDArray[np.complex128]

_A_CALL, _A_PRODUCT, _AN_EXPONENTIAL = 600.0, 6e-4, 1e-2
"""Work in microseconds. That of a call includes the use of its results."""

_SMALL_PHASE = 0.8
"""Largest |x| at which sin x - x is computed by its power series.

The truncation is below 4e-13 of the result (below 5e-15 for |x| < 0.55).
"""


def multiples(phase: FloatArray, count: int) -> tuple[ComplexArray, ComplexArray]:
    """Compute E(kx) = e^{ikx} - 1 and E'(kx) = E(kx) - ikx for k = 0..count-1.

    Parameters
    ----------
    phase : array, shape (..., 1, n)
        Phases x.
    count : int
        Number of multiples.

    Returns
    -------
    full, rest : complex arrays, shape (..., count, n)
        E and E', with a rounding error of about 4 k u at k, u = 2^-53.

    Notes
    -----
    The addition theorem E((j+m)x) = E(jx) + E(mx) + E(jx) E(mx) holds for E' as well, if the last term keeps E. Nothing
    cancels for small x. Each step doubles the number of known multiples.
    """
    full = np.empty((*phase.shape[:-2], count, phase.shape[-1]), dtype=np.complex128)
    rest = np.empty_like(full)
    full[..., 0, :] = rest[..., 0, :] = 0.0
    if count > 1:
        full[..., 1, :], rest[..., 1, :] = _unit_circle(phase[..., 0, :])
    known = 2
    while known < count:
        last, new = known - 1, min(known - 1, count - known)
        earlier, places = slice(1, new + 1), slice(known, known + new)
        product = full[..., earlier, :] * full[..., last : last + 1, :]
        for found in (full, rest):
            np.add(found[..., earlier, :], found[..., last : last + 1, :], out=found[..., places, :])
            found[..., places, :] += product
        known += new
    return full, rest


_MANY_POINTS = 16
"""Number of points from which multiplication is faster than exponentials."""

_AT_ONCE = 512
"""Number of points whose arrays fit into the cache of a processor."""


class FourierSums:
    """Fourier sums sum_k W_k e^{-ikhx} for several sequences W at many x, on several contours with one step h each.

    Notes
    -----
    The nodes are arranged in rows of `width` nodes, with one matrix product for each row. With k = a width + b only the
    factors e^{-iahx width} and e^{-ihbx} are computed: 2 sqrt(n) exponentials instead of n. For many x these factors
    are powers. Each multiplication adds 3 u of the product and 2 u for the error of the first factor.

    A real sum of m products has an error of at most m u of the sizes of its terms, in any order. A sum of `width`
    complex products is two real sums of 2 width products. The outer sums need only the real part. `rounding` is the
    total in units of u sum |W|, u = 2^-53. The total does not include the rounding of the phases hkx.
    """

    def __init__(self, weights: ComplexArray, step: FloatArray) -> None:
        """Store `weights` W, shape (sequences, contours, nodes), and the distance `step` of nodes, shape (contours,).

        The sums are those of the class docstring.
        """
        sequences, lines, nodes = weights.shape
        self._width = max(1, math.isqrt(nodes))
        self._rows = -(-nodes // self._width)
        padded = np.zeros((sequences, lines, self._rows * self._width), dtype=np.complex128)
        padded[:, :, :nodes] = weights
        # Shape (contours, width, rows * sequences), so that one matrix product per contour does all inner sums.
        arranged = padded.reshape(sequences, lines, self._rows, self._width).transpose(1, 3, 2, 0)
        self._weights = np.ascontiguousarray(arranged).reshape(lines, self._width, self._rows * sequences)
        places = step[:, None] * np.arange(self._width, dtype=np.float64)
        self._inner: ComplexArray = np.asarray(-1j * places, dtype=np.complex128)
        rows = step[:, None] * self._width * np.arange(self._rows, dtype=np.float64)
        self._outer: ComplexArray = np.asarray(-1j * rows, dtype=np.complex128)

    def rounding(self, points: int) -> int:
        """Return an upper bound of the absolute rounding error of each of the sums at `points` values of x.

        The unit is 2^-53 times the sum of |W_k| over the weights W_k of a sum.
        """
        powers = 5 * (self._width + self._rows) if points >= _MANY_POINTS else 0
        return 3 * self._width + 2 * self._rows + 8 + powers

    def real(self, x: FloatArray) -> FloatArray:
        """Compute the real parts of the sums sum_k W_k e^{-ikhx}.

        X is the number of arguments of each contour.

        Parameters
        ----------
        x : array, shape (X, contours)
            Arguments of each contour.

        Returns
        -------
        array, shape (sequences, X, contours)
            Real parts. `rounding` bounds their error.
        """
        each = _A_PRODUCT * self._weights.size + _AN_EXPONENTIAL * (self._inner.size + self._outer.size)
        count_work(_A_CALL + len(x) * each)
        if len(x) > _AT_ONCE:
            pieces = [self._real(x[first : first + _AT_ONCE]) for first in range(0, len(x), _AT_ONCE)]
            return np.concatenate(pieces, axis=1)
        return self._real(x)

    def _real(self, x: FloatArray) -> FloatArray:
        turns = _powers if len(x) >= _MANY_POINTS else _exponentials
        inner = np.matmul(turns(x.T, self._inner), self._weights)
        outer = turns(x.T, self._outer)
        inner = inner.reshape(*outer.shape, -1)
        return np.matmul(outer[:, :, None], inner)[:, :, 0].real.transpose(2, 1, 0)


def _exponentials(x: FloatArray, phases: ComplexArray) -> ComplexArray:
    """Return the numbers e^{x phase} for each contour, shape (contours, X, n).

    `x` has the shape (contours, X), and `phases` (contours, n). X is the number of arguments of each contour.
    """
    return np.exp(x[:, :, None] * phases[:, None])


def _powers(x: FloatArray, phases: ComplexArray) -> ComplexArray:
    """Return the numbers e^{x phase} for each contour, shape (contours, X, n), as powers.

    `x` has the shape (contours, X), and `phases` (contours, n) are the multiples 0, 1, 2, ... of a base phase. X is the
    number of arguments of each contour.
    """
    count = phases.shape[1]
    found = np.ones((count, *x.shape), dtype=np.complex128)
    if count > 1:
        first = np.exp(x * phases[:, 1:2])
        for k in range(1, count):
            np.multiply(found[k - 1], first, out=found[k])
    return found.transpose(1, 2, 0)


def _unit_circle(phase: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """Return e^{ix} - 1 and e^{ix} - 1 - ix for x = `phase`, without cancellation for small x."""
    full = np.empty(phase.shape, dtype=np.complex128)
    full.real = -2 * np.sin(0.5 * phase) ** 2
    full.imag = np.sin(phase)
    small = np.abs(phase) < _SMALL_PHASE
    square = np.where(small, phase, 0.0) ** 2
    nested = 1 - square / 42 * (1 - square / 72 * (1 - square / 110 * (1 - square / 156 * (1 - square / 210))))
    rest = full.copy()
    rest.imag = np.where(small, -phase * square / 6 * (1 - square / 20 * nested), full.imag - phase)
    return full, rest
