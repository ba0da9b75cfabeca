"""mu of Gaussian DP by tangents: closed forms against the search over points, and runs with wide enclosures."""

from __future__ import annotations

import math
from typing import Any, Final

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import Generator
from scipy import special

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.work import at_most
from service.privacy.questions import gaussian_dp, gdp_range
from service.privacy.questions.empty_range import NOTHING_IN_RANGE
from service.privacy.questions.gdp_tangents import tangent_bounds
from service.privacy.questions.normal_points import normal_points
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.privacy.response_oracles import Atoms
from tests.slow_marker import thorough

SEED: Final = 20261122
RANGES: Final = ((1e-9, 1e-9), (1e-3, 1e-6), (0.2, 0.05))


def _one_step(random: Generator) -> dict[str, Any]:
    noise = math.exp(random.uniform(math.log(0.4), math.log(20.0)))
    inner = gaussian(noise) if random.uniform() < 0.5 else laplace(noise)
    rate = math.exp(random.uniform(math.log(1e-3), 0.0))
    return sampled(rate, inner) if random.uniform() < 0.7 else inner


@pytest.mark.parametrize("steps", [5, thorough(15)])
def test_tangents_agree_with_search_over_points(steps: int) -> None:
    random, compared = np.random.default_rng(SEED), 0
    for _ in range(steps):
        spec = _one_step(random)
        pair = choose.pair(built(spec))
        for curve in (pair.add, pair.remove):
            for rate_min, error_min in RANGES:
                searched = gaussian_dp.mu(curve, rate_min, error_min).value
                known = curve.global_gdp_mu
                ends = tangent_bounds(curve, rate_min, error_min, math.inf if known is None else known.upper)
                if ends is None:
                    continue
                compared += 1
                assert ends[0] <= searched.upper, spec
                assert searched.lower <= ends[1], spec
                assert ends[1] - ends[0] <= 1e-7 * ends[1] + 1e-13, spec
    assert compared >= 4 * steps


def test_a_run_that_reveals_nearly_all_has_an_empty_range_at_little_cost() -> None:
    pair = choose.pair(built({"type": "composed", "mechanisms": [dpsgd(0.3, 0.5, 200), gaussian(0.01)]}))
    with at_most(math.inf) as advantage:
        assert 1 - pair.both.profile_at(0.0).lower < 1e-9
    with at_most(math.inf) as work:
        found = gaussian_dp.mu(pair.both, 1e-9, 1e-9)
    assert found.value.lower == found.value.upper == 0
    assert found.notes == (NOTHING_IN_RANGE,)
    assert found.global_mu.lower > 11
    assert work.done <= advantage.done + 100


def test_mu_of_both_directions_is_that_of_the_hull() -> None:
    random = np.random.default_rng(SEED + 1)
    for _ in range(6):
        spec = sampled(math.exp(random.uniform(-5, -0.1)), gaussian(math.exp(random.uniform(-0.5, 2))))
        both = choose.pair(built(spec)).both
        assert isinstance(both, Symmetrised)
        assert both.evidence is Evidence.EXACT
        for rate_min, error_min in RANGES:
            found = gaussian_dp.mu(both, rate_min, error_min)
            searched = gdp_range.over_range(both, rate_min, error_min, math.inf)
            assert found.value.lower <= searched.upper * (1 + 1e-12), spec
            assert searched.lower <= found.value.upper * (1 + 1e-12), spec
            assert found.value.relative_width() <= 1e-8, spec


# A run with wide enclosures over the whole range: a search over long lists of points left mu uncertain by 5 %.
def test_mu_of_two_steps_with_little_noise_is_narrow() -> None:
    both = choose.pair(built(dpsgd(0.1, 0.001, 2))).both
    found = gaussian_dp.mu(both, 1e-9, 1e-9)
    assert found.value.relative_width() <= 1e-5
    point = both.points(np.array([1e-8]))
    assert float(special.ndtri(point.power.lower[0]) - special.ndtri(1e-8)) <= found.value.upper


def _mu_of_a_polygon(atoms: Atoms, rate_min: float, error_min: float) -> Any:
    """Return mu of a polygonal curve that is its own inverse, as the largest value at its vertices.

    The points at both limits of the range count as well.
    """
    points = [(mpf(rate_min), atoms.error(rate_min)), (atoms.error(error_min), mpf(error_min))]
    points += [(alpha, 1 - power) for alpha, power in atoms.vertices]
    if atoms.error(rate_min) < error_min:
        return mpf(0)
    inside = [point for point in points if rate_min <= point[0] < 1 and error_min <= point[1] < 1]
    return max((mpmath.sqrt(2) * (mpmath.erfinv(1 - 2 * x) + mpmath.erfinv(1 - 2 * y)) for x, y in inside), default=0)


# Between vertices, segments have no inner maximum, so a few points in many digits give the whole answer.
def test_mu_of_responses_matches_their_vertices() -> None:
    random = np.random.default_rng(SEED + 2)
    with mpmath.workdps(50):
        for _ in range(12):
            epsilon, steps = math.exp(random.uniform(-7, 2.5)), int(math.exp(random.uniform(0, 3)))
            delta = math.exp(random.uniform(-25, -2)) if random.uniform() < 0.5 else 0.0
            rate_min, error_min = (math.exp(random.uniform(math.log(1e-12), math.log(0.4))) for _ in range(2))
            step = {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}
            spec = {"type": "repeated", "steps": steps, "mechanism": step}
            truth = _mu_of_a_polygon(Atoms.of([(epsilon, steps)], 1 - (1 - mpf(delta)) ** steps), rate_min, error_min)
            pair = choose.pair(built(spec))
            for curve in (pair.add, pair.both):
                found = gaussian_dp.mu(curve, rate_min, error_min).value
                assert found.lower <= truth <= found.upper, (spec, rate_min, error_min)


def test_mu_of_gaussian_curve_is_its_shift() -> None:
    """mu of a Gaussian curve is its shift, drawn down to 1e-15.

    mu is 0 if the range is empty, because the type II error at the smallest rate is below the smallest one allowed.
    """
    random = np.random.default_rng(SEED + 3)
    for _ in range(60):
        shift = math.exp(random.uniform(math.log(1e-15), math.log(10.0)))
        curve = gaussian_curve(Enclosure.point(shift))
        rate_min, error_min = (math.exp(random.uniform(math.log(1e-12), math.log(0.9))) for _ in range(2))
        found = gaussian_dp.mu(curve, rate_min, error_min).value
        error = curve.type_two_error(np.array([rate_min]))
        if error.lower[0] >= error_min:
            assert found.lower == found.upper == shift
        elif error.upper[0] < error_min:
            assert found.upper == 0
        assert found.lower <= shift


def test_normal_points_of_trivial_bounds_are_in_order() -> None:
    """A type II error that rounds to 1 beside a trivial power, as of far points of strong shuffled reports."""
    sure, never, rate = (np.array([each]) for each in (1.0, 0.0, 1e-30))
    for power, error in (
        (EnclosureArray(never, sure), EnclosureArray(sure, sure)),
        (EnclosureArray(never, sure), EnclosureArray(never, sure)),
        (EnclosureArray(sure, sure), EnclosureArray(never, never)),
    ):
        found = normal_points(rate, power, error).mu
        assert found.lower[0] <= found.upper[0]
