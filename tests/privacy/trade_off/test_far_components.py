"""A step whose shifts have very different sizes: points against many digits, and limits where no threshold is
finite.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.shifted.gaussian_mixture import FARTHEST, GaussianMixtureTradeOff, NormalComponents
from tests.slow_marker import sample_of

AT_ZERO = NormalComponents(np.zeros((2, 1)), np.ones(1), 0.0)


def _far_components(random: np.random.Generator) -> NormalComponents:
    """Draw shifts: one near 0, the others up to the largest allowed one, 1e15 over a noise of 1e-4."""
    count = int(random.integers(2, 6))
    places = np.concatenate(([random.choice([0.0, 0.1])], 10.0 ** random.uniform(-4, 19, count)))
    weights = random.dirichlet(np.full(count + 1, 0.5)) + 1e-6
    return NormalComponents(np.stack((places, places)), weights / weights.sum(), 1e-15)


def _curves(seed: int) -> tuple[np.random.Generator, list[GaussianMixtureTradeOff]]:
    random = np.random.default_rng(seed)
    components = _far_components(random)
    pairs = ((components, components), (components, AT_ZERO), (AT_ZERO, components))
    return random, [GaussianMixtureTradeOff(absent, present) for absent, present in pairs]


def _mass(components: NormalComponents, t: mpf, sign: int) -> mpf:
    """Return sum_j w_j Phi(t + sign d_j) for components with the weights w_j, divided by their sum, and
    distances d_j.
    """
    total = mpmath.fsum(map(mpf, components.weights))
    terms = (
        mpf(w) * mpmath.ncdf(t + sign * mpf(d))
        for d, w in zip(components.distances[0], components.weights, strict=True)
    )
    return mpmath.fsum(terms) / total


def _threshold(absent: NormalComponents, rate: float) -> mpf:
    """Return the t that an outcome exceeds under H0 with probability `rate`, by bisection."""
    low, high = -mpf(float(absent.distances.max())) - 50, mpf(50)
    while high - low > mpf(10) ** -45 * (1 + abs(low)):
        middle = (low + high) / 2
        low, high = (middle, high) if _mass(absent, -middle, -1) > rate else (low, middle)
    return low


@sample_of(1)
@pytest.mark.parametrize("seed", range(5))
def test_points_enclose_many_digits_and_are_narrow(seed: int) -> None:
    random, curves = _curves(seed)
    for curve in curves:
        rates: FloatArray = np.concatenate(
            (10.0 ** random.uniform(-30, -0.1, 4), 1 - 10.0 ** random.uniform(-9, -1, 2))
        )
        points = curve.points(rates)
        for k, rate in enumerate(rates):
            with mpmath.workdps(70):
                t = _threshold(curve.absent, float(rate))
                power, error = _mass(curve.present, -t, 1), _mass(curve.present, t, -1)
            for found, truth in ((points.power, power), (points.type_two_error, error)):
                # Weights are known to 1e-15.
                assert found.lower[k] <= truth * (1 + 1e-14)
                assert found.upper[k] >= truth * (1 - 1e-14)
                if truth > 1e-290 and abs(t) < 1e6:  # A threshold beyond this is too coarse in doubles.
                    assert found.upper[k] - found.lower[k] <= 1e-6 * found.upper[k]


@pytest.mark.parametrize("seed", range(5))
def test_points_at_many_rates_are_ordered(seed: int) -> None:
    random, curves = _curves(100 + seed)
    for curve in curves:
        points = curve.points(np.sort(10.0 ** random.uniform(-300, 0, 2000)))
        for found in (points.power, points.type_two_error):
            assert (found.lower <= found.upper).all()


@pytest.mark.parametrize("seed", range(5))
def test_masses_at_infinite_thresholds_are_limits(seed: int) -> None:
    _, curves = _curves(200 + seed)
    far = np.array([FARTHEST, 1e31, 1e300, math.inf])
    for curve in curves:
        for sign in (-1, 1):
            low, high = curve.present.log_mass(np.concatenate((-far[::-1], far)), sign)
            assert (low[1:] >= low[:-1]).all()
            assert (high >= low).all()
            assert (low[0], high[-1]) == (-math.inf, 0)
            assert low[-1] > -1e-9
        low, high = curve.log_ratio(np.concatenate((-far[::-1], far)))
        assert (high >= low).all()
        assert (low[0], high[-1]) == (-math.inf, math.inf)
        assert low[-1] <= curve.largest_log_ratio.upper
        assert high[0] >= curve.smallest_log_ratio.lower
