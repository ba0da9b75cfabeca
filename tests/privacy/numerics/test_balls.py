"""Conversion from balls of python-flint to doubles: the result contains the number."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from flint import arb, ctx

from service.privacy.numerics.balls import ball, decimals, doubles, log_doubles, within

NUMBERS = [Fraction(1, 3), Fraction(-22, 7), Fraction(10**30 + 1, 7), Fraction(1, 3**400)]


@pytest.mark.parametrize("number", NUMBERS)
def test_doubles_enclose_number_within_four_ulps(number: Fraction) -> None:
    with ctx.workprec(96):
        lower, upper = doubles(ball(number))
    assert Fraction(lower) < number < Fraction(upper)
    assert upper - lower <= 4 * math.ulp(float(number))


def test_double_converts_exactly() -> None:
    with ctx.workprec(96):
        assert ball(0.1) == ball(Fraction(0.1))
        assert ball(0.1) != ball(Fraction(1, 10))


def test_number_out_of_range_has_infinite_bounds() -> None:
    with ctx.workprec(96):
        assert doubles(arb("nan")) == (-math.inf, math.inf)
        assert doubles(arb(10) ** 400)[1] == math.inf
        assert log_doubles(within(arb(0), arb(1)))[0] == -math.inf


def test_logarithms_below_smallest_double_are_enclosed() -> None:
    with ctx.workprec(96):
        lower, upper = log_doubles(arb(10) ** -5000)
    assert lower < -5000 * math.log(10) < upper
    assert upper - lower < 1e-10


@pytest.mark.parametrize("number", [number for number in NUMBERS if number > 0])
@pytest.mark.parametrize("digits", [5, 20])
def test_decimals_are_rounded_outwards(number: Fraction, digits: int) -> None:
    with ctx.workprec(200):
        found = decimals(ball(number), digits, 1e300)
    assert found is not None
    value, lower, upper = (Fraction(Decimal(text)) for text in found)
    assert lower <= number <= upper
    assert upper - lower <= number * Fraction(2, 10 ** (digits - 1))
    assert lower <= value <= upper


def test_decimals_respect_upper_limit() -> None:
    with ctx.workprec(96):
        found = decimals(within(arb(1), arb(1) / 4), 4, 1.0)
        assert decimals(arb(2) ** -(10**11), 4, 1.0) is None
    assert found is not None
    assert (found[0], found[2]) == ("1", "1")
    assert Decimal("0.749") <= Decimal(found[1]) <= Decimal("0.75")
