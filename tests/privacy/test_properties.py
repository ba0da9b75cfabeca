"""Properties for any parameters: hypothesis searches for a mechanism that violates them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy import oracles
from tests.privacy.cases import built, gaussian, laplace, sampled


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


noises = log_uniform(-1.5, 15) | st.sampled_from([1.0, 0.25, 1e-2, 1e15])
sample_rates = (
    log_uniform(-12, -1e-9) | st.floats(0.5, 1 - 2.0**-50) | st.sampled_from([5e-324, 2.0**-60, 1 - 2.0**-53])
)
rates = log_uniform(-300, -0.01) | st.floats(0.5, 1 - 2.0**-53)
epsilons = st.floats(-60, 60) | log_uniform(-300, 6) | log_uniform(-300, 6).map(lambda value: -value)
Law = tuple[Callable[[float], dict[str, Any]], Callable[[float, float], oracles.Pair]]
laws = st.sampled_from([(gaussian, oracles.gaussian_pair), (laplace, oracles.laplace_pair)])
quick = settings(max_examples=60, deadline=None, derandomize=True)


@quick
@given(law=laws, noise=noises, sample_rate=sample_rates | st.just(1.0), rate=rates)
def test_points_enclose_the_truth(law: Law, noise: float, sample_rate: float, rate: float) -> None:
    spec, oracle = law
    curves, truth = pair(sampled(sample_rate, spec(noise))), oracle(noise, sample_rate)
    with mpmath.workdps(50):
        for curve, exact in ((curves.add, truth.add), (curves.remove, truth.remove)):
            points, (power, beta) = curve.points(np.array([rate])), exact(rate)
            for bounds, value in ((points.power, power), (points.type_two_error, beta)):
                # The oracle rounds to 50 digits: at power = rate a bound is exact.
                assert mpf(float(bounds.lower[0])) <= value * (1 + mpf(10) ** -48)
                assert value * (1 - mpf(10) ** -48) <= mpf(float(bounds.upper[0]))


@quick
@given(law=laws, noise=noises, sample_rate=sample_rates | st.just(1.0), eps=epsilons)
def test_directions_are_consistent(law: Law, noise: float, sample_rate: float, eps: float) -> None:
    """Both directions keep delta_remove(eps) = 1 - e^eps + e^eps delta_add(-eps), in 400-digit arithmetic on the
    enclosures.
    """
    curves = pair(sampled(sample_rate, law[0](noise)))
    remove, add = curves.remove.profile(np.array([eps])), curves.add.profile(np.array([-eps]))
    with mpmath.workdps(400):
        factor = mpmath.exp(mpf(eps))
        low = 1 - factor + factor * mpf(float(add.lower[0]))
        high = 1 - factor + factor * mpf(float(add.upper[0]))
        assert mpf(float(remove.lower[0])) <= high
        assert low <= mpf(float(remove.upper[0]))


@quick
@given(law=laws, noise=noises, sample_rate=sample_rates, rate=rates)
def test_both_is_at_least_either_and_self_inverse(law: Law, noise: float, sample_rate: float, rate: float) -> None:
    curves = pair(sampled(sample_rate, law[0](noise)))
    add, remove, both = (getattr(curves, name).points(np.array([rate])) for name in ("add", "remove", "both"))
    assert both.power.upper[0] >= max(add.power.lower[0], remove.power.lower[0])
    assert both.type_two_error.lower[0] <= min(add.type_two_error.upper[0], remove.type_two_error.upper[0])
    assert both.power.upper[0] - both.power.lower[0] <= 1e-9 * both.power.upper[0] + 1e-290
    beta = float(both.type_two_error.upper[0])
    if 1e-290 < beta < 1:
        back = curves.both.type_two_error(np.array([beta]))
        assert back.lower[0] <= rate


@quick
@given(law=laws, noise=noises, sample_rate=sample_rates | st.just(1.0), delta=log_uniform(-300, -0.01))
def test_epsilon_inverts_the_profile(law: Law, noise: float, sample_rate: float, delta: float) -> None:
    curves = pair(sampled(sample_rate, law[0](noise)))
    for curve in (curves.add, curves.remove):
        eps = curve.epsilon(delta)
        ends = curve.profile(np.array([eps.lower, eps.upper]))
        assert ends.lower[1] <= delta
        assert eps.lower == 0 or ends.upper[0] >= delta
        assert not math.isinf(eps.upper)


@quick
@given(mu=log_uniform(-300, 6), eps=log_uniform(-12, 6))
def test_profiles_of_any_shift_are_ordered(mu: float, eps: float) -> None:
    curve = pair({"type": "gdp", "mu": mu}).add
    profile = curve.profile(np.array([eps, -eps, 0.0]))
    assert (profile.lower <= profile.upper).all()
    assert profile.lower[0] <= profile.upper[2]
    assert profile.lower[2] <= profile.upper[1]
    with mpmath.workdps(50):
        truth = mpmath.erf(mpf(mu) / mpmath.sqrt(8))
        assert mpf(float(profile.lower[2])) <= truth <= mpf(float(profile.upper[2]))


def pair(spec: dict[str, Any]) -> TradeOffPair:
    return WorstCase().curves(built(spec))
