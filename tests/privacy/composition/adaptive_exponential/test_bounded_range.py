"""Exponential mechanism against its definition, and against pairs of outcomes at the shift with the largest power.

Extreme parameters are compared at 800 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.enclosure import EnclosureArray
from service.privacy.trade_off.bounded_range import ExponentialTradeOff, exponential_curve
from tests.privacy.cases import built

RANGES = (5e-324, 1e-300, 1e-160, 1e-12, 1e-3, 0.7, 3.0, 50.0, 599.0, 601.0, 690.0, 720.0, 1e4, 1e6)
RATES = np.array([5e-324, 1e-310, 1e-300, 1e-120, 1e-12, 0.01, 0.3, 0.5, 0.7, 1 - 1e-6, 1 - 2.0**-53])


def largest(reading: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """Return the maximum of the unimodal function `reading` over [low, high], by golden sections."""
    share = (mpmath.sqrt(5) - 1) / 2
    for _ in range(110):
        left, right = high - share * (high - low), low + share * (high - low)
        low, high = (left, high) if reading(left) < reading(right) else (low, right)
    return reading((low + high) / 2)


def two_outcomes(eta: mpf, shift: mpf, e: mpf) -> mpf:
    """Return delta at epsilon = `e` of two outcomes with the losses `shift` and `shift - eta`.

    delta is the sum of (P1 - e^epsilon P0)_+ over both outcomes, with their probabilities P0 and P1 under H0 and H1.
    """
    first = (1 - mpmath.exp(shift - eta)) / (mpmath.exp(shift) - mpmath.exp(shift - eta))
    masses = ((first, shift), (1 - first, shift - eta))
    return mpmath.fsum(max(mass * (mpmath.exp(loss) - mpmath.exp(e)), mpf(0)) for mass, loss in masses)


def profile(eta: float, e: float) -> mpf:
    if e >= eta:
        return mpf(0)
    if e < -eta:
        return -mpmath.expm1(mpf(e))
    return mpmath.expm1((mpf(e) - mpf(eta)) / 2) ** 2 / -mpmath.expm1(-mpf(eta))


def assert_encloses(bounds: EnclosureArray, index: int, truth: mpf) -> None:
    assert mpf(float(bounds.lower[index])) <= truth <= mpf(float(bounds.upper[index]))
    if truth > 0 and bounds.log_lower is not None and bounds.log_upper is not None:
        log = mpmath.log(truth)
        assert mpf(float(bounds.log_lower[index])) <= log <= mpf(float(bounds.log_upper[index]))


@pytest.mark.parametrize("eta", [1e-6, 0.3, 1.0, 4.0, 20.0])
def test_profile_is_that_of_worst_two_outcome_shift(eta: float) -> None:
    epsilons = eta * np.array([-1.3, -1.0, -0.6, 0.0, 0.1, 0.8, 0.999, 1.0, 1.2])
    bounds = ExponentialTradeOff(eta).profile(epsilons)
    with mpmath.workdps(40):
        for index, e in enumerate(epsilons.tolist()):
            # Other shifts put both losses on the same side of e, and give no further condition.
            low, high = max(mpf(0), mpf(e)), min(mpf(eta), mpf(eta) + mpf(e))
            if low > high:
                low, high = mpf(0), mpf(eta)
            worst = largest(lambda shift, e=e: two_outcomes(mpf(eta), shift, mpf(e)), low, high)
            # The golden section stops near the maximum, where the function is flat.
            assert mpf(float(bounds.lower[index])) <= worst * (1 + mpf("1e-30"))
            assert worst * (1 - mpf("1e-30")) <= mpf(float(bounds.upper[index]))


@pytest.mark.parametrize("eta", [0.3, 1.0, 4.0, 20.0])
def test_power_is_conjugate_of_profile(eta: float) -> None:
    """The power at each rate alpha is the minimum over epsilon of delta(epsilon) + e^epsilon alpha, in 40 digits."""
    rates = np.array([1e-9, 0.02, 0.5, 0.9])
    power = ExponentialTradeOff(eta).power(rates)
    with mpmath.workdps(40):
        for index, rate in enumerate(rates.tolist()):

            def tangent(e: mpf, rate: float = rate) -> mpf:
                return -(mpmath.expm1((e - mpf(eta)) / 2) ** 2 / -mpmath.expm1(-mpf(eta)) + mpmath.exp(e) * mpf(rate))

            least = -largest(tangent, mpf(-eta), mpf(eta))
            assert mpf(float(power.lower[index])) <= least * (1 + mpf("1e-30"))
            assert least * (1 - mpf("1e-30")) <= mpf(float(power.upper[index]))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_random_exponential_mechanism_has_at_most_this_power(epsilon: float) -> None:
    """No random exponential mechanism, whose scores change by at most Delta = 1, has more power than the curve."""
    generator = np.random.default_rng(7)
    curve = ExponentialTradeOff(epsilon)
    for outcomes in (2, 3, 40):
        scores = generator.normal(size=outcomes)
        for moved in (generator.uniform(-1, 1, outcomes), generator.choice([-1.0, 1.0], outcomes)):
            first, second = (np.exp(0.5 * epsilon * score) for score in (scores, scores + moved))
            first, second = first / first.sum(), second / second.sum()
            order = np.argsort(-second / first)
            rates, powers = np.cumsum(first[order])[:-1], np.cumsum(second[order])[:-1]
            assert (powers <= curve.power(rates).upper + 1e-14).all()


@pytest.mark.parametrize("eta", RANGES)
def test_points_match_800_digits_at_any_range(eta: float) -> None:
    points = exponential_curve(eta).points(RATES)
    with mpmath.workdps(800):
        tail = mpmath.exp(-mpf(eta))
        for index, rate in enumerate(map(mpf, RATES.tolist())):
            missed = (1 - rate) * tail
            assert_encloses(points.power, index, rate / (rate + missed))
            assert_encloses(points.type_two_error, index, missed / (rate + missed))
            slope = mpf(eta) - 2 * mpmath.log1p(rate * mpmath.expm1(mpf(eta)))
            assert mpf(float(points.log_slope.lower[index])) <= slope <= mpf(float(points.log_slope.upper[index]))
    normal = RATES >= 1e-300
    assert (points.power.upper[normal] - points.power.lower[normal] <= 2e-14 * points.power.upper[normal]).all()


@pytest.mark.parametrize("eta", RANGES)
def test_profiles_match_high_precision_at_any_range(eta: float) -> None:
    shares = np.array([0, 0.3, 0.999999, 1 - 1e-15, 1.0, 1.0000001, -0.5, -0.99999, -1.0, -1.000001, -2.0])
    epsilons = np.concatenate((eta * shares, [1.0, -1.0, 3e5]))
    bounds = exponential_curve(eta).profile(epsilons)
    with mpmath.workdps(400):
        for index, e in enumerate(epsilons.tolist()):
            assert_encloses(bounds, index, profile(eta, e))
    sized = bounds.lower > 1e-300
    assert (bounds.upper[sized] - bounds.lower[sized] <= 1e-14 * bounds.upper[sized]).all()


@pytest.mark.parametrize("eta", RANGES)
def test_epsilons_match_400_digits_at_any_range(eta: float) -> None:
    curve = exponential_curve(eta)
    with mpmath.workdps(400):
        for delta in (5e-324, 1e-300, 1e-14, 1e-6, 0.1, 0.5, 0.9, 1 - 1e-9, 1 - 2.0**-53, eta / 5):
            if not 0 < delta < 1:
                continue
            answer = curve.epsilon(delta)
            assert profile(eta, answer.upper) <= mpf(delta)
            assert answer.lower == 0 or profile(eta, answer.lower) >= mpf(delta)
            assert answer.upper - answer.lower <= 1e-13 * eta


@pytest.mark.parametrize("eta", [1e-9, 0.2, 1.0, 7.0, 40.0])
def test_global_gdp_mu_touches_at_equal_errors(eta: float) -> None:
    """The smallest mu that holds for the whole curve is the largest value of G(x + eta) - G(x), at x = -eta/2.

    G is the normal quantile of the logistic distribution function, and eta the range of the loss.
    """
    known = ExponentialTradeOff(eta).global_gdp_mu

    def normal_score(x: mpf) -> mpf:
        return mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(x / 2))

    with mpmath.workdps(60):
        touching = 2 * normal_score(mpf(eta) / 2)
        assert mpf(known.lower) <= touching <= mpf(known.upper)
        for share in (-0.9, -0.6, -0.4999, -0.3, 0.1):
            x = mpf(eta) * mpf(share)
            assert normal_score(x + mpf(eta)) - normal_score(x) < touching
    assert known.relative_width() < 1e-13


def test_range_of_zero_reveals_nothing() -> None:
    curve = built({"type": "exponential", "epsilon": 0.0}).elementary_steps()[0][0].curves().add
    assert curve.power(np.array([0.3])).upper[0] == 0.3
    assert curve.epsilon(0.0).upper == 0.0
    assert math.isclose(float(curve.profile(np.array([-1.0])).upper[0]), -math.expm1(-1.0))
