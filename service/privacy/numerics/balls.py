"""Conversions between doubles, decimals and the balls of `python-flint`.

A ball consists of a midpoint and a radius, and contains the exact number. The precision of new balls is a global
variable of the library: callers compute inside `ctx.workprec(bits)`.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from flint import arb, ctx, fmpq

GUARD_BITS = 96
"""Bits that suffice for bounds whose order of magnitude matters, and for the logarithms of such bounds."""


LARGEST_DECIMAL_EXPONENT = 10**9
"""Smaller positive numbers than 10^-LARGEST_DECIMAL_EXPONENT are not written as decimals: no parser accepts them."""

_MOST_SHIFT = 4_000
"""Largest shift of a mantissa, in bits, for an exact division. Smaller numbers are first scaled by a power of ten."""


def ball(value: Fraction | float) -> arb:
    """Return the exact ball of a value.

    Parameters
    ----------
    value : Fraction or float
        The value. A float is the binary fraction that it represents.

    Returns
    -------
    arb
        Ball that contains the value, with radius 0 if the current precision can represent it.
    """
    if isinstance(value, Fraction):
        return arb(fmpq(value.numerator, value.denominator))
    return arb(value)


def within(center: arb, radius: arb) -> arb:
    """Return the ball of all numbers within a distance of a centre.

    Parameters
    ----------
    center, radius : arb
        Centre, and distance. The largest absolute value of the ball `radius` counts.

    Returns
    -------
    arb
        The ball.
    """
    return center + arb(0, radius.abs_upper())


def doubles(number: arb) -> tuple[float, float]:
    """Return doubles (lower, upper) around a ball.

    Parameters
    ----------
    number : arb
        Ball, or not a number.

    Returns
    -------
    (float, float)
        -inf and inf for bounds out of range, or if the ball is not a number.
    """
    if not number.is_finite():
        return -math.inf, math.inf
    lower, upper = float(number.lower()), float(number.upper())
    return math.nextafter(lower, -math.inf), math.nextafter(upper, math.inf)


def log_doubles(number: arb) -> tuple[float, float]:
    """Return doubles (lower, upper) around the natural logarithm of a ball.

    Parameters
    ----------
    number : arb
        Ball of a non-negative number.

    Returns
    -------
    (float, float)
        The lower double is -inf if the ball contains 0, and both are -inf if the ball is exactly 0.
    """
    upper = doubles(number.upper().log())[1] if number.upper() > 0 else -math.inf
    lower = doubles(number.lower().log())[0] if number.lower() > 0 else -math.inf
    return lower, upper


def decimals(number: arb, digits: int, largest: float) -> tuple[str, str, str] | None:
    """Write (midpoint, lower bound, upper bound) of a ball as decimals, with the bounds rounded outwards.

    Parameters
    ----------
    number : arb
        Ball of a number that is known to lie in [0, largest].
    digits : int
        Largest number of significant digits.
    largest : float
        Largest possible value.

    Returns
    -------
    tuple of str, or None
        Values outside [0, `largest`] are moved to its nearer endpoint. None if a bound is positive and below
        10^-LARGEST_DECIMAL_EXPONENT.
    """
    if any(end > 0 and end.log() < -2.3 * LARGEST_DECIMAL_EXPONENT for end in (number.lower(), number.upper())):
        return None
    value, lower, upper = (end.max(0).min(largest) for end in (number.mid(), number.lower(), number.upper()))
    return (
        _decimal(value, digits, ROUND_HALF_EVEN),
        _decimal(lower, digits, ROUND_FLOOR),
        _decimal(upper, digits, ROUND_CEILING),
    )


def _decimal(exact: arb, digits: int, rounding: str) -> str:
    mantissa, exponent = (int(part) for part in exact.man_exp())
    context = Context(prec=digits, rounding=rounding, Emin=-LARGEST_DECIMAL_EXPONENT, Emax=LARGEST_DECIMAL_EXPONENT)
    if exponent < -_MOST_SHIFT:
        power = math.floor(float((exact.log() / arb(10).log()).mid()))
        with ctx.workprec(4 * digits + GUARD_BITS):
            scaled = exact / arb(10) ** power
        near = (
            scaled.lower() if rounding == ROUND_FLOOR else scaled.upper() if rounding == ROUND_CEILING else scaled.mid()
        )
        return str(Decimal(_decimal(near, digits, rounding)).scaleb(power, context)).lower()
    numerator, denominator = mantissa << max(exponent, 0), 1 << max(-exponent, 0)
    # Numerator and denominator are exact, so the quotient is rounded once.
    return str(context.divide(Decimal(numerator), Decimal(denominator))).lower()
