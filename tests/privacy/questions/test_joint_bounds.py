"""Bounds from other numbers of the same curve: exact numbers of Gaussian runs lie inside, and known laws are used."""

from __future__ import annotations

import math
from typing import Final

import mpmath
import numpy as np
import pytest

from service.privacy.questions.joint_bounds import JointBounds
from tests.slow_marker import sample_of

DIGITS: Final = 60


def log_profile(mu: float, eps: float) -> float:
    """Return ln delta(eps) of mu-GDP: ln of Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)."""
    with mpmath.workdps(DIGITS):
        far = mpmath.mpf(eps) / mu
        return float(mpmath.log(mpmath.ncdf(mu / 2 - far) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - far)))


def log_power(mu: float, alpha: float) -> float:
    """Return ln Phi(mu + Phi^-1(alpha)), the logarithm of the power of mu-GDP at the rate alpha."""
    with mpmath.workdps(DIGITS):
        quantile = mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - mpmath.log(alpha), -math.sqrt(2))
        return float(mpmath.log(mpmath.ncdf(mu + quantile)))


def around(value: float, random: np.random.Generator) -> tuple[float, float]:
    """Draw a random enclosure of the value, often a wide one."""
    below, above = 10 ** random.uniform(-12, 2, 2)
    return value - below, value + above


@sample_of(15)
@pytest.mark.parametrize("seed", range(40))
def test_exact_values_lie_between_bounds(seed: int) -> None:
    random = np.random.default_rng([3107, seed])
    mu = float(random.uniform(0.4, 4))
    known = JointBounds()
    for eps in random.uniform(0, 6, 5).tolist():
        low, high = around(log_profile(mu, eps), random)
        known.profile[eps] = low, min(high, 0.0)
    for alpha in (10 ** random.uniform(-9, -0.1, 5)).tolist():
        low, high = around(log_power(mu, alpha), random)
        known.power[alpha] = low, min(high, 0.0)
    for eps in random.uniform(0.1, 6, 3).tolist():
        delta = math.exp(log_profile(mu, eps))
        known.epsilon[delta] = max(eps - float(random.exponential(0.3)), 0.0), eps + float(random.exponential(0.3))
    for eps in random.uniform(0, 7, 6).tolist():
        truth = log_profile(mu, eps)
        low, high = known.log_profile(eps)
        assert low <= truth + 1e-15 * abs(truth)
        assert truth <= high + 1e-15 * abs(truth)
        delta = math.exp(truth)
        least, most = known.epsilon_ends(delta)
        assert least <= eps * (1 + 1e-12) + 1e-12
        assert eps * (1 - 1e-12) - 1e-12 <= most
    for alpha in (10 ** random.uniform(-10, -0.05, 6)).tolist():
        truth = log_power(mu, alpha)
        low, high = known.log_power(alpha)
        assert low <= truth <= high


def test_delta_at_smaller_epsilon_is_upper_bound() -> None:
    known = JointBounds(profile={1.0: (-20.0, -19.0), 3.0: (-math.inf, 0.0)})
    assert known.log_profile(3.0) == (-math.inf, -19.0)


def test_delta_at_larger_epsilon_is_lower_bound() -> None:
    known = JointBounds(profile={2.0: (-20.0, -19.0)})
    assert known.log_profile(1.0)[0] == -20.0


def test_chords_bound_the_profile() -> None:
    known = JointBounds(profile={0.0: (-math.inf, math.log(0.5)), math.log(3): (-math.inf, -math.inf)})
    assert known.log_profile(math.log(2))[1] == pytest.approx(math.log(0.25), rel=1e-9)
    assert known.log_profile(math.log(2))[1] >= math.log(0.25)


def test_epsilon_at_smaller_delta_is_upper_bound() -> None:
    known = JointBounds(epsilon={1e-3: (0.8, 7.0), 1e-5: (1.3, 1.4)})
    least, most = known.epsilon_ends(1e-3)
    assert least == 0.8
    assert most <= 1.4


def test_powers_bound_epsilon() -> None:
    known = JointBounds(power={0.01: (math.log(0.5), math.log(0.6))})
    assert known.epsilon_ends(1e-6)[0] == pytest.approx(math.log((0.5 - 1e-6) / 0.01), rel=1e-9)


def test_delta_bounds_power() -> None:
    known = JointBounds(profile={0.0: (-math.inf, math.log(1e-3))})
    assert known.log_power(0.1)[1] == pytest.approx(math.log(0.101), rel=1e-9)


def test_repeated_number_keeps_its_own_bounds() -> None:
    known = JointBounds(power={1e-3: (-5.5, -5.45)}, epsilon={1e-6: (1.5, 1.6)})
    low, high = known.log_power(1e-3)
    assert -5.5 <= low <= high <= -5.45
    low, high = known.epsilon_ends(1e-6)
    assert 1.5 <= low <= high <= 1.6


def test_without_known_numbers_bounds_are_trivial() -> None:
    known = JointBounds()
    assert known.log_profile(1.0) == (-math.inf, 0.0)
    assert known.log_power(0.5)[1] == 0.0
    assert known.epsilon_ends(0.1) == (0.0, math.inf)


@pytest.mark.parametrize("eps", [0.0, 1e-300, 1e-9, 700.0, 1e5, 1e7])
def test_extreme_arguments_have_bounds(eps: float) -> None:
    known = JointBounds(profile={0.0: (-1.0, -0.5), 1e7: (-1e9, -1e8)}, power={1e-300: (-2.0, -1.0)})
    low, high = known.log_profile(eps)
    assert low <= high


@pytest.mark.parametrize("alpha", [5e-324, 1e-323, 1.5e-323, 1e-310])
def test_chords_at_subnormal_rates_do_not_exceed_power(alpha: float) -> None:
    known = JointBounds(power={0.6: (math.log(0.6), math.log(0.6))})  # Of a run that reveals nothing: P(alpha) = alpha.
    assert known.log_power(alpha)[0] <= math.log(alpha)


@pytest.mark.parametrize("seed", range(20))
def test_epsilon_is_bounded_by_chords(seed: int) -> None:
    random = np.random.default_rng([3108, seed])
    mu, eps = float(random.uniform(0.4, 4)), float(random.uniform(0.5, 6))
    known = JointBounds()
    for near in (eps - 1e-3, eps + 1e-3):
        known.profile[near] = -math.inf, log_profile(mu, near)
    most = known.epsilon_ends(math.exp(log_profile(mu, eps)))[1]
    assert eps * (1 - 1e-12) <= most <= eps + 1e-5
