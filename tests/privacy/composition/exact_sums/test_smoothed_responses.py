"""Runs of many different pure and approximate DP steps, smoothed by a little noise, against sums over all losses."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.exact_sums.different_responses import DifferentResponses
from service.privacy.composition.exact_sums.equal_responses import EqualResponses
from service.privacy.composition.exact_sums.exact_runs import (
    any_responses_of,
    halves,
    responses_of,
    smoothed_responses_of,
)
from service.privacy.composition.exact_sums.smoothed_responses import SmoothedResponses
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import EnclosureArray
from service.privacy.errors import UnsupportedCombination
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built
from tests.privacy.composition.exact_sums.test_different_responses import spec_of
from tests.privacy.response_oracles import Atoms
from tests.slow_marker import sample_of, thorough

Kind = tuple[float, int]
RATES = [1e-300, 1e-100, 1e-12, 1e-5, 0.01, 0.2, 0.5, math.nextafter(0.5, 1), 0.7, 0.99, 1 - 1e-6, 1 - 1e-12]
LEVELS = [1e-100, 1e-12, 1e-5, 0.01, 0.3, 0.7, 0.95]


def random_kinds(random: np.random.Generator, parts: int) -> list[Kind]:
    """Draw kinds (epsilon, count) of steps of similar size or of all sizes; some of them repeat."""
    low, high = [(0.05, 1.0), (1e-4, 1e-2), (1e-6, 10.0), (1.0, 4.0), (5.0, 10.0)][int(random.integers(5))]
    epsilons = np.exp(random.uniform(math.log(low), math.log(high), parts))
    return [(float(epsilon), int(random.choice([1, 1, 1, 2, 5]))) for epsilon in epsilons]


def bounds_at(bounds: EnclosureArray, i: int) -> tuple[float, float]:
    assert bounds.log_lower is not None
    assert bounds.log_upper is not None
    return float(bounds.log_lower[i]), float(bounds.log_upper[i])


def assert_meet(found: EnclosureArray, known: EnclosureArray, what: object) -> None:
    for i in range(len(found.lower)):
        (low, high), (least, most) = bounds_at(found, i), bounds_at(known, i)
        assert low <= most, (what, i)
        assert least <= high, (what, i)
        assert found.lower[i] <= known.upper[i], (what, i)
        assert known.lower[i] <= found.upper[i], (what, i)


def assert_agree(found: AbstractTradeOff, known: AbstractTradeOff, what: object) -> None:
    """Check that the enclosures of the curve `found` overlap those of `known`, a very narrow enclosure of the same
    curve.
    """
    points, others = found.points(np.array(RATES)), known.points(np.array(RATES))
    assert_meet(points.power, others.power, what)
    assert_meet(points.type_two_error, others.type_two_error, what)
    assert (points.log_slope.lower <= others.log_slope.upper).all(), what
    assert (others.log_slope.lower <= points.log_slope.upper).all(), what
    at = np.array([-0.9, -0.2, 0.0, 1e-3, 0.1, 0.3, 0.6, 0.9, 0.999, 1.1]) * known.largest_log_ratio.lower
    assert_meet(found.profile(at), known.profile(at), what)
    for delta in LEVELS:
        epsilon, other = found.epsilon(delta), known.epsilon(delta)
        assert epsilon.lower <= other.upper, (what, delta)
        assert other.lower <= epsilon.upper, (what, delta)


@sample_of(1)
@pytest.mark.parametrize("seed", range(2))
def test_smoothed_runs_match_sums_over_all_losses(seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds = random_kinds(random, int(random.integers(2, 15)))
    exact = DifferentResponses(*halves(tuple(kinds)))
    assert_agree(SmoothedResponses(tuple(kinds)), exact, kinds)


def test_smoothed_runs_match_many_digits() -> None:
    """Smoothed runs match sums over all values of the loss in many digits, without code of the service."""
    kinds = [(0.3, 1), (0.37, 2), (0.11, 1), (0.9, 1), (0.023, 1), (1.7, 1)]
    curve = SmoothedResponses(tuple(kinds))
    points = curve.points(np.array(RATES))
    with mpmath.workdps(320):
        truth = Atoms.of(kinds)
        for i, rate in enumerate(RATES):
            assert points.power.lower[i] <= truth.power(rate) <= points.power.upper[i]
            low, high = bounds_at(points.type_two_error, i)
            assert low <= mpmath.log(truth.error(rate)) <= high
        for e in (-2.0, -0.1, 0.0, 0.05, 1.0, 2.2, 3.7, 3.772):
            delta = curve.profile_at(e)
            assert delta.lower <= truth.delta(e) <= delta.upper
        for level in LEVELS:
            found = curve.epsilon(level)
            assert found.lower <= truth.epsilon(level) <= found.upper


@pytest.mark.parametrize(
    ("epsilon", "counts"),
    [thorough(1e-4, (1, 1, 999998)), (0.01, (1, 1, 998)), (3.0, (5, 20))],
    ids=str,
)
def test_equal_parts_listed_separately_match_equal_run(epsilon: float, counts: tuple[int, ...]) -> None:
    curve = SmoothedResponses(tuple((epsilon, count) for count in counts))
    assert_agree(curve, EqualResponses(sum(counts), epsilon), epsilon)


@sample_of(1)
@pytest.mark.parametrize("seed", range(2))
def test_smoothed_runs_lie_between_runs_of_multiples(seed: int) -> None:
    """Runs whose epsilons are rounded to multiples have exact sums: rounded down they reveal less, rounded up more."""
    random = np.random.default_rng(seed)
    epsilons, unit = random.uniform(0.02, 0.6, 40), 2.0**-10
    curve = SmoothedResponses(tuple((float(epsilon), 1) for epsilon in epsilons))
    below, above = (
        pair(built(spec_of([(float(times) * unit, 1) for times in rounded(epsilons / unit)]))).add
        for rounded in (np.floor, np.ceil)
    )
    assert below.method == above.method == "closed_form"
    least, found, most = (each.points(np.array(RATES[2:-2])) for each in (below, curve, above))
    assert (least.power.lower <= found.power.upper).all()
    assert (found.power.lower <= most.power.upper).all()
    assert (most.type_two_error.lower <= found.type_two_error.upper).all()
    assert (found.type_two_error.lower <= least.type_two_error.upper).all()
    for delta in (1e-9, 1e-3):
        assert below.epsilon(delta).lower <= curve.epsilon(delta).upper
        assert curve.epsilon(delta).lower <= above.epsilon(delta).upper


def test_smoothed_runs_agree_with_lattice() -> None:
    spec = spec_of([(0.1 * math.sqrt(i), 1) for i in range(1, 29)], [1e-6])
    mine, other = (
        pair(built(spec)).add,
        pair(built(spec), "discretised", options=EngineOptions(relative_tolerance=1)).add,
    )
    rates = np.array([0.01])
    assert_meet(mine.points(rates).power, other.points(rates).power, spec)


def test_enclosures_have_relative_width_1e_6() -> None:
    """Enclosures of runs with 25 to 250 parts of moderate size have a relative width of at most 1e-6."""
    random = np.random.default_rng(1)
    epsilons = np.exp(random.uniform(math.log(0.003), 0, int(random.integers(25, 250))))
    curve = SmoothedResponses(tuple((float(epsilon), 1) for epsilon in epsilons))
    points = curve.points(np.array([1e-6, 0.01, 0.5, 0.99]))
    for bounds in (points.power, points.type_two_error, curve.profile(np.array([0.0, 1.0]))):
        for i in range(len(bounds.lower)):
            low, high = bounds_at(bounds, i)
            assert high - low <= 1e-6
    assert curve.epsilon(1e-6).relative_width() <= 1e-6
    # If nearly everything is revealed, a level of the profile may be far below the first guess.
    strong = SmoothedResponses(tuple((float(epsilon), 1) for epsilon in random.uniform(5, 10, 60)))
    for delta in (1e-9, 1e-3, 0.5, 0.9, 0.999):
        assert strong.epsilon(delta).relative_width() <= 1e-6


def test_curve_is_its_own_inverse() -> None:
    random = np.random.default_rng(3)
    curve = SmoothedResponses(tuple((float(epsilon), 1) for epsilon in random.uniform(0.05, 0.6, 33)))
    for rate in (1e-5, 0.02, 0.3):
        error = curve.points(np.array([rate])).type_two_error
        there = curve.points(np.array([float(error.lower[0]), float(error.upper[0])])).type_two_error
        assert there.lower[1] <= rate <= there.upper[0]


def test_effect_of_noise_is_at_most_its_density() -> None:
    """Gaussian noise added to the loss u raises the mean of (e^u - 1)_+ by at most tau e^{tau^2/8} phi(u/tau - tau/2).

    The noise is that of a tau-GDP step, and phi is the density of N(0, 1). The lower bounds of smoothed runs rest on
    this inequality.
    """
    with mpmath.workdps(500):
        for tau in (mpf("1e-4"), mpf("0.01"), mpf(1), mpf(5)):
            for share in (-30, -5, -1, mpf("-0.1"), 0, mpf("0.1"), 1, 5, 30):
                u = share * tau
                call = mpmath.exp(u) * mpmath.ncdf(u / tau + tau / 2) - mpmath.ncdf(u / tau - tau / 2)
                grown = call - max(mpmath.expm1(u), 0)
                assert 0 <= grown <= tau * mpmath.exp(tau**2 / 8) * mpmath.npdf(u / tau - tau / 2)


def test_runs_of_many_different_responses_are_smoothed() -> None:
    many: list[Kind] = [(0.1 * math.sqrt(i), 1) for i in range(1, 37)]
    steps = built(spec_of(many)).elementary_steps()
    assert responses_of(steps) is None
    assert smoothed_responses_of(steps) == any_responses_of(steps) is not None
    for method in ("auto", "contour"):
        assert pair(built(spec_of(many, [1e-9])), method).add.method == "contour"
    with pytest.raises(UnsupportedCombination):
        pair(built(spec_of(many)), "closed_form")
    multiples: list[Kind] = [(0.05 + 0.01 * i, 1) for i in range(100)]
    assert responses_of(built(spec_of(multiples)).elementary_steps()) is not None
    for kinds in ([(3e-5, 2500), (1.0, 1)], [(1e-5, 3 * 10**9)], [(1e-6, 10**12)]):
        spec: dict[str, Any] = spec_of(kinds)
        curve = pair(built(spec)).add
        assert curve.method == "contour"
        assert curve.power_at(0.01).relative_width() <= 1e-6
        assert curve.epsilon(1e-6).relative_width() <= 1e-6
    tiny = built(spec_of([(1e-200 * math.sqrt(i), 1) for i in range(1, 37)]))
    assert smoothed_responses_of(tiny.elementary_steps()) is None
    assert pair(tiny).add.power_at(0.3).upper <= 0.3 * (1 + 1e-9)


LARGE: list[list[Kind]] = [
    [(400.0, 1), (300.0, 1)],
    [(290.0, 1), (200.0, 2), (150.0, 1)],
    [(1e6, 1), (5e5, 2), (3.0, 1)],
    [(1e6, 2), (9e5, 1)],
]


@sample_of(2)
@pytest.mark.parametrize("kinds", LARGE, ids=str)
def test_losses_with_negligible_deviation_are_enclosed(kinds: list[Kind]) -> None:
    """Runs of few steps with large losses are enclosed.

    The deviation of their tilted loss is far below the rounding of its mean.
    """
    curve, rates = pair(built(spec_of(kinds)), "contour").add, [1e-300, 0.3, 1 - 2.0**-53]
    assert curve.method == "contour"
    points, most = curve.points(np.array(rates)), curve.largest_log_ratio.lower
    with mpmath.workdps(700):
        truth = Atoms.of(kinds)
        for i, rate in enumerate(rates):
            assert points.power.lower[i] < 1
            low, high = bounds_at(points.type_two_error, i)
            assert low <= mpmath.log(truth.error(rate)) <= high
            low, high = bounds_at(points.power, i)
            assert low <= mpmath.log1p(-truth.error(rate)) <= high
        for e in (-1.0, 0.3 * most, most - 0.5):
            delta = curve.profile_at(e)
            assert delta.lower < 1
            assert delta.lower <= truth.delta(e) <= delta.upper
        for level in (1e-12, 0.3):
            found = curve.epsilon(level)
            assert truth.delta(found.upper) <= level <= truth.delta(found.lower)
            assert found.relative_width() < 1e-4


@pytest.mark.parametrize("kinds", [[(1e6, 900), (1.0, 100)], [(1e6, 100), (9e5, 100), (3e5, 1)]], ids=str)
def test_runs_without_contour_lie_between_part_and_sum(kinds: list[Kind]) -> None:
    """Numbers of runs with losses too large for a contour lie between two limits.

    The limits are those of a part of the run, and the sum of all losses.
    """
    curve, part = SmoothedResponses(tuple(kinds)), EqualResponses(kinds[0][1], kinds[0][0])
    rates = np.array([1e-300, 0.3, 1 - 1e-12])
    points, others = curve.points(rates), part.points(rates)
    for i in range(len(rates)):
        low, high = bounds_at(points.type_two_error, i)
        assert low <= min(high, bounds_at(others.type_two_error, i)[1])
        assert high <= -0.4 * curve.largest_log_ratio.upper + 1000
    assert curve.profile_at(0.0).lower > 1 - 1e-12
    for level in (1e-12, 0.3):
        found = curve.epsilon(level)
        assert part.epsilon(level).lower <= found.upper <= curve.largest_log_ratio.upper
        assert found.lower >= 0.8 * curve.largest_log_ratio.lower
