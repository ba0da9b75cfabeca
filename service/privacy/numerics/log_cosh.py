"""Logarithm of the hyperbolic cosine with relative accuracy."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray


def log_cosh(x: FloatArray) -> FloatArray:
    """Compute ln cosh x with relative accuracy.

    Parameters
    ----------
    x : array
        Any doubles.

    Returns
    -------
    array
        Value within a few units in the last place, also near 0, in the shape of x.
    """
    x = np.abs(x)
    near = 0.5 * np.log1p(np.sinh(np.minimum(x, 1.0)) ** 2)
    return np.where(x < 1, near, x + np.log1p(np.exp(-2 * x)) - math.log(2))
