"""A curve combined with singular mass: the numbers of the definition, in many digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.enclosure import Enclosure
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.with_singular_mass import SingularMass, WithSingularMass
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.sampling.sampled import SampledAdd
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

RATES = np.concatenate((np.geomspace(1e-300, 1e-3, 9), np.linspace(0.05, 0.95, 11), 1 - np.geomspace(1e-3, 1e-12, 4)))
EPSILONS = np.array([-700.0, -3.0, -0.2, 0.0, 1e-9, 0.4, 1.0, 3.0, 50.0])
PARTS = [
    [(1e-300, 1)],
    [(1e-12, 1), (1e-9, 3)],
    [(1e-5, 1000)],
    [(0.25, 1)],
    [(0.3, 2), (0.001, 7)],
    [(0.5, 100)],
    [(0.01, 10**12)],
]
CURVES: tuple[AbstractTradeOff, ...] = (
    ApproximateDpTradeOff(1.0, 0.0),
    ApproximateDpTradeOff(0.0, 0.0),
    gaussian_curve(Enclosure.point(1.0)),
    SampledAdd(gaussian_curve(Enclosure.point(2.0)), 0.1),
)


def exact_rest(parts: list[tuple[float, int]]) -> mpf:
    return mpmath.fprod((1 - mpf(delta)) ** count for delta, count in parts)


@pytest.mark.parametrize("parts", PARTS)
def test_masses_of_many_steps_match_many_digits(parts: list[tuple[float, int]]) -> None:
    found = SingularMass.of(parts)
    with mpmath.workdps(400):
        rest = exact_rest(parts)
        assert found.mass.lower <= 1 - rest <= found.mass.upper
        assert found.rest.lower <= rest <= found.rest.upper
        assert found.exponent.lower <= -mpmath.log(rest) <= found.exponent.upper
    assert found.mass.upper - found.mass.lower <= 1e-13 * found.mass.upper


def test_masses_of_zero_and_one_are_exact() -> None:
    nothing, everything = SingularMass.of([(0.0, 5)]), SingularMass.of([(0.5, 2), (1.0, 1)])
    assert (nothing.mass.upper, nothing.rest.lower, nothing.exponent.upper) == (0, 1, 0)
    assert (everything.mass.lower, everything.rest.upper, everything.exponent.lower) == (1, 0, math.inf)
    hopeless = WithSingularMass(CURVES[2], everything)
    points = hopeless.points(RATES)
    assert (points.power.lower == 1).all()
    assert (points.type_two_error.upper == 0).all()
    assert (hopeless.profile(EPSILONS).lower == 1).all()
    assert hopeless.epsilon(0.5).lower == math.inf
    whole = WithSingularMass(CURVES[2], nothing)
    assert (whole.power(RATES).lower == CURVES[2].power(RATES).lower).all()
    assert whole.epsilon(1e-5) == CURVES[2].epsilon(1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 4.0, 900.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 0.1, 0.9])
def test_one_step_matches_approximate_dp(epsilon: float, delta: float) -> None:
    """A step of (eps, delta)-DP has the curve of its pure part beside a probability delta of revealing everything."""
    joined = WithSingularMass(ApproximateDpTradeOff(epsilon, 0.0), SingularMass.of([(delta, 1)]))
    known = ApproximateDpTradeOff(epsilon, delta)
    mine, other = joined.points(RATES), known.points(RATES)
    pairs = [(mine.power, other.power), (mine.type_two_error, other.type_two_error)]
    pairs.append((joined.profile(EPSILONS), known.profile(EPSILONS)))
    for found, truth in pairs:
        assert (found.lower <= truth.upper).all()
        assert (truth.lower <= found.upper).all()
        (low, high), (known_low, known_high) = log_ends(found), log_ends(truth)
        assert (low <= known_high).all()
        assert (known_low <= high).all()
    assert (mine.power.upper <= mine.power.lower * (1 + 1e-12)).all()
    assert (mine.log_slope.lower <= other.log_slope.upper).all()
    assert (other.log_slope.lower <= mine.log_slope.upper).all()
    assert joined.singular_power == known.singular_power
    assert joined.epsilon(delta).upper == epsilon
    for level in (delta * 1.5, 0.5, 0.95):
        if delta < level < 1:
            first, second = joined.epsilon(level), known.epsilon(level)
            assert first.lower <= second.upper
            assert second.lower <= first.upper


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("curve", CURVES)
def test_points_and_profile_match_definition(curve: AbstractTradeOff, parts: list[tuple[float, int]]) -> None:
    """Powers, errors and deltas of a curve with singular mass match the formulas of its definition in many digits."""
    found = WithSingularMass(curve, SingularMass.of(parts))
    for direction, inner in ((found, curve), (found.reversed(), curve.reversed())):
        points, profile = direction.points(RATES), direction.profile(EPSILONS)
        known = inner.profile(EPSILONS)
        with mpmath.workdps(400):
            rest = exact_rest(parts)
            for i, rate in enumerate(RATES):
                share = mpf(rate) / rest
                if share >= 1:
                    assert points.power.upper[i] == 1
                    continue
                beside = [min(float(share) * (1 + side * 1e-15), 1.0) for side in (-1, 1)]
                at = inner.points(np.array(beside))
                assert points.power.lower[i] <= 1 - rest + rest * mpf(at.power.upper[1])
                assert points.power.upper[i] >= 1 - rest + rest * mpf(at.power.lower[0])
                assert points.type_two_error.lower[i] <= rest * mpf(at.type_two_error.upper[0])
                assert points.type_two_error.upper[i] >= rest * mpf(at.type_two_error.lower[1])
            for i in range(len(EPSILONS)):
                assert profile.lower[i] <= 1 - rest + rest * mpf(known.upper[i])
                assert profile.upper[i] >= 1 - rest + rest * mpf(known.lower[i])
        alone = inner.power(RATES)
        width = 2 * (alone.upper / alone.lower - 1).max() + 1e-12
        assert (points.power.upper <= points.power.lower * (1 + width)).all()


def test_joining_mass_twice_joins_both() -> None:
    first, second = [(1e-3, 2)], [(0.2, 1)]
    twice = WithSingularMass(WithSingularMass(CURVES[2], SingularMass.of(first)), SingularMass.of(second))
    once = WithSingularMass(CURVES[2], SingularMass.of(first + second))
    for mine, other in ((twice.power(RATES), once.power(RATES)), (twice.profile(EPSILONS), once.profile(EPSILONS))):
        assert (mine.lower <= other.upper).all()
        assert (other.lower <= mine.upper).all()
    assert twice.singular_power.lower <= once.singular_power.upper
    assert once.singular_power.lower <= twice.singular_power.upper
    assert twice.epsilon(0.3).lower <= once.epsilon(0.3).upper <= twice.epsilon(0.3).upper * (1 + 1e-12)
