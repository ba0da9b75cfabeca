"""Numbers in texts: rounded to the safe side, or with all digits that were sent."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

DIGITS: Final = 6
SHOWN: Final = 3
"""Number of significant digits of results in texts."""
SMALLEST_PLAIN, LARGEST_PLAIN = -4, 8
"""Powers of ten between which numbers are written without an exponent."""
SMALLEST_PERCENT: Final = -6
SPACE: Final = "\u00a0"
"""Non-breaking space between groups of digits and before a unit."""
_EXACT: Final = Context(prec=1100)
"""Decimal context with more digits than any double."""


def rounded_up(value: float, digits: int = DIGITS) -> str:
    """Return a number as text, rounded up to `digits` significant digits, so that an upper bound stays one."""
    return _written(value, Context(prec=digits, rounding=ROUND_CEILING))


def rounded_down(value: float, digits: int = DIGITS) -> str:
    """Return a number as text, rounded down to `digits` significant digits, so that a lower bound stays one."""
    return _written(value, Context(prec=digits, rounding=ROUND_FLOOR))


def format_exact(value: float) -> str:
    """Format a number of a request with all digits of its double (60000.0 as "60000").

    A statement that is proved at a delta or a rate is not proved at its value rounded to six digits.
    """
    return repr(value).removesuffix(".0")


def exact_cell(value: float | str | bool | None) -> str:
    """Return the cell of a CSV table for a value of a response, with all digits; None gives an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # an infinity, or a name
        return value
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else repr(value)


def group_digits(number: int) -> str:
    """Format an integer in groups of three digits: "60 000"."""
    return f"{number:,}".replace(",", SPACE)


def percent_up(share: float, digits: int = SHOWN) -> str:
    """Format a share (0.00407) in percent with `digits` significant digits, rounded up: "0.407 %"."""
    return f"{points_up(share, digits)}{SPACE}%"


def percent_down(share: float, digits: int = SHOWN) -> str:
    """Format a share in percent, rounded down: "0.406 %". Negative shares are rounded away from 0.

    `digits` is the number of significant digits.
    """
    return f"{points_down(share, digits)}{SPACE}%"


def percent_exact(share: float | Decimal) -> str:
    """Format a share of a request in percent, with all its digits."""
    return f"{points_exact(share)}{SPACE}%"


def points_up(share: float, digits: int = SHOWN) -> str:
    """Format a share (0.0123) in percentage points ("1.23"), rounded up to `digits` significant digits.

    The text has no unit.
    """
    return _plain(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_hundredfold(Decimal(share))))


def points_down(share: float, digits: int = SHOWN) -> str:
    """Format a share (0.0123) in percentage points ("1.23"), rounded down to `digits` significant digits.

    The text has no unit.
    """
    return _plain(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(_hundredfold(Decimal(share))))


def points_exact(share: float | Decimal) -> str:
    """Format a share of a request in percentage points, with all its digits, without a unit."""
    return _plain(_hundredfold(share if isinstance(share, Decimal) else Decimal(repr(share))))


def _hundredfold(number: Decimal) -> Decimal:
    return number.scaleb(2, _EXACT)


def _plain(number: Decimal) -> str:
    number = number.normalize(_EXACT)
    is_plain = not number or SMALLEST_PERCENT <= number.adjusted() <= LARGEST_PLAIN
    return f"{number:f}" if is_plain else f"{number:e}"


def _written(value: float, context: Context) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    rounded = context.create_decimal_from_float(value).normalize(context)
    plain = not rounded or SMALLEST_PLAIN <= rounded.adjusted() <= LARGEST_PLAIN
    return f"{rounded:f}" if plain else f"{rounded:e}"
