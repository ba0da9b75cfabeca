"""Points e^{ikx} of the unit circle less their first terms, without cancellation for small x."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

_SMALL_PHASE = 0.8
"""Below this sin x - x is a power series, which leaves out less than 4e-13 of it (less than 5e-15 below 0.55)."""


def multiples(phase: FloatArray, count: int) -> tuple[ComplexArray, ComplexArray]:
    """E(kx) = e^{ikx} - 1 and E'(kx) = E(kx) - ikx for k = 0..count-1.

    `phase`: x, shape (..., 1, n); results: shape (..., count, n). From E(kx) = E((k-1)x) + E(x) + E((k-1)x) E(x), the
    same for E' with the last term alone mixing: nothing cancels for small x, and about 4 k u of rounding is collected.
    """
    full = np.zeros((*phase.shape[:-2], count, phase.shape[-1]), dtype=np.complex128)
    rest = np.zeros_like(full)
    if count == 1:
        return full, rest
    first, first_rest = full[..., 1, :], rest[..., 1, :]
    first[...], first_rest[...] = _unit_circle(phase[..., 0, :])
    for k in range(2, count):
        product = full[..., k - 1, :] * first
        full[..., k, :] = full[..., k - 1, :] + first + product
        rest[..., k, :] = rest[..., k - 1, :] + first_rest + product
    return full, rest


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
