"""mu of Gaussian DP by tangents: of closed forms beside the search of their points, and of runs with wide lines."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from scipy import special

from service.privacy.composition import choose
from service.privacy.enclosure import Evidence
from service.privacy.questions import gaussian_dp
from service.privacy.questions.gdp_tangents import tangent_bounds
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled

SEED: Final = 20261122
RANGES: Final = ((1e-9, 1e-9), (1e-3, 1e-6), (0.2, 0.05))


def _one_step(random: Generator) -> dict[str, Any]:
    noise = math.exp(random.uniform(math.log(0.4), math.log(20.0)))
    inner = gaussian(noise) if random.uniform() < 0.5 else laplace(noise)
    rate = math.exp(random.uniform(math.log(1e-3), 0.0))
    return sampled(rate, inner) if random.uniform() < 0.7 else inner


def test_tangents_enclose_what_points_find() -> None:
    random = np.random.default_rng(SEED)
    for _ in range(15):
        spec = _one_step(random)
        pair = choose.pair(built(spec))
        for curve in (pair.add, pair.remove):
            for rate_min, error_min in RANGES:
                searched = gaussian_dp.mu(curve, rate_min, error_min).value
                known = curve.global_gdp_mu
                ends = tangent_bounds(curve, rate_min, error_min, math.inf if known is None else known.upper)
                if ends is None:
                    continue
                assert ends[0] <= searched.upper, spec
                assert searched.lower <= ends[1], spec
                assert ends[1] - ends[0] <= 1e-7 * ends[1] + 1e-13, spec


def test_both_directions_are_those_of_the_hull() -> None:
    random = np.random.default_rng(SEED + 1)
    for _ in range(6):
        spec = sampled(math.exp(random.uniform(-5, -0.1)), gaussian(math.exp(random.uniform(-0.5, 2))))
        both = choose.pair(built(spec)).both
        assert isinstance(both, Symmetrised)
        assert both.evidence is Evidence.EXACT
        for rate_min, error_min in RANGES:
            found = gaussian_dp.mu(both, rate_min, error_min)
            searched = gaussian_dp.over_range(both, rate_min, error_min, math.inf)
            assert found.value.lower <= searched.upper * (1 + 1e-12), spec
            assert searched.lower <= found.value.upper * (1 + 1e-12), spec
            assert found.value.relative_width() <= 1e-8, spec


# A run whose lines are wide all over the range: a search of long lists of points left mu open within 5 %.
def test_mu_of_two_steps_of_little_noise_is_narrow() -> None:
    both = choose.pair(built(dpsgd(0.1, 0.001, 2))).both
    found = gaussian_dp.mu(both, 1e-9, 1e-9)
    assert found.value.relative_width() <= 1e-5
    point = both.points(np.array([1e-8]))
    assert float(special.ndtri(point.power.lower[0]) - special.ndtri(1e-8)) <= found.value.upper
