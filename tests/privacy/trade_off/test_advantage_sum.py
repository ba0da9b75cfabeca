"""Runs that reveal almost nothing: bounds from the advantages of their steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.neighbours import NeighboringRelation, Neighbours
from service.privacy.trade_off.combinators.advantage_sum import AdvantageSum
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.slow_marker import sample_of

RATES = np.array([0.0, 1e-9, 1e-3, 0.4, 1 - 1e-6, 1.0])
EPSILONS = np.array([-0.5, 0.0, 1e-3, 0.2, 3.0])


@sample_of(6)
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


@pytest.mark.parametrize("seed", range(20))
def test_negligible_runs_need_no_contours(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without contours, the points of both directions enclose the rate as narrowly as doubles allow."""

    def refused(*_: object) -> None:
        raise AssertionError("a contour was evaluated")

    rng = np.random.default_rng([seed, 31])
    noise, rate = float(np.exp(rng.uniform(0, 5))), float(np.exp(rng.uniform(-600, -60)))
    count = int(np.exp(rng.uniform(1, 15)))
    pair = choose.pair(DpSgd(noise_multiplier=noise, sample_rate=rate, steps=count))
    for query in ("_Query", "_Thresholds"):
        monkeypatch.setattr(f"service.privacy.composition.inversion.evaluation.{query}.answer", refused)
    points = pair.both.points(RATES[1:-1])
    single = pair.both.power_at(0.25)
    total = count * rate
    for alpha, power, error in zip(
        RATES[1:-1], *(_pairs(each) for each in (points.power, points.type_two_error)), strict=True
    ):
        assert power[0] <= alpha * (1 + 1e-15)
        assert alpha <= power[1] <= (alpha + total) * (1 + 1e-14)
        assert error[0] <= 1 - alpha <= error[1] <= (1 - alpha) * (1 + 1e-14)
        assert error[0] >= (1 - alpha - total) * (1 - 1e-14)
    assert single.lower <= 0.25 <= single.upper <= (0.25 + total) * (1 + 1e-14)
    assert (points.log_slope.lower <= 0).all()
    assert (points.log_slope.upper >= 0).all()


def _pairs(bounds: EnclosureArray) -> list[tuple[float, float]]:
    return list(zip(bounds.lower.tolist(), bounds.upper.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_symmetrised_points_of_nearly_equal_curves_hold(seed: int) -> None:
    """The hull of two Gaussian curves with tiny shifts has the points of the larger shift."""
    rng = np.random.default_rng([seed, 32])
    shifts = [float(10 ** rng.uniform(-16, -9)) for _ in range(2)]
    curves = [gaussian_curve(Enclosure.point(shift)) for shift in shifts]
    alpha = rng.uniform(0.01, 0.99, 3)
    found = Symmetrised(*curves).points(alpha)
    known = gaussian_curve(Enclosure.point(max(shifts))).points(alpha)
    for bounds, exact in ((found.power, known.power), (found.type_two_error, known.type_two_error)):
        assert (bounds.lower <= exact.upper).all()
        assert (bounds.upper >= exact.lower).all()
