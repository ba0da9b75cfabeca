"""Error-free sums and products: the rounded double and its exact rounding error.

The factors must be at most 1e290 in size, and their product must be 0 or at least 1e-290. For a smaller product the
reported rounding error is wrong by less than 1e-320.
"""

from __future__ import annotations

from typing import Final

from service.privacy.numerics.arrays import FloatArray

Parts = tuple[FloatArray, FloatArray]

SPLITTER: Final = 2.0**27 + 1


def difference(one: FloatArray, other: FloatArray) -> Parts:
    """Return `one` - `other` rounded to doubles, and a rest that makes their sum exact; finite arrays of one shape."""
    rounded = one - other
    shifted = rounded - one
    return rounded, (one - (rounded - shifted)) + (-other - shifted)


def product(one: FloatArray, other: FloatArray) -> Parts:
    """Return `one` times `other` rounded to doubles, and a rest that makes their sum exact; arrays of one shape."""
    rounded = one * other
    (high, low), (other_high, other_low) = _halves(one), _halves(other)
    return rounded, ((high * other_high - rounded) + high * other_low + low * other_high) + low * other_low


def square(value: FloatArray) -> Parts:
    """Return the square of `value` rounded to doubles, and a rest that makes their sum exact; arrays of one shape."""
    return product(value, value)


def _halves(value: FloatArray) -> Parts:
    scaled = SPLITTER * value
    high = scaled - (scaled - value)
    return high, value - high
