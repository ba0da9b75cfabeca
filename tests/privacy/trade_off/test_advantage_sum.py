"""Runs that reveal almost nothing: bounds from the advantages of their steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.neighbours import NeighboringRelation, Neighbours
from service.privacy.trade_off.combinators.advantage_sum import AdvantageSum
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

RATES = np.array([0.0, 1e-9, 1e-3, 0.4, 1 - 1e-6, 1.0])
EPSILONS = np.array([-0.5, 0.0, 1e-3, 0.2, 3.0])


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one", "zero_out"])
@pytest.mark.parametrize("seed", range(6))
def test_advantage_lies_between_one_step_and_sum_of_steps(seed: int, relation: NeighboringRelation) -> None:
    rng = np.random.default_rng(seed)
    noise, rate = float(np.exp(rng.uniform(-1, 15))), float(np.exp(rng.uniform(-600, -40)))
    count = int(np.exp(rng.uniform(1, 20)))
    pairs = [
        choose.pair(DpSgd(noise_multiplier=noise, sample_rate=rate, steps=steps), neighbours=Neighbours(relation))
        for steps in (1, count)
    ]
    for one, all_of in ((pairs[0].add, pairs[1].add), (pairs[0].remove, pairs[1].remove)):
        single, found = one.profile_at(0.0), all_of.profile_at(0.0)
        assert 0 < single.lower * (1 - 1e-9) <= found.lower
        assert found.lower <= found.upper <= count * single.upper * (1 + 1e-9)
        points = all_of.points(RATES)
        for bounds in (points.power, points.type_two_error, all_of.profile(EPSILONS)):
            assert (bounds.lower <= bounds.upper).all()
        assert (points.power.lower >= one.points(RATES).power.lower * (1 - 1e-12)).all()


@pytest.mark.parametrize("seed", range(6))
def test_bounds_from_advantages_hold_for_gaussian_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift, count = float(np.exp(rng.uniform(-20, 1))), int(rng.integers(1, 50))
    one, exact = (gaussian_curve(Enclosure.point(shift * root)) for root in (1.0, math.sqrt(count)))
    found = AdvantageSum(exact, lambda: count * one.profile_at(0.0).upper)
    for curve, truth in ((found, exact), (found.reversed(), exact.reversed())):
        for bounds, known in (
            (curve.profile(EPSILONS), truth.profile(EPSILONS)),
            (curve.points(RATES).power, truth.points(RATES).power),
        ):
            assert (bounds.lower >= known.lower).all()
            assert (bounds.upper <= known.upper).all()
            assert (bounds.upper >= known.lower).all()
    if count == 1:
        assert found.profile_at(0.0).upper == one.profile_at(0.0).upper
