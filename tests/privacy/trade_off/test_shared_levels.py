"""Mixtures evaluated at common levels of all parts, against a search in each part, and limiting cases."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from service.privacy.composition.planning.choose import pair
from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.mixture.curve import MixtureTradeOff
from service.privacy.trade_off.mixture.points import LogPoints, MixturePoints
from service.privacy.trade_off.mixture.shared_levels import GOOD, SharedLevels
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from service.privacy.trade_off.shifted.gaussian_mixture import log_sums
from tests.privacy.cases import built, gaussian, laplace, sampled
from tests.slow_marker import sample_of

RATES = np.array([1e-290, 1e-100, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 2.0**-30])
PURE = {"type": "pure_dp", "epsilon": 0.7}
APPROXIMATE = {"type": "approximate_dp", "epsilon": 0.3, "delta": 1e-3}
CASES: list[Any] = [
    ([gaussian(1.0), gaussian(0.5)], [1, 2]),
    ([gaussian(100.0), gaussian(50.0)], [1, 1]),
    ([gaussian(1e9), gaussian(3e8)], [1, 1]),
    ([gaussian(2.0), gaussian(0.125)], [1, 9]),
    ([gaussian(1.0), PURE], [1, 3]),
    ([laplace(1.0), PURE], [2, 1]),
    ([PURE, APPROXIMATE, gaussian(3.0)], [1, 1, 1]),
    ([sampled(0.01, gaussian(1.0)), laplace(2.0)], [1, 1]),
]


def both_evaluations(parts: list[dict[str, Any]], weights: list[int], way: str) -> tuple[LogPoints, LogPoints]:
    total = sum(weights)
    curves = [getattr(pair(built(part)), way) for part in parts]
    mixture = MixtureTradeOff([(Fraction(w, total), curve) for w, curve in zip(weights, curves, strict=True)])
    sums, mirrored = mixture._sums, mixture.reversed()
    shared = SharedLevels.of_parts(
        curves, sums, lambda c: log_ends(mixture.profile(c)), lambda c: log_ends(mirrored.profile(c))
    )
    with np.errstate(all="ignore"):
        searched = MixturePoints(curves, sums, mixture.singular_power).read(RATES)
        return shared.read(RATES), searched


@sample_of(8)
@pytest.mark.parametrize("way", ["add", "remove"])
@pytest.mark.parametrize(("parts", "weights"), CASES)
def test_both_evaluations_enclose_one_curve(parts: list[dict[str, Any]], weights: list[int], way: str) -> None:
    shared, searched = both_evaluations(parts, weights, way)
    for mine, other in ((shared.power, searched.power), (shared.error, searched.error), (shared.slope, searched.slope)):
        assert (mine[0] <= other[1]).all()
        assert (other[0] <= mine[1]).all()
    assert (shared.power[1] - shared.power[0] <= 1e-7).all()
    inner = RATES <= 0.999
    assert (shared.error[1] - shared.error[0] <= 2e-8)[inner].all()


def run_and_pure() -> MixtureTradeOff:
    """Return a mixture of a DP-SGD run and a pure DP step, whose points are expensive because the run needs
    contours.
    """
    parts = [{"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}, PURE]
    return MixtureTradeOff([(Fraction(1, 2), pair(built(part)).add) for part in parts])


@pytest.mark.parametrize("rate", [1e-3, 0.9])
def test_a_search_that_was_cut_short_narrows_the_point_and_resumes(rate: float) -> None:
    with at_most(math.inf) as whole:
        exact = run_and_pure().points(np.array([rate])).power
    mixture, before, total = run_and_pure(), 1.0, 0.0
    for share in (0.3, 0.6, 3.0):
        with at_most(share * whole.done - total) as work:
            power = mixture.points(np.array([rate])).power
        total += work.done
        assert power.lower[0] <= exact.upper[0]
        assert exact.lower[0] <= power.upper[0]
        width = float(power.upper[0] - power.lower[0])
        assert width <= max(before, GOOD)
        before = width
    assert before <= 2 * float(exact.upper[0] - exact.lower[0]) + 1e-9
    assert total <= 1.6 * whole.done  # 1.9 times if every evaluation started anew


@pytest.mark.parametrize("mu", [8.0, 30.0, 60.0, 400.0])
def test_power_is_near_one_where_the_slope_is_out_of_reach(mu: float) -> None:
    """Check points of a Gaussian curve from its profile alone, also where the slope is below e^-700."""
    exact = gaussian_curve(Enclosure.point(mu))

    def log_profile(levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_ends(exact.profile(levels))

    found, known = SharedLevels.of_profile(exact, log_profile, log_profile).points(RATES), exact.points(RATES)
    for mine, other in ((found.power, known.power), (found.type_two_error, known.type_two_error)):
        assert (mine.lower <= other.upper).all()
        assert (other.lower <= mine.upper).all()
    assert (found.power.upper - found.power.lower <= 1e-6 * found.power.upper).all()


def test_log_sum_of_zeros_is_minus_infinity() -> None:
    """The logarithm of a sum of zeros is minus infinity, without a warning (which would be an error here)."""
    logs = np.full((2, 3, 2), -np.inf)
    logs[:, 0, 1] = -2.0
    low, high = log_sums(logs)
    assert low[0] == high[0] == -np.inf
    assert low[1] <= -2.0 <= high[1]


def test_edge_lost_in_rounding_is_flat() -> None:
    rate, rest, error, power = (
        np.array(each)
        for each in ([0.0, 0.25, 1.0, 1.0], [1.0, 0.75, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0], [0.0, 0.5, 1.0, 1.0])
    )
    curve = PolygonTradeOff(Corners(rate=rate, rest=rest, error=error, power=power))
    assert curve.slopes[2] == -np.inf
    points = curve.points(np.array([0.125, 0.25, 0.625]))
    assert not np.isnan(points.power.lower).any()
    assert (points.power.lower <= [0.25, 0.5, 0.75]).all()
    assert (points.power.upper >= [0.25, 0.5, 0.75]).all()


@pytest.mark.parametrize("seed", range(6))
def test_polygon_with_corners_near_one_is_enclosed(seed: int) -> None:
    """Polygons with many corners whose rates round to the same double are enclosed, in both directions.

    The reference is rational arithmetic.
    """
    rng = np.random.default_rng(seed)
    rest = np.exp(-np.cumsum(rng.uniform(0.05, 1.5, 150)))
    slope = -np.cumsum(rng.uniform(1e-4, 0.02, 151))
    error = np.append(np.cumsum((np.exp(slope[1:]) * -np.diff(np.append(rest, 0.0)))[::-1])[::-1], 0.0)
    error, rest = error * (1 - error[0] / 2), np.append(rest, 0.0)
    rest, error = np.insert(rest, 0, 1.0), np.insert(error, 0, 1.0)
    corners = Corners(rate=1 - rest, rest=rest, power=1 - error, error=error)
    near = 1 - rng.integers(1, 64, 20) * 2.0**-53
    rates = np.unique(np.concatenate([near, near - 0.5, rng.uniform(0, 1, 20), 1 - rest[1:40]]))
    for one in (corners, corners.swapped()):
        curve = PolygonTradeOff(one)
        alpha = np.asarray(rates[(rates > 0) & (rates < 1)], dtype=np.float64)
        found = curve.points(alpha)
        x, y = _exact(one.rate, one.rest), _exact(one.error, one.power)
        for place, rate in enumerate(map(Fraction, alpha.tolist())):
            edge = max(k for k in range(len(x) - 1) if x[k] <= rate)
            truth = y[edge] + (y[edge + 1] - y[edge]) * (rate - x[edge]) / (x[edge + 1] - x[edge])
            for bounds, value in ((found.type_two_error, truth), (found.power, 1 - truth)):
                assert Fraction(float(bounds.lower[place])) <= value <= Fraction(float(bounds.upper[place]))
            width = float(found.type_two_error.upper[place] - found.type_two_error.lower[place])
            assert width <= 1e-6 * float(y[edge])


def _exact(number: np.ndarray, rest: np.ndarray) -> list[Fraction]:
    pairs = zip(number.tolist(), rest.tolist(), strict=True)
    return [Fraction(one) if one <= 0.5 else 1 - Fraction(other) for one, other in pairs]


@pytest.mark.parametrize("seed", range(3))
def test_epsilon_of_a_polygon_is_read_where_a_power_and_its_error_differ_by_rounding(seed: int) -> None:
    """Check powers next to 1, rounded up beyond a delta that they do not exceed. The complements are exact."""
    random = np.random.default_rng([20261128, seed])
    for _ in range(50):
        error, delta = random.uniform(1e-14, 1e-13), 1.0
        while 1 - delta <= error / 2:
            delta = 1 - random.uniform(0.3, 0.9) * error
        rate = random.uniform(0.1, 0.5)
        power = np.array([0.0, 1 - error / 8, 1.0])
        corners = Corners(
            np.array([0.0, rate, 1.0]), np.array([1.0, 1 - rate, 0.0]), power, np.array([1.0, error, 0.0])
        )
        with np.errstate(all="raise"):
            found = PolygonTradeOff(corners).epsilon(delta)
        assert found.lower == 0 == found.upper
