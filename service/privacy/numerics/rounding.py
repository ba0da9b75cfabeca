"""The rounding model every error bound of the core rests on, and the few constants derived from it.

Model (tested over the used ranges in `tests/privacy/trade_off/test_rounding.py`): double precision, round to nearest,
and numpy's `exp`, `expm1`, `log`, `log1p`, `sin`, `cos`, `arctan2` within `FUNCTION_ULPS` units in the last place.
"""

from __future__ import annotations

import math
from fractions import Fraction

UNIT_ROUNDOFF = 2.0**-53
"""u: one correctly rounded operation has relative error <= u."""

FUNCTION_ULPS = 4.0
"""Assumed bound, in units in the last place (2u each), of numpy's elementary functions."""

FUNCTION_ERROR = 2 * FUNCTION_ULPS * UNIT_ROUNDOFF
"""Relative error bound of one elementary function value, its argument taken as exact."""

SUM_BLOCK = 32
"""Inner block length of long sums.

A sum of J terms in blocks of 32 has error <= (32 + J/32) u sum|terms|, in any order within the blocks.
"""


def sum_error(terms: int) -> float:
    """Relative (to the sum of absolute values) error bound of a blocked sum or product-sum of `terms` complex terms.

    Complex products contribute at most 2 sqrt(2) u each, covered by the factor 2; order within blocks and fused
    operations do not matter.
    """
    return 2 * (SUM_BLOCK + terms / SUM_BLOCK + 4) * UNIT_ROUNDOFF


def rounded(value: Fraction, side: int) -> float:
    """The double nearest to a number, or its neighbour: not above it (side -1), or not below it (side 1)."""
    nearest = float(value)
    if side * (Fraction(nearest) - value) >= 0:
        return nearest
    return math.nextafter(nearest, side * math.inf)
