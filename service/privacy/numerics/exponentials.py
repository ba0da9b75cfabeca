"""Weighted values of e^z less the first terms of its series, without cancellation near 0 and without overflow.

The functions take the logarithm l of the weight, so that e^{l + z} may be moderate where e^z overflows. Arguments are
arrays of compatible shapes. Results are accurate within a few units in the last place of the larger of their terms.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray

_SMALL = 0.5
"""Largest |z| of the series, whose first omitted term is below 1e-18 of the sum."""
_TERMS = 15


HELD: Final = 700.0
"""e^700 and e^-700 are normal doubles."""


def exp_held(exponent: float) -> float:
    """Return e^min(x, 700), for guesses without a proof.

    Parameters
    ----------
    exponent : float
        x.

    Returns
    -------
    float
        Not-a-number if x is not a number.
    """
    return math.exp(min(float(exponent), HELD))


def growth(log_weight: FloatArray, z: FloatArray) -> FloatArray:
    """Compute e^l (e^z - 1) without cancellation near z = 0 and without overflow.

    Parameters
    ----------
    log_weight, z : array
        l and z, of compatible shapes.

    Returns
    -------
    array
        For small z, a value within a few units in its last place. Otherwise, within a few units in the last place of
        the larger of e^{l+z} and e^l.
    """
    small = np.abs(z) <= _SMALL
    weight = np.exp(log_weight)
    return np.where(small, weight * np.expm1(np.where(small, z, 0.0)), np.exp(log_weight + z) - weight)


def remainder(log_weight: FloatArray, z: FloatArray) -> FloatArray:
    """Compute e^l (e^z - 1 - z) >= 0 without cancellation near z = 0 and without overflow.

    Parameters
    ----------
    log_weight, z : array
        l and z, of compatible shapes.

    Returns
    -------
    array
        Value within a few units in the last place of the largest term.
    """
    small = np.abs(z) <= _SMALL
    weight = np.exp(log_weight)
    return np.where(small, weight * _series(np.where(small, z, 0.0)), np.exp(log_weight + z) - weight * (1 + z))


def divergence(log_weight: FloatArray, z: FloatArray) -> FloatArray:
    """Compute e^l (z e^z - e^z + 1) >= 0 without cancellation near z = 0 and without overflow.

    Parameters
    ----------
    log_weight, z : array
        l and z, of compatible shapes.

    Returns
    -------
    array
        Value within a few units in the last place of the largest term.
    """
    small = np.abs(z) <= _SMALL
    weight, near = np.exp(log_weight), np.where(small, z, 0.0)
    # z expm1(z) is about twice the series, so that the difference does not cancel.
    return np.where(small, weight * (near * np.expm1(near) - _series(near)), np.exp(log_weight + z) * (z - 1) + weight)


def _series(z: FloatArray) -> FloatArray:
    """Return e^z - 1 - z for |z| <= 1/2, by the power series."""
    nested = np.ones_like(z)
    for term in range(_TERMS, 2, -1):
        nested = 1 + z / term * nested
    return 0.5 * z * z * nested
