"""Closed-form curves against thresholds and distribution functions at 60 to 400 digits, tails included."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.enclosure import EnclosureArray
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy import oracles
from tests.privacy.cases import built, gaussian, laplace, sampled
from tests.slow_marker import sample_of

RATES = np.array([1e-300, 1e-120, 1e-30, 1e-12, 1e-5, 0.02, 0.5, 0.77, 1 - 1e-6, 1 - 2.0**-50])
ROWS: list[tuple[dict[str, Any], oracles.Pair]] = []
for noise in (0.04, 0.6, 1.0, 3.7, 150.0, 2e4, 1e9):
    ROWS.extend([(gaussian(noise), oracles.gaussian_pair(noise)), (laplace(noise), oracles.laplace_pair(noise))])
for noise, rate in ((0.3, 1e-6), (1.0, 0.01), (0.5, 0.9), (40.0, 0.2), (2.0, 1 - 2.0**-30), (3.0, 1e-12)):
    ROWS.extend(
        [
            (sampled(rate, gaussian(noise)), oracles.gaussian_pair(noise, rate)),
            (sampled(rate, laplace(noise)), oracles.laplace_pair(noise, rate)),
        ]
    )

every_row = pytest.mark.parametrize(
    ("spec", "oracle"), ROWS, ids=lambda part: str(part) if isinstance(part, dict) else ""
)


@pytest.fixture(autouse=True)
def many_digits() -> Iterator[None]:
    with mpmath.workdps(400):
        yield


def pair_of(spec: dict[str, Any]) -> TradeOffPair:
    return WorstCase().curves(built(spec))


def assert_encloses(bounds: EnclosureArray, index: int, truth: mpf) -> None:
    assert mpf(float(bounds.lower[index])) <= truth <= mpf(float(bounds.upper[index]))
    if 0 < truth < 0.5 and bounds.log_lower is not None and bounds.log_upper is not None:
        log = mpmath.log(truth)
        assert mpf(float(bounds.log_lower[index])) <= log <= mpf(float(bounds.log_upper[index]))


def width(bounds: EnclosureArray, index: int) -> float:
    """Return the relative width of an enclosure, from logarithms where the bounds underflow."""
    if bounds.upper[index] > 1e-290:
        return float((bounds.upper[index] - bounds.lower[index]) / bounds.upper[index])
    if bounds.log_lower is None or bounds.log_upper is None or not np.isfinite(bounds.log_upper[index]):
        return 0.0
    return -math.expm1(float(bounds.log_lower[index] - bounds.log_upper[index]))


@sample_of(12)
@every_row
def test_points_match_thresholds_in_many_digits(spec: dict[str, Any], oracle: oracles.Pair) -> None:
    pair = pair_of(spec)
    for curve, truth in ((pair.add, oracle.add), (pair.remove, oracle.remove)):
        points = curve.points(RATES)
        with mpmath.workdps(50):
            for index, rate in enumerate(RATES.tolist()):
                power, beta = truth(rate)
                assert_encloses(points.power, index, power)
                assert_encloses(points.type_two_error, index, beta)
                # Rounding of the threshold costs x^2 u; rates this small have a threshold near 37.
                assert width(points.power, index) <= 1e-11


@sample_of(12)
@every_row
def test_profiles_match_oracle(spec: dict[str, Any], oracle: oracles.Pair) -> None:
    pair = pair_of(spec)
    mu = float(oracle.mu)
    reach = [0.0, 1e-9, 0.3 * mu, 0.999 * mu, mu, 1.7 * mu, mu * mu / 2 + 8 * mu, mu * mu / 2 + 40 * mu, 3.0]
    if oracle.rate < 1:
        edge = float(-mpmath.log1p(-oracle.rate))
        reach += [0.5 * edge, 0.999 * edge, edge * (1 + 1e-9), 1.01 * edge]
    epsilons = np.array(reach + [-eps for eps in reach[1:]])
    for curve, remove in ((pair.add, False), (pair.remove, True)):
        profile = curve.profile(epsilons)
        for index, eps in enumerate(epsilons.tolist()):
            assert_encloses(profile, index, true_delta(oracle, eps, remove))


def true_delta(oracle: oracles.Pair, eps: float, remove: bool) -> mpf:
    factor = mpmath.exp(mpf(eps))
    t = oracles.threshold(oracle, 1 / factor if remove else factor)
    if remove:
        if t is None:
            return 1 - factor
        return mpf(0) if t == -mpmath.inf else oracle.delta_remove(eps, t)
    if t == -mpmath.inf:
        return 1 - factor
    return oracle.delta_add(eps, t)


@sample_of(12)
@every_row
def test_epsilons_match_oracle(spec: dict[str, Any], oracle: oracles.Pair) -> None:
    pair = pair_of(spec)
    for curve, remove in ((pair.add, False), (pair.remove, True)):
        for delta in (1e-300, 1e-40, 1e-9, 1e-3, 0.4):
            eps = curve.epsilon(delta)
            assert true_delta(oracle, eps.upper, remove) <= mpf(delta)
            assert eps.lower == 0 or true_delta(oracle, eps.lower, remove) >= mpf(delta)
            assert eps.upper - eps.lower <= 1e-11 * max(eps.upper, 1e-6 * float(oracle.mu))


def test_delta_below_smallest_double_keeps_its_logarithm() -> None:
    profile = pair_of(gaussian(1.0)).add.profile(np.array([70.0, 1000.0]))
    oracle = oracles.gaussian_pair(1.0)
    for index, eps in enumerate((70.0, 1000.0)):
        assert_encloses(profile, index, true_delta(oracle, eps, remove=False))
        assert width(profile, index) <= 1e-9
    assert profile.log_upper is not None
    assert profile.log_upper[1] / math.log(10) < -200_000


def test_shift_of_1e_minus_300_is_answered() -> None:
    curve = pair_of({"type": "gdp", "mu": 1e-300}).add
    profile = curve.profile(np.array([0.0, 1.0, 1e6]))
    assert profile.lower[0] <= 1e-300 / math.sqrt(2 * math.pi) <= profile.upper[0]
    assert (profile.upper[0] - profile.lower[0]) / profile.upper[0] < 1e-11
    assert profile.lower[1] == 0
    assert profile.upper[1] <= 5e-324
    strong = pair_of({"type": "gdp", "mu": 1e6}).add.points(np.array([1e-300]))
    assert strong.power.lower[0] > 1 - 1e-15
    assert strong.type_two_error.log_upper is not None
    assert -5.1e11 < strong.type_two_error.log_upper[0] < -4.9e11


def test_billion_steps_match_one_gaussian() -> None:
    """10^9 steps with noise 10^5 equal one Gaussian with mu = sqrt(10^9)/10^5."""
    spec = {"type": "repeated", "mechanism": gaussian(1e5), "steps": 10**9}
    points = pair_of(spec).add.points(RATES)
    with mpmath.workdps(50):
        oracle = oracles.Pair(oracles.normal_tail, mpmath.sqrt(mpf(10) ** 9) / 10**5, mpf(1))
        for index, rate in enumerate(RATES.tolist()):
            power, beta = oracle.add(rate)
            assert_encloses(points.power, index, power)
            assert_encloses(points.type_two_error, index, beta)


@sample_of(3)
@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.5), (0.5, 0.9), (2.0, 0.05)])
@pytest.mark.parametrize("law", [(gaussian, oracles.gaussian_pair), (laplace, oracles.laplace_pair)])
def test_power_of_both_is_smallest_tangent_of_larger_profile(law: Any, noise: float, rate: float) -> None:
    """The power of both directions is the minimum over c of max(delta_add, delta_remove)(c) + e^c alpha.

    The oracle finds the minimum by ternary search.
    """
    both, oracle = pair_of(sampled(rate, law[0](noise))).both, law[1](noise, rate)
    with mpmath.workdps(40):
        for alpha in (1e-6, 0.02, 0.3, 0.6, 0.97):

            def tangent(c: float, alpha: float = alpha) -> mpf:
                larger = max(true_delta(oracle, c, remove=False), true_delta(oracle, c, remove=True))
                return larger + mpmath.exp(mpf(c)) * mpf(alpha)

            low, high = -20.0, 20.0
            for _ in range(160):
                left, right = low + (high - low) / 3, high - (high - low) / 3
                low, high = (low, right) if tangent(left) <= tangent(right) else (left, high)
            smallest = min(tangent(low), tangent(high), tangent(0.0))
            power = both.power(np.array([alpha]))
            beta = both.type_two_error(np.array([alpha]))
            # The error of ternary search in doubles is far below 1e-13.
            assert mpf(float(power.lower[0])) <= smallest <= mpf(float(power.upper[0])) * (1 + mpf("1e-13"))
            assert mpf(float(beta.lower[0])) * (1 - mpf("1e-13")) <= 1 - smallest + mpf("1e-14")
            assert 1 - smallest <= mpf(float(beta.upper[0])) * (1 + mpf("1e-13"))
