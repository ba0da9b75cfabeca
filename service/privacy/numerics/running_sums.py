"""Running sums of long arrays, with a rounding error that grows like the square root of the length."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


def running_sums(values: FloatArray) -> FloatArray:
    """Compute sum_{i <= k} values_i for every k, in blocks of about sqrt(n) numbers.

    Parameters
    ----------
    values : array, shape (n,)
        Terms.

    Returns
    -------
    array, shape (n,)
        Running sums. The error relative to the sum of absolute values is below `running_sum_error(n)`.
    """
    n = len(values)
    block = max(1, math.isqrt(n))
    padded = np.zeros(-(-n // block) * block)
    padded[:n] = values
    rows = np.cumsum(padded.reshape(-1, block), axis=1)
    rows[1:] += np.cumsum(rows[:-1, -1])[:, None]
    return rows.reshape(-1)[:n]


def running_sum_error(n: int) -> float:
    """Return the relative error bound of `running_sums` over n non-negative terms.

    Parameters
    ----------
    n : int
        Number of terms.

    Returns
    -------
    float
        Bound for the longest chain of additions: those within a block, plus one for each block.
    """
    return (2 * math.isqrt(n) + 4) * UNIT_ROUNDOFF
