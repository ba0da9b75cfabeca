"""Directed rounding of fractions, and sums within their stated errors, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from service.privacy.numerics.rounding import rounded, sum_error

SEED = 20311


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("scale", [1e-320, 1e-12, 1.0, 1e300])
def test_fraction_is_rounded_to_next_double_in_direction(side: int, scale: float) -> None:
    for part in np.random.default_rng(SEED).integers(1, 10**9, 200).tolist():
        for value in (Fraction(part, 7**11) * Fraction(scale), -Fraction(part, 7**11) * Fraction(scale)):
            found = rounded(value, side)
            assert side * (Fraction(found) - value) >= 0
            assert side * (Fraction(math.nextafter(found, -side * math.inf)) - value) < 0


def test_double_rounds_to_itself() -> None:
    for value in (0.0, 0.1, -0.1, 5e-324, 1e308):
        assert rounded(Fraction(value), -1) == rounded(Fraction(value), 1) == value


@pytest.mark.parametrize("terms", [1, 31, 1_000, 20_000])
def test_sums_of_products_are_within_error_bounds(terms: int) -> None:
    random = np.random.default_rng([SEED, terms])
    left, right = (random.normal(size=terms) + 1j * random.normal(size=terms) for _ in range(2))
    real = sum(
        (Fraction(a.real) * Fraction(b.real) - Fraction(a.imag) * Fraction(b.imag))
        for a, b in zip(left.tolist(), right.tolist(), strict=True)
    )
    error = abs(Fraction(float((left @ right).real)) - real)
    assert error <= sum_error(terms) * float(np.abs(left) @ np.abs(right))
