"""Error-free transformations against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from service.privacy.numerics.error_free import difference, product, square


def numbers(seed: int, exponents: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    shape = (2, 2000)
    one, other = np.exp(random.uniform(-exponents, exponents, shape)) * random.choice([-1.0, 1.0], shape)
    return one, other


def test_differences_are_exact() -> None:
    one, other = numbers(1, 600.0)
    rounded, lacking = difference(one, other)
    for a, b, found, lost in zip(*(each.tolist() for each in (one, other, rounded, lacking)), strict=True):
        assert Fraction(a) - Fraction(b) == Fraction(found) + Fraction(lost)


@pytest.mark.parametrize("exponents", [1.0, 330.0])
def test_products_and_squares_are_exact(exponents: float) -> None:
    one, other = numbers(2, exponents)
    for (rounded, lacking), factors in ((product(one, other), (one, other)), (square(one), (one, one))):
        for a, b, found, lost in zip(*(each.tolist() for each in (*factors, rounded, lacking)), strict=True):
            if 1e-290 < abs(found) < 1e290:
                assert Fraction(a) * Fraction(b) == Fraction(found) + Fraction(lost)
