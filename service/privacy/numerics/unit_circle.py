"""Points e^{ikx} of the unit circle less their first terms, without cancellation for small x."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import count_work

ComplexArray = NDArray[np.complex128]

_A_CALL, _A_PRODUCT, _AN_EXPONENTIAL = 600.0, 6e-4, 1e-2
"""Work, in microseconds; of a call, what is made of it included."""

_SMALL_PHASE = 0.8
"""Below this sin x - x is a power series, which leaves out less than 4e-13 of it (less than 5e-15 below 0.55)."""


def multiples(phase: FloatArray, count: int) -> tuple[ComplexArray, ComplexArray]:
    """E(kx) = e^{ikx} - 1 and E'(kx) = E(kx) - ikx for k = 0..count-1.

    `phase`: x, shape (..., 1, n); results: shape (..., count, n). From E((j+m)x) = E(jx) + E(mx) + E(jx) E(mx), the
    same for E' with the last term alone mixing: nothing cancels for small x. What there is is doubled, for few calls;
    what has been lost of both factors adds up, whatever they are, to about 4 k u of rounding at k.
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
"""From so many on multiplying is quicker than exponentials."""

_AT_ONCE = 512
"""Points whose arrays a processor keeps at hand."""


class FourierSums:
    """sum_k W_k e^{-ikhx} for several sequences W at many x: the nodes in rows of `width`, one matrix product each; for
    several lines together, each with its own h.

    With k = a width + b the factors e^{-iahx width} and e^{-ihbx} are computed alone: 2 sqrt(n) exponentials instead of
    n. At many x these are powers of two: each further one adds 3 u of its product and 2 u that the first is off by.
    A real sum of m products loses at most m u of the sizes of its terms, in whatever order: `width` complex ones are
    two of 2 width, and of the last ones only the real part is summed up. All that is `rounding`, in u sum |W|; the
    rounding of the phases hkx is not in it.
    """

    def __init__(self, weights: ComplexArray, step: FloatArray) -> None:
        """`weights`: shape (sequences, lines, nodes); `step`: h, shape (lines,)."""
        sequences, lines, nodes = weights.shape
        self._width = max(1, math.isqrt(nodes))
        self._rows = -(-nodes // self._width)
        padded = np.zeros((sequences, lines, self._rows * self._width), dtype=np.complex128)
        padded[:, :, :nodes] = weights
        # Shape (lines, width, rows * sequences), so that one product of each line does all inner sums.
        arranged = padded.reshape(sequences, lines, self._rows, self._width).transpose(1, 3, 2, 0)
        self._weights = np.ascontiguousarray(arranged).reshape(lines, self._width, self._rows * sequences)
        places = step[:, None] * np.arange(self._width, dtype=np.float64)
        self._inner: ComplexArray = np.asarray(-1j * places, dtype=np.complex128)
        rows = step[:, None] * self._width * np.arange(self._rows, dtype=np.float64)
        self._outer: ComplexArray = np.asarray(-1j * rows, dtype=np.complex128)

    def rounding(self, points: int) -> int:
        """Units of rounding that the sums at so many x lose at most, relative to sum |W|."""
        powers = 5 * (self._width + self._rows) if points >= _MANY_POINTS else 0
        return 3 * self._width + 2 * self._rows + 8 + powers

    def real(self, x: FloatArray) -> FloatArray:
        """Real parts at every x (shape (X, lines)); shape (sequences, X, lines)."""
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
    """e^{x phase}, x of shape (lines, X), phases (lines, n); shape (lines, X, n)."""
    return np.exp(x[:, :, None] * phases[:, None])


def _powers(x: FloatArray, phases: ComplexArray) -> ComplexArray:
    """The same of phases that are the multiples 0, 1, 2, ... of one."""
    count = phases.shape[1]
    found = np.ones((count, *x.shape), dtype=np.complex128)
    if count > 1:
        first = np.exp(x * phases[:, 1:2])
        for k in range(1, count):
            np.multiply(found[k - 1], first, out=found[k])
    return found.transpose(1, 2, 0)


def _unit_circle(phase: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """E(x) = e^{ix} - 1 and E'(x) = e^{ix} - 1 - ix, neither with cancellation for small x."""
    full = np.empty(phase.shape, dtype=np.complex128)
    full.real = -2 * np.sin(0.5 * phase) ** 2
    full.imag = np.sin(phase)
    small = np.abs(phase) < _SMALL_PHASE
    square = np.where(small, phase, 0.0) ** 2
    nested = 1 - square / 42 * (1 - square / 72 * (1 - square / 110 * (1 - square / 156 * (1 - square / 210))))
    rest = full.copy()
    rest.imag = np.where(small, -phase * square / 6 * (1 - square / 20 * nested), full.imag - phase)
    return full, rest
