"""The rounding model behind every error bound, against 40-digit values over the ranges of the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF, sum_error

SAMPLES = 1500


def _signed(rng: np.random.Generator, low: float, high: float) -> Any:
    return rng.choice([-1.0, 1.0], SAMPLES) * 10 ** rng.uniform(low, high, SAMPLES)


@pytest.mark.parametrize(
    ("name", "truth", "arguments"),
    [
        ("exp", mpmath.exp, lambda rng: rng.uniform(-700, 700, SAMPLES)),
        ("expm1", mpmath.expm1, lambda rng: np.clip(_signed(rng, -300, 2.8), -700, 700)),
        ("log", mpmath.log, lambda rng: 10 ** rng.uniform(-300, 300, SAMPLES)),
        ("log1p", mpmath.log1p, lambda rng: np.where((x := _signed(rng, -300, 300)) > -1, x, -x)),
        ("log1p", mpmath.log1p, lambda rng: -rng.uniform(0, 1, SAMPLES)),
        ("sin", mpmath.sin, lambda rng: _signed(rng, -300, 6)),
        ("cos", mpmath.cos, lambda rng: _signed(rng, -300, 6)),
    ],
)
def test_elementary_functions_are_within_model(
    name: str, truth: Callable[[Any], Any], arguments: Callable[..., Any]
) -> None:
    points = np.asarray(arguments(np.random.default_rng(7)), dtype=np.float64)
    values = getattr(np, name)(points)
    with mpmath.workdps(340):  # log1p of 1e-300 and sin of 1e6 need these digits.
        for point, value in zip(points.tolist(), values.tolist(), strict=True):
            exact = truth(mpmath.mpf(point))
            assert abs(mpmath.mpf(value) - exact) <= FUNCTION_ERROR * abs(exact), (name, point)


def test_arctan2_is_within_model() -> None:
    rng = np.random.default_rng(8)
    y, x = 10 ** rng.uniform(-200, 3, SAMPLES), _signed(rng, -100, 3)
    with mpmath.workdps(40):
        for a, b, value in zip(y.tolist(), x.tolist(), np.arctan2(y, x).tolist(), strict=True):
            exact = mpmath.atan2(mpmath.mpf(a), mpmath.mpf(b))
            assert abs(value - exact) <= FUNCTION_ERROR * abs(exact)


@pytest.mark.parametrize("terms", [32, 320, 3200])
def test_blocked_products_are_within_error_bound(terms: int) -> None:
    rng = np.random.default_rng(terms)
    shape = (terms // SUM_BLOCK, 1, SUM_BLOCK)
    left = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    right = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    computed = np.matmul(left, right.swapaxes(-1, -2)).sum(axis=0)[0, 0]
    a, b = left.ravel(), right.ravel()
    with mpmath.workdps(40):
        exact = mpmath.fsum(mpmath.mpc(complex(x)) * mpmath.mpc(complex(y)) for x, y in zip(a, b, strict=True))
        error = abs(mpmath.mpc(complex(computed)) - exact)
    assert error <= sum_error(terms) * float(np.sum(np.abs(a) * np.abs(b)))


def test_unit_roundoff_is_that_of_a_double() -> None:
    assert math.nextafter(1, 2) == 1 + 2 * UNIT_ROUNDOFF
