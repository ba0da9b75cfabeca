"""Sums and products of doubles as two doubles: the rounded result and exactly what it lacks.

Domain: factors up to 1e290 in size whose product is 0 or at least 1e-290; a smaller one lacks less than 1e-320 more.
"""

from __future__ import annotations

from typing import Final

from service.privacy.numerics.arrays import FloatArray

Parts = tuple[FloatArray, FloatArray]

SPLITTER: Final = 2.0**27 + 1


def difference(one: FloatArray, other: FloatArray) -> Parts:
    """one - other and what it lacks (Knuth); any finite doubles."""
    rounded = one - other
    shifted = rounded - one
    return rounded, (one - (rounded - shifted)) + (-other - shifted)


def product(one: FloatArray, other: FloatArray) -> Parts:
    """one times other and what it lacks (Dekker)."""
    rounded = one * other
    (high, low), (other_high, other_low) = _halves(one), _halves(other)
    return rounded, ((high * other_high - rounded) + high * other_low + low * other_high) + low * other_low


def square(value: FloatArray) -> Parts:
    """The square and what it lacks."""
    return product(value, value)


def _halves(value: FloatArray) -> Parts:
    scaled = SPLITTER * value
    high = scaled - (scaled - value)
    return high, value - high
