"""Lists of rates and thresholds share contours: the enclosures meet those of single numbers, on random runs."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import FourierSums
from service.privacy.questions import gaussian_dp
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, laplace, sampled
from tests.privacy.random_cases import log_uniform
from tests.slow_marker import sample_of

SEED: Final = 20261123
RUNS: Final = 6
RATES: Final = np.concatenate([np.geomspace(1e-12, 0.5, 40), 1 - np.geomspace(1e-9, 0.4, 10)])
SINGLE: Final = (0, 13, 26, 38, 47)


def _spec(number: int) -> dict[str, Any]:
    """Draw a run whose loss has a standard deviation of 0.1 to 6: one kind of step, several kinds, or sampled
    Laplace steps.
    """
    random = np.random.default_rng((SEED, number))
    rate, steps = log_uniform(random, 1e-2, 0.5), int(log_uniform(random, 300, 1e6))
    noise = max(rate * math.sqrt(steps) / log_uniform(random, 0.1, 6.0), 1.0)
    run = dpsgd(noise, rate, steps)
    if number % 3 == 1:
        return {"type": "composed", "mechanisms": [run, dpsgd(1.3 * noise, 0.7 * rate, steps // 2)]}
    if number % 3 == 2:
        return {"type": "repeated", "steps": min(steps, 2000), "mechanism": sampled(min(rate, 0.05), laplace(2.0))}
    return run


def _pair(number: int) -> TradeOffPair:
    return choose.pair(built(_spec(number)))


def _meet(together: EnclosureArray, place: int, alone: Enclosure) -> bool:
    return bool(together.lower[place] <= alone.upper and alone.lower <= together.upper[place])


def _curves(pair: TradeOffPair) -> list[AbstractTradeOff]:
    return [pair.add, pair.remove, pair.both]


@sample_of(3)
@pytest.mark.parametrize("number", range(RUNS))
def test_lists_meet_single_evaluations(number: int) -> None:
    shared, own = _curves(_pair(number)), _curves(_pair(number))
    for curve, single in zip(shared, own, strict=True):
        points = curve.points(RATES)
        for place in SINGLE:
            alone = single.points(RATES[place : place + 1])
            assert _meet(points.power, place, alone.power.at(0, curve.evidence)), (_spec(number), RATES[place])
            assert _meet(points.type_two_error, place, alone.type_two_error.at(0, curve.evidence))
            assert _meet(points.log_slope, place, alone.log_slope.at(0, curve.evidence))
        assert np.median(points.power.upper / points.power.lower - 1) <= 1e-8, _spec(number)
        # No tolerance for the order: power increases, and both quantities belong to the same attack.
        assert (points.power.upper[:39] <= points.power.upper[1:40] * (1 + 1e-6)).all()
        assert (points.power.lower + points.type_two_error.lower <= 1 + 4 * UNIT_ROUNDOFF).all()
        assert (points.power.upper + points.type_two_error.upper >= 1 - 4 * UNIT_ROUNDOFF).all()


@sample_of(3)
@pytest.mark.parametrize("number", range(RUNS))
def test_profile_lists_meet_single_thresholds_and_rough_bounds(number: int) -> None:
    for curve, single in zip(_curves(_pair(number)), _curves(_pair(number)), strict=True):
        farthest = single.epsilon(1e-12).upper
        epsilons = np.concatenate([np.linspace(0.0, farthest, 33), -np.linspace(0.1, 0.5, 5) * farthest])
        profile, rough = curve.profile(epsilons), curve.rough_profile(epsilons, 1e-6)
        (lower, upper), (rough_lower, rough_upper) = log_ends(profile), log_ends(rough)
        assert (rough_lower <= upper).all(), _spec(number)
        assert (lower <= rough_upper).all(), _spec(number)
        for place in (0, 12, 30, 35):
            assert _meet(profile, place, single.profile_at(float(epsilons[place]))), (_spec(number), epsilons[place])


@sample_of(3)
@pytest.mark.parametrize("number", range(RUNS))
def test_mu_bounds_dense_grid_of_certified_points(number: int) -> None:
    """No point of the curve exceeds the upper bound of mu, on a dense grid of certified points."""
    pair, random = _pair(number), np.random.default_rng((SEED + 1, number))
    smallest = (1e-9, 1e-9) if number % 2 else (log_uniform(random, 1e-11, 0.2), log_uniform(random, 1e-11, 0.2))
    for curve in _curves(pair):
        found = gaussian_dp.mu(curve, *smallest).value
        rates = np.concatenate([np.geomspace(smallest[0], 0.5, 200), 1 - np.geomspace(0.5, smallest[1], 200)[1:]])
        known = _normal(curve, rates, smallest)
        assert known[0] <= found.upper, (_spec(number), smallest)
        assert found.lower <= known[1], (_spec(number), smallest)
        assert found.relative_width() <= 1e-7, (_spec(number), smallest)


def _normal(curve: AbstractTradeOff, rates: Any, smallest: tuple[float, float]) -> tuple[float, float]:
    """Return the largest mu that the power at one of `rates` proves, and an upper bound for the rates between them.

    `smallest` has the smallest false positive rate and type II error of the range of mu.
    """
    points = curve.points(rates)
    u = -special.ndtri(rates)
    low, high = points.power, points.type_two_error
    least = np.where(low.lower < 0.5, special.ndtri(low.lower), -special.ndtri(high.upper)) + u
    most = np.where(low.upper < 0.5, special.ndtri(low.upper), -special.ndtri(high.lower)) + u
    inside = high.lower >= smallest[1]
    # Between two rates the power is at most that of the larger rate, and u at most that of the smaller.
    gained = most[1:] + (u[:-1] - u[1:])
    slack = 1e-12
    return float(least[inside].max(initial=0.0)) - slack, max(float(most[0]), float(gained.max())) + slack


def test_sums_at_many_points_are_within_error_bound() -> None:
    random = np.random.default_rng(SEED)
    steps, x = np.array([0.37, 0.11]), random.uniform(-20, 20, (40, 2))
    with mp.workdps(40):
        for nodes in (1, 2, 5, 17, 90):
            weights = (random.normal(size=(2, 2, nodes)) * np.exp(-np.arange(nodes) / 7)).astype(np.complex128)
            sums = FourierSums(weights, steps)
            size, reach = np.abs(weights).sum(axis=-1), np.abs(weights) @ np.arange(nodes) * steps
            for found in (sums.real(x), np.concatenate([sums.real(x[i : i + 1]) for i in range(len(x))], axis=1)):
                for row, line, place in ((0, 0, 3), (0, 1, 11), (1, 0, 26), (1, 1, 39)):
                    phase = mpf(steps[line]) * mpf(x[place, line])
                    truth = mp.fsum(mpf(w.real) * mp.cos(k * phase) for k, w in enumerate(weights[row, line]))
                    bound = sums.rounding(len(x)) * size[row, line] + 2 * abs(x[place, line]) * reach[row, line]
                    assert abs(found[row, place, line] - truth) <= bound * UNIT_ROUNDOFF
