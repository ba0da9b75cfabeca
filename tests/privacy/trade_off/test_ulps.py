"""Accuracy of scipy's special functions that `trade_off/enclosed/ulps.py` assumes, against mpmath at 60 digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.enclosed import ulps

RANDOM = np.random.default_rng(20240101)
COUNT = 400


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def normal_cdf(x: mpf) -> mpf:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_normal_cdf(x: mpf) -> mpf:
    return mpmath.log(normal_cdf(x)) if x < 0 else mpmath.log1p(-normal_cdf(-x))


def quantile(probability: mpf) -> mpf:
    lower = probability < 0.5
    tail = probability if lower else 1 - probability
    x = mpf(float(special.ndtri(float(tail))))
    for _ in range(4):
        x -= (normal_cdf(x) - tail) * mpmath.exp(x * x / 2) * mpmath.sqrt(2 * mpmath.pi)
    return x if lower else -x


def log_quantile(log_probability: mpf) -> mpf:
    x = mpf(float(special.ndtri_exp(float(log_probability))))
    for _ in range(4):
        slope = mpmath.exp(-x * x / 2 - log_normal_cdf(x)) / mpmath.sqrt(2 * mpmath.pi)
        x -= (log_normal_cdf(x) - log_probability) / slope
    return x


def scaled_erfc(x: mpf) -> mpf:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def log_uniform(low: float, high: float) -> FloatArray:
    return 10 ** RANDOM.uniform(low, high, COUNT)


def largest_error(
    function: Callable[[FloatArray], FloatArray],
    truth: Callable[[mpf], mpf],
    arguments: FloatArray,
    growth: Callable[[float], float] = lambda _: 1.0,
) -> float:
    """Return the largest relative error of `function` against `truth`, divided by `growth` of the argument."""
    worst = 0.0
    for argument, value in zip(arguments.tolist(), function(arguments).tolist(), strict=True):
        exact = truth(mpf(argument))
        if exact != 0:
            worst = max(worst, float(abs((mpf(value) - exact) / exact)) / growth(argument))
    return worst


@pytest.mark.parametrize(
    "arguments",
    [
        log_uniform(-323, -0.31),
        RANDOM.uniform(0, 1, COUNT),
        0.5 + RANDOM.choice([-1, 1], COUNT) * log_uniform(-15, -1),
        1 - log_uniform(-15.9, -1),
        np.array([5e-324, 1e-323, 1e-310]),
    ],
    ids=["tail", "middle", "near half", "near one", "subnormal"],
)
def test_normal_quantile_is_within_assumed_error(arguments: FloatArray) -> None:
    assert largest_error(special.ndtri, quantile, arguments) <= ulps.NORMAL_QUANTILE_ERROR


@pytest.mark.parametrize(
    "arguments",
    [-log_uniform(-10, 6), RANDOM.uniform(-3, 1, COUNT), RANDOM.uniform(0, 37, COUNT)],
    ids=["left", "middle", "right"],
)
def test_log_normal_cdf_is_within_assumed_error(arguments: FloatArray) -> None:
    error = largest_error(special.log_ndtr, log_normal_cdf, arguments, lambda x: 1 + max(x, 0.0) ** 2)
    assert error <= ulps.LOG_NORMAL_CDF_ERROR


@pytest.mark.parametrize(
    "arguments",
    [RANDOM.uniform(-5, 0, COUNT), RANDOM.uniform(0, 60, COUNT), log_uniform(-10, 5)],
    ids=["left", "right", "wide"],
)
def test_scaled_erfc_is_within_assumed_error(arguments: FloatArray) -> None:
    assert largest_error(special.erfcx, scaled_erfc, arguments) <= ulps.SCALED_ERFC_ERROR


@pytest.mark.parametrize("arguments", [log_uniform(-300, -0.05), 1 - log_uniform(-12, -1)], ids=["small", "near one"])
def test_inverse_error_function_is_within_assumed_error(arguments: FloatArray) -> None:
    assert largest_error(special.erfinv, mpmath.erfinv, arguments[:150]) <= ulps.ERF_ERROR


def test_quantile_of_logarithm_is_within_assumed_error() -> None:
    arguments = -log_uniform(2.5, 6)[:100]
    assert largest_error(special.ndtri_exp, log_quantile, arguments) <= ulps.LOG_QUANTILE_ERROR
