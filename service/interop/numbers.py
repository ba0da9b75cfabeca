"""Numbers as people read them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Final

DIGITS: Final = 6
SMALLEST_PLAIN, LARGEST_PLAIN = -4, 8
"""Powers of ten between which numbers are written without one."""


def rounded_up(value: float, digits: int = DIGITS) -> str:
    """So many digits, rounded up: what is printed is an upper bound still."""
    return _written(value, Context(prec=digits, rounding=ROUND_CEILING))


def rounded_down(value: float, digits: int = DIGITS) -> str:
    """So many digits, rounded down: what is printed is a lower bound still."""
    return _written(value, Context(prec=digits, rounding=ROUND_FLOOR))


def as_given(value: float) -> str:
    """A number that somebody sent, with all its digits: of what is proved at a delta or a rate, nothing is proved at
    the nearest one of six digits.
    """
    return repr(value).removesuffix(".0")


def _written(value: float, context: Context) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    rounded = context.create_decimal_from_float(value).normalize(context)
    plain = not rounded or SMALLEST_PLAIN <= rounded.adjusted() <= LARGEST_PLAIN
    return f"{rounded:f}" if plain else f"{rounded:e}"
