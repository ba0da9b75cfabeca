"""mu of several directions and ranges of one run: searches that a request shares, and equal answers without sharing."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.numerics.work import at_most
from service.privacy.questions.gaussian_dp import Direction, GdpReading, mu, mu_in_direction
from service.privacy.questions.gdp_lists import Goal, ListSearch
from service.privacy.questions.gdp_range import over_range
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.slow_marker import thorough

SEED: Final = 20261128
DIRECTIONS: Final[tuple[Direction, ...]] = ("add", "remove", "both")


def drawn_run(seed: int) -> dict[str, Any]:
    random = np.random.default_rng([SEED, seed])
    noise, rate = math.exp(random.uniform(-0.3, 1.5)), math.exp(random.uniform(-5, -0.5))
    return (
        sampled(rate, gaussian(noise)),
        sampled(rate, laplace(noise)),
        dpsgd(noise, rate, int(random.integers(2, 40))),
        {"type": "composed", "mechanisms": [sampled(rate, laplace(noise)), gaussian(noise)]},
    )[seed % 4]


def answered(pair: TradeOffPair, direction: Direction, *limits: float) -> tuple[GdpReading, float]:
    with at_most(math.inf) as work:
        before = work.done
        return mu_in_direction(pair, direction, *limits), work.done - before


@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 12))])
def test_directions_share_a_search(seed: int) -> None:
    """Check that three directions cost hardly more than one, and have the bounds of answers that share nothing."""
    random = np.random.default_rng([SEED, 1, seed])
    limits = tuple((10.0 ** -random.uniform(1, 9, 2)).tolist())
    if seed % 2:
        limits = (limits[0], limits[0])
    with at_most(math.inf):
        pair = choose.pair(built(drawn_run(seed)))
        shared = {direction: answered(pair, direction, *limits) for direction in DIRECTIONS}
    pair = choose.pair(built(drawn_run(seed)))
    for direction in DIRECTIONS:
        alone = mu(getattr(pair, direction), *limits)
        for one, other in (
            (shared[direction][0].value, alone.value),
            (shared[direction][0].global_mu, alone.global_mu),
        ):
            assert max(one.lower, other.lower) <= min(one.upper, other.upper)
            assert one.upper - one.lower <= 1.1 * (other.upper - other.lower) + 1e-8 * other.upper
    if limits[0] == limits[1]:
        assert shared["remove"][0] == shared["add"][0]
        assert shared["remove"][1] <= 0.05 * shared["add"][1]
        assert shared["both"][1] <= 0.6 * shared["add"][1] + 2000


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_lists_of_lattices_agree_with_single_tangents(seed: int) -> None:
    """Check that both searches enclose one mu of a run on lattices, and rough lists have a larger upper bound."""
    random = np.random.default_rng([SEED, 2, seed])
    steps = [
        {"type": "discrete_laplace", "scale": random.uniform(2, 6), "sensitivity": 1},
        laplace(random.uniform(1, 4)),
        sampled(random.uniform(0.05, 0.5), laplace(random.uniform(0.7, 3))),
    ][seed % 2 :][:2]
    curve = choose.pair(built({"type": "composed", "mechanisms": steps})).add
    least = over_range(curve, 1e-3, 1e-4, math.inf)
    goal = Goal(lower=True, upper=True)
    found = ListSearch(curve).bounds(1e-3, 1e-4, math.inf, goal)
    rough = ListSearch(curve, is_rough=True).bounds(1e-3, 1e-4, math.inf, goal)
    assert found is not None
    assert rough is not None
    assert max(found[0], rough[0], least.lower) <= min(found[1], rough[1], least.upper)
    assert found[1] - found[0] <= 1e-5 * found[1]
    assert rough[1] <= found[1] * (1 + 1e-3)


def test_a_search_that_was_cut_short_is_not_kept() -> None:
    pair = choose.pair(built(dpsgd(1.1, 0.02, 8)))
    with at_most(math.inf):
        with at_most(0.0):
            wide = mu_in_direction(pair, "add", 1e-6, 1e-6).value
        found = mu_in_direction(pair, "add", 1e-6, 1e-6).value
    assert wide.lower <= found.lower <= found.upper <= wide.upper
    assert found.upper - found.lower < 0.1 * (wide.upper - wide.lower)
