"""The larger of two trade-off curves: its points, and its profile against a fine numeric conjugate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.pointwise_max import PointwiseMax
from service.privacy.trade_off.sampling.sampled import SampledAdd
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff


def gaussian(mu: float) -> AbstractTradeOff:
    return gaussian_curve(Enclosure.point(mu))


APART = [(gaussian(1.0), gaussian(2.0)), (gaussian(1e-3), gaussian(1e-2)), (gaussian(1.0), gaussian(1.0))]
CROSSING: list[tuple[AbstractTradeOff, AbstractTradeOff]] = [
    (gaussian(1.0), ApproximateDpTradeOff(1.0, 1e-5)),
    (gaussian(1.0), ApproximateDpTradeOff(0.7, 0.05)),
    (gaussian(1.0), ApproximateDpTradeOff(0.0, 0.3)),
    (gaussian(0.01), ApproximateDpTradeOff(0.02, 1e-6)),
    (ApproximateDpTradeOff(1.0, 0.1), ApproximateDpTradeOff(2.0, 0.01)),
    (SampledAdd(gaussian(3.0), 0.1), gaussian(0.5)),
    (SampledAdd(gaussian(3.0), 0.1).reversed(), gaussian(0.5)),
    (LaplaceTradeOff(Enclosure.point(1.0)), gaussian(0.9)),
]
EPSILONS = np.array([-3.0, -1.0, -0.3, 0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0])
every = pytest.mark.parametrize("pair", APART + CROSSING)


def conjugate(first: AbstractTradeOff, second: AbstractTradeOff, epsilon: float) -> tuple[float, float]:
    """Return the largest value of the smaller power minus e^eps alpha, and the largest possible error.

    The maximum is over a grid of rates alpha, refined three times.
    """
    scores = np.linspace(-8.0, 8.0, 4001, dtype=np.float64)
    last = 0.0
    for _ in range(3):
        alpha = np.asarray(special.ndtr(scores), dtype=np.float64)
        power = np.minimum(first.power(alpha).upper, second.power(alpha).upper)
        gains = power - math.exp(epsilon) * alpha
        at = int(np.argmax(gains))
        last = float(gains[at])
        scores = np.linspace(scores[max(at - 1, 0)], scores[min(at + 1, len(scores) - 1)], 4001)
    return last, 1e-12


@every
def test_points_are_those_of_harder_curve(pair: tuple[AbstractTradeOff, AbstractTradeOff]) -> None:
    alpha = np.concatenate((np.geomspace(1e-250, 0.5, 60), 1 - np.geomspace(1e-12, 0.4, 30)))
    points, (one, other) = PointwiseMax(*pair).points(alpha), (curve.points(alpha) for curve in pair)
    assert (points.power.upper == np.minimum(one.power.upper, other.power.upper)).all()
    assert (points.power.lower == np.minimum(one.power.lower, other.power.lower)).all()
    assert (points.type_two_error.lower == np.maximum(one.type_two_error.lower, other.type_two_error.lower)).all()
    assert (points.log_slope.lower <= points.log_slope.upper).all()


@every
def test_profile_is_conjugate_of_power(pair: tuple[AbstractTradeOff, AbstractTradeOff]) -> None:
    curve = PointwiseMax(*pair)
    read = curve.profile(EPSILONS)
    for index, epsilon in enumerate(EPSILONS.tolist()):
        truth, error = conjugate(*pair, epsilon)
        assert read.lower[index] <= max(truth, 0.0) * (1 + 1e-8) + error
        assert read.upper[index] >= truth - error
    assert (read.upper - read.lower <= 1e-8 * read.upper + 1e-300).all()
    assert (read.upper <= np.minimum(*(each.profile(EPSILONS).upper for each in pair)) * (1 + 1e-12)).all()


@every
def test_slopes_match_finite_differences(pair: tuple[AbstractTradeOff, AbstractTradeOff]) -> None:
    curve = PointwiseMax(*pair)
    alpha = np.array([1e-6, 1e-3, 0.1, 0.4, 0.7])
    slope = curve.points(alpha).log_slope
    step = 1e-7 * alpha

    def power(rates: FloatArray) -> FloatArray:
        bounds = curve.power(rates)
        return 0.5 * (bounds.lower + bounds.upper)

    left, right = (power(alpha) - power(alpha - step)) / step, (power(alpha + step) - power(alpha)) / step
    assert (np.exp(slope.lower) <= left * (1 + 1e-4)).all()
    assert (right * (1 - 1e-4) - 1e-4 <= np.exp(slope.upper)).all()


@every
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.02, 0.2])
def test_epsilon_inverts_the_profile(pair: tuple[AbstractTradeOff, AbstractTradeOff], delta: float) -> None:
    curve = PointwiseMax(*pair)
    found = curve.epsilon(delta)
    if math.isinf(found.upper):
        assert all(math.isinf(each.epsilon(delta).upper) for each in pair)
        return
    assert curve.profile_at(found.upper).lower <= delta * (1 + 1e-9)
    if found.lower > 0:
        assert curve.profile_at(found.lower).upper >= delta * (1 - 1e-9)
        assert found.relative_width() <= 1e-6


@every
def test_order_does_not_matter_and_swap_is_an_involution(
    pair: tuple[AbstractTradeOff, AbstractTradeOff],
) -> None:
    one, other = PointwiseMax(*pair), PointwiseMax(*reversed(pair))
    readings: list[Callable[[AbstractTradeOff], FloatArray]] = [
        lambda curve: curve.power(np.array([1e-3, 0.3])).upper,
        lambda curve: curve.profile(np.array([0.0, 1.0])).upper,
    ]
    for reading in readings:
        assert reading(one) == pytest.approx(reading(other), rel=1e-8, abs=1e-300)
        assert reading(one.reversed().reversed()) == pytest.approx(reading(one), rel=1e-12, abs=1e-300)
    # delta(-eps) = 1 - e^-eps + e^-eps delta_reversed(eps)
    for epsilon in (0.2, 1.0, 2.0):
        back = -math.expm1(-epsilon) + math.exp(-epsilon) * one.reversed().profile_at(epsilon).upper
        assert one.profile_at(-epsilon).upper == pytest.approx(back, rel=1e-8)


def test_extreme_ratios_and_singular_power_are_those_of_parts() -> None:
    bounded, unbounded = ApproximateDpTradeOff(2.0, 0.0), gaussian(1.0)
    curve = PointwiseMax(bounded, unbounded)
    assert (curve.largest_log_ratio.upper, curve.smallest_log_ratio.lower) == (2.0, -2.0)
    assert curve.singular_power.upper == 0
    revealing = PointwiseMax(ApproximateDpTradeOff(0.5, 0.1), ApproximateDpTradeOff(0.5, 0.2))
    assert revealing.singular_power.upper == 0.1
    assert revealing.epsilon(0.05).lower == math.inf
    assert PointwiseMax(ApproximateDpTradeOff(0.5, 0.1), bounded).largest_log_ratio.upper == 2.0
