"""Gauss-Legendre rules against mpmath: nodes and weights within their stated errors, also near the endpoints."""

from __future__ import annotations

import mpmath
import pytest

from service.privacy.numerics.gauss_legendre import PLACE_ERROR, WEIGHT_ERROR, gauss_legendre


@pytest.mark.parametrize("nodes", [2, 16, 64, 128])
def test_rules_are_within_error_bounds(nodes: int) -> None:
    places, weights = gauss_legendre(nodes)
    with mpmath.workdps(40):
        for place, weight in zip(places[: nodes // 2 : 4], weights[: nodes // 2 : 4], strict=True):
            x, slope = mpmath.mpf(place), mpmath.mpf(0)
            for _ in range(3):  # Newton's method, P_n' = n (x P_n - P_(n-1))/(x^2 - 1)
                value, before = mpmath.legendre(nodes, x), mpmath.legendre(nodes - 1, x)
                slope = nodes * (x * value - before) / (x**2 - 1)
                x -= value / slope
            assert abs(place - x) <= PLACE_ERROR
            assert abs(weight * (1 - x**2) * slope**2 / 2 - 1) <= WEIGHT_ERROR * nodes


def test_polynomials_are_integrated_exactly() -> None:
    places, weights = gauss_legendre(16)
    for degree in range(32):
        exact = 0.0 if degree % 2 else 2 / (degree + 1)
        assert float(weights @ places**degree) == pytest.approx(exact, abs=1e-14)
