"""Rounding model of all error bounds of the core, and constants derived from it.

The model is double precision, round to nearest, and numpy's `exp`, `expm1`, `log`, `log1p`, `sin`, `cos` and `arctan2`
within `FUNCTION_ULPS` units in the last place. `tests/privacy/trade_off/test_rounding.py` tests the model over the
ranges in use.
"""

from __future__ import annotations

import math
from fractions import Fraction

UNIT_ROUNDOFF = 2.0**-53
"""u: a correctly rounded operation has a relative error of at most u."""

FUNCTION_ULPS = 4.0
"""Assumed bound, in units in the last place (2u each), of numpy's elementary functions."""

FUNCTION_ERROR = 2 * FUNCTION_ULPS * UNIT_ROUNDOFF
"""Relative error bound of the value of an elementary function at an exact argument."""

SUM_BLOCK = 32
"""Inner block length of long sums.

A sum of J terms in blocks of 32 has error <= (32 + J/32) u sum|terms|, in any order within the blocks.
"""


def sum_error(terms: int) -> float:
    """Return the error bound of a sum of complex terms or products in blocks of `SUM_BLOCK`, relative to sum |terms|.

    The terms of each block are summed first, then the sums of the blocks.

    Parameters
    ----------
    terms : int
        Number of terms.

    Returns
    -------
    float
        Relative bound. It holds for any order within blocks and for fused operations.

    Notes
    -----
    A complex product contributes at most 2 sqrt(2) u (u = 2^-53), which the factor 2 of the bound covers.
    """
    return 2 * (SUM_BLOCK + terms / SUM_BLOCK + 4) * UNIT_ROUNDOFF


def rounded(value: Fraction, side: int) -> float:
    """Return the double nearest to a number, or the nearest double on one side of the number.

    Parameters
    ----------
    value : Fraction
        Exact number.
    side : int
        -1 for a double that is not above the number, 1 for one that is not below, 0 for the nearest one.

    Returns
    -------
    float
        The double.
    """
    nearest = float(value)
    if side * (Fraction(nearest) - value) >= 0:
        return nearest
    return math.nextafter(nearest, side * math.inf)
