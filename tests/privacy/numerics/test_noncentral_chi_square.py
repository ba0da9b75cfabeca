"""Noncentral chi-square laws against 60-digit oracles and reference rows: containment first, then width."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from service.privacy.numerics.chi_square.density import log_density
from service.privacy.numerics.chi_square.law import NoncentralChiSquare
from service.privacy.numerics.chi_square.quantiles import quantiles
from service.privacy.numerics.rounding import FUNCTION_ERROR
from tests.privacy import chi_square_oracles as oracles
from tests.privacy.references import number, rows
from tests.slow_marker import sample_of

DEGREES = (1, 2, 3, 10, 49.9, 50, 650, 1e4, 1e6, 1e9)
NONCENTRALITIES = (0, 1e-6, 1, 200, 1e4, 2.6e5, 1e6, 1e9, 1e12)
DEVIATIONS = (-37.0, -10.0, -1.0, 1e-5, 40.0)
CASES = [(d, nc) for d in DEGREES for nc in NONCENTRALITIES]
DIGITS = 2e-14
"""Width over the logarithm itself: for 690, the logarithm of 1e300, a unit in the last place is 1e-13."""


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with mpmath.workdps(oracles.DIGITS):
        yield


def points(degrees: float, noncentrality: float) -> list[float]:
    """Return points at fixed numbers of deviations from the mean.

    Points that would be negative become the mean times powers of ten.
    """
    mean, deviation = degrees + noncentrality, math.sqrt(2 * (degrees + 2 * noncentrality))
    at = [mean + z * deviation for z in DEVIATIONS]
    return [x if x > 0 else mean * 10.0 ** (-1 - 3 * i) for i, x in enumerate(at)]


@cache
def truth(degrees: float, noncentrality: float, x: float, lower: bool) -> mpf:
    return oracles.log_tail(degrees, noncentrality, x, lower)


@pytest.mark.parametrize(
    ("degrees", "noncentrality", "x"), [(650, 1e3, 1500.0), (650, 1e3, 1750.0), (3, 1e4, 1.05e4), (1, 1e3, 900.0)]
)
@pytest.mark.parametrize("lower", [True, False])
def test_three_oracles_agree(degrees: int, noncentrality: float, x: float, lower: bool) -> None:
    values = [oracles.mixture(degrees, noncentrality, x, lower), oracles.inversion(degrees, noncentrality, x, lower)]
    if degrees < 4:
        values.append(oracles.closed_form(degrees, noncentrality, x, lower))
    assert max(abs(value / values[0] - 1) for value in values) < mpf(10) ** -28


@sample_of(30)
@pytest.mark.parametrize(("degrees", "noncentrality"), CASES)
def test_smaller_tail_contains_truth_and_keeps_its_digits(degrees: float, noncentrality: float) -> None:
    at = points(degrees, noncentrality)
    tails = NoncentralChiSquare(degrees, noncentrality).log_tails(np.array(at))
    for i, x in enumerate(at):
        lower = x <= degrees + noncentrality
        low, high = (tails.lower_low, tails.lower_high) if lower else (tails.upper_low, tails.upper_high)
        exact = truth(degrees, noncentrality, x, lower)
        assert low[i] <= exact <= high[i], x
        assert high[i] - low[i] <= 1e-12 + DIGITS * abs(exact), x


@pytest.mark.parametrize(("degrees", "noncentrality"), [(1, 0), (2, 200), (49.9, 1), (650, 2.6e5), (1e6, 1e12)])
def test_larger_tail_is_complement(degrees: float, noncentrality: float) -> None:
    at = points(degrees, noncentrality)
    tails = NoncentralChiSquare(degrees, noncentrality).log_tails(np.array(at))
    for i, x in enumerate(at):
        lower = x <= degrees + noncentrality
        rest = mp.log1p(-mp.exp(truth(degrees, noncentrality, x, lower)))
        low, high = (tails.upper_low, tails.upper_high) if lower else (tails.lower_low, tails.lower_high)
        assert low[i] <= rest <= high[i]
        log_small = truth(degrees, noncentrality, x, lower)
        assert log_small < -700 or high[i] - low[i] <= (2e-12 - 2 * DIGITS * log_small) * abs(rest)


@pytest.mark.parametrize("deviations", [-30.0, -10.0, -1.0, -1e-3, 0.0, 1e-6, 0.5, 10.0, 30.0])
def test_million_degrees_at_noncentrality_1e12_match_oracle(deviations: float) -> None:
    x = 1e12 + 1e6 + deviations * math.sqrt(2e6 + 4e12)
    tails = NoncentralChiSquare(1e6, 1e12).log_tails(np.array([x]))
    small = oracles.log_tail(1e6, 1e12, x, deviations < 0)
    rest = mp.log1p(-mp.exp(small))
    lower, upper = (small, rest) if deviations < 0 else (rest, small)
    assert tails.lower_low[0] <= lower <= tails.lower_high[0]
    assert tails.upper_low[0] <= upper <= tails.upper_high[0]
    assert tails.lower_high[0] - tails.lower_low[0] <= 1e-12 + DIGITS * abs(small)
    assert tails.upper_high[0] - tails.upper_low[0] <= 1e-12 + DIGITS * abs(small)


@pytest.mark.parametrize(
    ("degrees", "noncentrality"), [(1, 0.5), (2, 200), (3.7, 1e12), (49.9, 0), (60, 3), (1e4, 1e9)]
)
@pytest.mark.parametrize("share", [1e-9, 1e-4, 1e-2, 0.3])
def test_tails_far_below_mean_match_oracle(degrees: float, noncentrality: float, share: float) -> None:
    x = share * (degrees + noncentrality) if noncentrality < 1e9 else share
    tails = NoncentralChiSquare(degrees, noncentrality).log_tails(np.array([x]))
    most = oracles.center(degrees, noncentrality, x)[1]
    read = oracles.mixture if most < 5000 and degrees < 1000 else oracles.inversion
    exact = mp.log(read(degrees, noncentrality, x, True))
    assert tails.lower_low[0] <= exact <= tails.lower_high[0]
    assert tails.lower_high[0] - tails.lower_low[0] <= 1e-12 + DIGITS * abs(exact)


@settings(max_examples=60, deadline=None)
@given(
    degrees=st.floats(0, 9).map(lambda power: 10.0**power),
    noncentrality=st.floats(-3, 12).map(lambda power: 10.0**power),
    deviations=st.floats(-12, 12),
)
def test_tails_of_random_laws_match_oracle(degrees: float, noncentrality: float, deviations: float) -> None:
    mean, deviation = degrees + noncentrality, math.sqrt(2 * (degrees + 2 * noncentrality))
    x = mean + deviations * deviation
    x = x if x > 0.01 * mean else mean / (1 - deviations)
    tails = NoncentralChiSquare(degrees, noncentrality).log_tails(np.array([x]))
    with mpmath.workdps(oracles.DIGITS):
        exact = oracles.log_tail(degrees, noncentrality, x, x <= mean)
    low, high = (tails.lower_low, tails.lower_high) if x <= mean else (tails.upper_low, tails.upper_high)
    assert low[0] <= exact <= high[0]
    assert high[0] - low[0] <= 1e-12 + DIGITS * abs(exact)


def density(degrees: float, noncentrality: float, x: float) -> mpf:
    """Return ln of the density of the noncentral chi-square law at x, by the series of its Bessel function."""
    s, y, mean = mpf(degrees) / 2, mpf(x) / 2, mpf(noncentrality) / 2
    if mean == 0:
        return (s - 1) * mp.log(y) - y - mp.loggamma(s) - mp.log(2)
    most = oracles.center(degrees, noncentrality, x)[1]
    reach = 20 * math.sqrt(most) + 150
    first = max(0, int(most - reach))
    term = mp.exp(first * mp.log(mean * y) - mp.loggamma(first + 1) - mp.loggamma(s + first))
    total = mpf(0)
    for j in range(first, int(most + reach)):
        total += term
        term *= mean * y / ((j + 1) * (s + j))
    return mp.log(total) + (s - 1) * mp.log(y) - y - mean - mp.log(2)


@sample_of(14)
@pytest.mark.parametrize("degrees", [1, 2, 4, 4.5, 10, 49.9, 50, 650, 1e4, 1e9])
@pytest.mark.parametrize("noncentrality", [0, 1e-6, 200, 1e4])
def test_density_matches_series(degrees: float, noncentrality: float) -> None:
    at = points(degrees, noncentrality)
    low, high = NoncentralChiSquare(degrees, noncentrality).log_density(np.array(at))
    for i, x in enumerate(at):
        exact = density(degrees, noncentrality, x)
        assert low[i] <= exact <= high[i], x
        assert high[i] - low[i] <= 1e-11 + 2 * DIGITS * abs(exact), x


LEVELS = -np.array([1e-300, 1e-18, 1e-3, 0.3, math.log(2), 1.0, 5.0, 40.0, 300.0, 690.0])


@sample_of(8)
@pytest.mark.parametrize("tail", ["lower", "upper"])
@pytest.mark.parametrize(
    ("degrees", "noncentrality"),
    [(1, 0), (1, 1e-6), (2, 5), (3, 200), (1, 1e12), (50, 0), (650, 2.6e5), (1e4, 1), (1e6, 1e12), (1e9, 1e9)],
)
def test_quantiles_are_brackets(degrees: float, noncentrality: float, tail: Literal["lower", "upper"]) -> None:
    law = NoncentralChiSquare(degrees, noncentrality)
    found = quantiles(law, LEVELS, tail)
    sign = 1 if tail == "lower" else -1
    for level, below, above in zip(LEVELS, found.below, found.above, strict=True):
        assert below <= above
        for end, side in ((below, -1), (above, 1)):
            if law.span[0] <= end <= law.span[1] and level in (-5.0, -300.0):
                miss = truth(degrees, noncentrality, float(end), tail == "lower") - float(level)
                assert sign * side * miss >= 0
    inner = (found.below >= law.span[0]) & (LEVELS < -1e-12)
    # The width is that of the tail's enclosure over the tail's slope, plus a few ulps.
    x = np.where(inner, found.below, degrees + noncentrality)
    tails = law.log_tails(x)
    log_tail = tails.lower_low if tail == "lower" else tails.upper_low
    slope = x * np.exp(law.log_density(x)[0] - log_tail)
    allowed = x * (4e-15 + (1e-11 + 20 * DIGITS * np.abs(log_tail)) / slope)
    assert (found.above - found.below <= allowed)[inner].all()


def test_quantiles_at_extreme_levels_are_limits() -> None:
    law = NoncentralChiSquare(5, 2)
    lower, upper = (quantiles(law, np.array([-np.inf, 0.0]), tail) for tail in ("lower", "upper"))
    assert lower.below.tolist() == lower.above.tolist() == [0.0, np.inf]
    assert upper.below.tolist() == upper.above.tolist() == [np.inf, 0.0]


def test_quantile_below_every_double_is_bracketed() -> None:
    found = quantiles(NoncentralChiSquare(1, 0), np.array([-690.0]), "lower")
    assert found.below[0] == 0
    assert found.above[0] <= 1e-300


def test_tails_at_zero_and_infinity_are_limits() -> None:
    for law in (NoncentralChiSquare(3, 4), NoncentralChiSquare(1e6, 1e6)):
        tails = law.log_tails(np.array([0.0, 1e-320, 1e100, np.inf]))
        assert tails.lower_low[:2].tolist() == [-np.inf] * 2
        assert tails.lower_high[0] == tails.upper_high[3] == -np.inf
        assert tails.upper_low[:1].tolist() == tails.lower_low[3:].tolist() == [0.0]
        assert -np.inf < tails.upper_high[2] < -1e29
        assert (tails.lower_high <= 0).all()
        assert (tails.upper_high <= 0).all()


def test_empty_arrays_give_empty_results() -> None:
    law, nothing = NoncentralChiSquare(3, 4), np.empty(0)
    assert law.log_tails(nothing).lower_low.shape == quantiles(law, nothing, "lower").below.shape == (0,)


def test_batched_points_equal_single_points() -> None:
    law, x = NoncentralChiSquare(30, 300), np.linspace(1.0, 900.0, 2000)
    together = law.log_tails(x)
    assert (np.diff(0.5 * (together.lower_low + together.lower_high)) >= 0).all()
    for i in (0, 511, 512, 1999):
        alone = law.log_tails(x[i : i + 1])
        assert alone.lower_low[0] <= together.lower_high[i]
        assert together.lower_low[i] <= alone.lower_high[0]


@pytest.mark.parametrize(
    ("degrees", "noncentrality"), [(0.5, 1), (2e9, 1), (1, -1e-9), (1, 2e12), (math.nan, 1), (1, math.nan)]
)
def test_parameters_outside_domain_raise(degrees: float, noncentrality: float) -> None:
    with pytest.raises(ValueError, match="degrees"):
        NoncentralChiSquare(degrees, noncentrality)


def reference(quantity: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in rows("gmip") if row["quantity"] == quantity]


def law_of(row: dict[str, Any]) -> NoncentralChiSquare:
    return NoncentralChiSquare(number(row["inputs"]["d"]), number(row["inputs"]["noncentrality"]))


@pytest.mark.parametrize("row", reference("cdf"))
def test_tails_match_reference(row: dict[str, Any]) -> None:
    tails = law_of(row).log_tails(np.array([number(row["inputs"]["x"])]))
    value, tolerance = mpf(row["value"]), mpf(row["abs_tol"])
    assert mp.exp(tails.lower_low[0]) <= value + tolerance
    assert value - tolerance <= mp.exp(tails.lower_high[0])


@pytest.mark.parametrize("row", reference("quantile (lower tail p)"))
def test_quantiles_match_reference(row: dict[str, Any]) -> None:
    found = quantiles(law_of(row), np.log([number(row["inputs"]["p"])]), "lower")
    value, tolerance = mpf(row["value"]), mpf(row["abs_tol"])
    assert found.below[0] <= value + tolerance
    assert value - tolerance <= found.above[0]


def test_arctan_has_assumed_accuracy() -> None:
    arguments = np.random.default_rng(5).uniform(0.2, 100.0, 1500)
    for argument, value in zip(arguments.tolist(), np.arctan(arguments).tolist(), strict=True):
        exact = mp.atan(mpf(argument))
        assert abs(value - exact) <= FUNCTION_ERROR * exact


def test_densities_keep_digits_at_every_size() -> None:
    """Densities keep their digits for one degree of freedom to a million, and 12 deviations from the mean and beyond.

    For one degree, the noncentrality is up to 1e12.
    """
    source = random.Random(3)
    many: Any = mpmath
    with many.workdps(50):
        for _ in range(80):
            degrees = int(math.exp(source.uniform(0, math.log(1e6)))) if source.random() < 0.6 else source.randint(1, 6)
            size = math.exp(source.uniform(math.log(1e-3), math.log(1e12 if degrees == 1 else 1e4)))
            size = size if source.random() < 0.9 else 0.0
            mean, deviation = many.mpf(degrees) + many.mpf(size), math.sqrt(2 * degrees + 4 * size)
            for over in (source.uniform(-12, 12) * deviation, -source.random() * float(mean)):
                x = mean + many.mpf(over)
                if x <= 0:
                    continue
                half = many.mpf(degrees) / 2
                truth = (half - 1) * many.log(x / 2) - (x + size) / 2 - many.log(2) - many.loggamma(half)
                root = many.sqrt(size * x)
                bessel = many.log(many.cosh(root) if degrees == 1 else many.hyp0f1(half, root * root / 4))
                truth += bessel
                value, error, _ = log_density(degrees, size, np.array([float(x)]), np.array([over]))
                assert abs(float(many.mpf(float(value[0])) - truth)) <= error[0]
                width = 1e-12 + 2e-14 * abs(float(truth)) + 1e-14 * over * over / float(mean)
                assert error[0] <= width * (70 if degrees < 66 else 1)
