"""Sampling of any curve: against known curves of shifted laws, and laws for all curves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.threat_models.membership_step import full_batches
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.sampling.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.sampling.sampled import SampledAdd
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff
from tests.slow_marker import sample_of

RATES = np.concatenate((np.geomspace(1e-290, 0.5, 40), 1 - np.geomspace(1e-12, 0.5, 20)))
EPSILONS = np.array([-5.0, -1.0, -0.1, -0.01, 0.0, 0.001, 0.1, 0.5, 1.0, 3.0, 10.0])
SHIFTED = [GaussianTradeOff(Enclosure.point(mu)) for mu in (0.01, 1.0, 5.0)] + [LaplaceTradeOff(Enclosure.point(1.0))]
OTHERS = [
    full_batches(10, 10.0, Fraction(10), 1),
    full_batches(650, 650.0, Fraction(400), 1).reversed(),
    ApproximateDpTradeOff(1.0, 0.2),
    ApproximateDpTradeOff(0.0, 1.0),
]
SAMPLE_RATES = [1e-6, 0.01, 0.5, 0.99]


def meet(one: EnclosureArray, other: EnclosureArray) -> bool:
    return bool((one.lower <= other.upper).all() and (other.lower <= one.upper).all())


@pytest.mark.parametrize("base", SHIFTED)
@pytest.mark.parametrize("rate", SAMPLE_RATES)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_sampled_shifted_laws_match_known_curves(
    base: GaussianTradeOff | LaplaceTradeOff, rate: float, direction: str
) -> None:
    ours: AbstractTradeOff = SampledAdd(base, rate)
    known: AbstractTradeOff = PoissonSampledAdd(base, rate)
    if direction == "remove":
        ours, known = ours.reversed(), known.reversed()
    mine, theirs = ours.points(RATES), known.points(RATES)
    for one, other in ((mine.power, theirs.power), (mine.type_two_error, theirs.type_two_error)):
        assert meet(one, other)
        assert (one.upper - one.lower <= 1e-7 * one.upper + 1e-300).all()
    assert meet(ours.profile(EPSILONS), known.profile(EPSILONS))
    for delta in (1e-8, 1e-3, 0.2):
        found, expected = ours.epsilon(delta), known.epsilon(delta)
        assert found.lower <= expected.upper
        assert expected.lower <= found.upper


@sample_of(3)
@pytest.mark.parametrize("base", OTHERS)
@pytest.mark.parametrize("rate", SAMPLE_RATES)
def test_inverse_and_profile_are_consistent(base: AbstractTradeOff, rate: float) -> None:
    add = SampledAdd(base, rate)
    remove = add.reversed()
    alpha = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9])
    errors = add.type_two_error(alpha)
    # Type II errors of the inverse function are rates again; both functions decrease.
    assert (remove.type_two_error(errors.upper).lower <= alpha * (1 + 1e-9)).all()
    flat = errors.lower <= 0
    assert (flat | (remove.type_two_error(errors.lower).upper >= alpha * (1 - 1e-9))).all()
    for epsilon in (0.001, 0.3, 1.0):
        reflected = -math.expm1(-epsilon) + math.exp(-epsilon) * remove.profile_at(epsilon).upper
        assert add.profile_at(-epsilon).upper == pytest.approx(reflected, rel=1e-9)
    assert add.profile(EPSILONS).upper == pytest.approx(_conjugate(add), abs=2e-3)


def _conjugate(curve: AbstractTradeOff) -> list[float]:
    alpha = np.concatenate(([0.0], np.geomspace(1e-15, 0.5, 4000), 1 - np.geomspace(1e-15, 0.5, 4000)))
    power = curve.power(alpha).upper
    return [float((power - math.exp(epsilon) * alpha).max()) for epsilon in EPSILONS.tolist()]


def test_singular_mass_is_sampled() -> None:
    curve = SampledAdd(ApproximateDpTradeOff(0.0, 1.0), 0.25)
    assert curve.singular_power.upper == pytest.approx(0.25)
    assert curve.power_at(0.5).upper == pytest.approx(0.625)
    assert curve.epsilon(0.1).lower == math.inf
    inverse = curve.reversed()
    assert inverse.singular_power.upper == 0
    assert inverse.power_at(0.3).upper == pytest.approx(0.4)
    assert inverse.largest_log_ratio.upper == pytest.approx(-math.log(0.75))
