"""Further upper bounds of the best of several runs: score orders of small pairs, sums over all counts, extreme runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import at_most
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.selection.given_count import blocks_of
from service.privacy.trade_off.selection.nodes import Nodes
from service.privacy.trade_off.selection.scaled import ScaledTradeOff
from service.privacy.trade_off.selection.trial_counts import (
    BinomialCounts,
    NegativeBinomialCounts,
    PoissonCounts,
    TrialCounts,
)
from tests.privacy.cases import built, dpsgd, laplace, selected
from tests.privacy.trade_off.test_selected import DELTA, LAWS, PAIRS, curve_of, delta_of_order, epsilon, gdp, small_pair
from tests.slow_marker import sample_of


@sample_of(1)
@pytest.mark.parametrize(("counts", "phi"), LAWS[2:])
def test_no_score_order_exceeds_bounds_by_extreme_densities(
    counts: TrialCounts, phi: Callable[[Fraction], Fraction]
) -> None:
    """All score orders, for epsilons of both signs. Nothing is released with probability phi(0) under both laws."""
    random = np.random.default_rng(20261131)
    for _ in range(PAIRS):
        pair = small_pair(random)
        above = ScaledTradeOff(curve_of(pair), counts.mean_count, counts.log_least_slope, counts.nothing)
        nothing = phi(Fraction(0))
        for slope in (Fraction(1, 3), Fraction(1), Fraction(6)):
            worst = max(delta_of_order(order, phi, slope) for order in itertools.permutations(pair))
            worst += nothing * max(1 - slope, Fraction(0))
            assert float(worst) <= above.profile_at(math.log(slope)).upper * (1 + 1e-12)
        for order in itertools.permutations(pair):
            released = [(nothing, nothing)]
            for (p, q), (p_before, q_before) in zip(order, before(order), strict=True):
                released.append((phi(p_before + p) - phi(p_before), phi(q_before + q) - phi(q_before)))
            released.sort(key=lambda each: -each[0] / each[1] if each[1] else 0)
            power, rate = Fraction(0), Fraction(0)
            for p, q in released[:-1]:
                power, rate = power + p, rate + q
                found = above.points(np.array([float(rate)]))
                assert float(power) <= found.power.upper[0] * (1 + 1e-12)
                assert float(1 - power) >= found.type_two_error.lower[0] * (1 - 1e-12)


def before(order: tuple[tuple[Fraction, Fraction], ...]) -> list[tuple[Fraction, Fraction]]:
    """Return the probabilities of all lower scores for each outcome of `order`, whose scores rise."""
    found = [(Fraction(0), Fraction(0))]
    for p, q in order[:-1]:
        found.append((found[-1][0] + p, found[-1][1] + q))
    return found


@pytest.mark.parametrize(
    "counts",
    [NegativeBinomialCounts(7.0, 1.0), NegativeBinomialCounts(9.0, -0.5), PoissonCounts(3.0), BinomialCounts(9, 0.4)],
)
def test_blocks_of_counts_have_the_probabilities_of_the_law(counts: TrialCounts) -> None:
    known = blocks_of(counts)
    assert known is not None
    tops, chances, rest = known
    assert 1 - counts.nothing <= sum(chances) + rest <= 1 - counts.nothing + 1e-5
    for z in (0.2, 0.7, 0.97):
        phi = counts.nothing + float(counts.rise(np.array([z]), np.array([1 - z]), np.array([z]))[0])
        least = counts.nothing + sum(chance * z**top for top, chance in zip(tops, chances, strict=True))
        before = [0, *tops[:-1]]
        most = counts.nothing + rest + sum(c * z ** (b + 1) for b, c in zip(before, chances, strict=True))
        assert least * (1 - 1e-8) <= phi <= most * (1 + 1e-8)


@pytest.mark.parametrize("base", [gdp(0.3), gdp(1.0)])
def test_advantage_is_at_most_that_of_all_trials_with_their_number(base: dict[str, Any]) -> None:
    """The upper bound is near the sum over K of the advantages of K composed trials."""
    best = WorstCase().curves(built(selected(base, "geometric", mean=10.0))).both.profile_at(0.0)
    n = np.arange(1.0, 2_000.0)
    every = float((0.9 ** (n - 1) / 10 * (2 * special.ndtr(base["mu"] * np.sqrt(n) / 2) - 1)).sum())
    assert best.lower < best.upper <= every * 1.05


def test_runs_that_reveal_nearly_everything_or_nothing_have_finite_narrow_bounds() -> None:
    most = epsilon(selected(gdp(50.0), "geometric", mean=10.0))
    one = epsilon(gdp(50.0), DELTA / 10)
    assert most.upper <= one.upper + 2 * math.log(10) + 1e-6
    assert epsilon(gdp(50.0)).lower * (1 - 1e-12) <= most.lower < most.upper
    assert epsilon(selected(gdp(1e-9), "geometric", mean=10.0)).upper == 0.0
    assert epsilon(selected(gdp(1e-4), "poisson", mean=10.0), 1e-6).upper <= 2e-3


@pytest.mark.parametrize("base", [gdp(1.0), {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-3}])
def test_less_than_one_trial_is_less_than_one_run(base: dict[str, Any]) -> None:
    """With few trials on average, a small probability that any output is released bounds delta."""
    for law, numbers in (("poisson", {"mean": 0.01}), ("binomial", {"count": 3, "probability": 0.01})):
        spec = selected(base, law, **numbers)
        found = WorstCase().curves(built(spec)).both
        assert found.singular_power.lower <= found.singular_power.upper <= 1e-4
        assert found.epsilon(0.1).upper == 0.0
        for delta in (1e-6, 1e-3):
            assert found.epsilon(delta).upper <= epsilon(base, delta).upper + 0.2
        assert found.power_at(0.3).lower <= found.power_at(0.3).upper <= 0.4


def test_lower_bound_reads_outcomes_that_reveal_everything() -> None:
    """An outcome without the record is impossible, and has the best score: some of 10 runs shows it."""
    spec = selected({"type": "approximate_dp", "epsilon": 0.5, "delta": 1e-3}, "fixed", count=10)
    found = WorstCase().curves(built(spec)).both.profile_at(4.9)
    assert found.lower >= -math.expm1(10 * math.log1p(-1e-3)) * (1 - 1e-6)


def test_fixed_selection_of_a_mixture_is_served() -> None:
    """A mixture is drawn inside each trial, so that the composition of all trials has no plan. The theorem holds."""
    parts = [{"weight": 0.5, "mechanism": {"type": "pure_dp", "epsilon": eps}} for eps in (0.2, 1.0)]
    base = {"type": "mixture", "components": parts}
    found = epsilon(selected(base, "fixed", count=3))
    most = epsilon(selected({"type": "pure_dp", "epsilon": 1.0}, "fixed", count=3))
    assert epsilon(base).lower < found.lower < found.upper <= most.upper * 1.01


def test_selections_of_one_trial_share_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[FloatArray] = []
    known = Nodes.of

    def counted(curve: AbstractTradeOff, scores: FloatArray) -> Nodes:
        lists.append(scores)
        return known(curve, scores)

    monkeypatch.setattr(Nodes, "of", staticmethod(counted))
    with at_most(1e12):
        for law, numbers in (("geometric", {"mean": 3.0}), ("poisson", {"mean": 5.0}), ("fixed", {"count": 2})):
            epsilon(selected(dpsgd(1.0, 0.02, 300), law, **numbers))
    assert sum(np.isinf(scores).any() for scores in lists) == 2  # one first list in each direction


ORDERS = 1 + np.exp(np.linspace(-6.0, 9.0, 400))


def renyi_of_run(random: Generator) -> tuple[dict[str, Any], FloatArray]:
    """Draw a run, and return its Renyi divergences at ORDERS."""
    kind, size = int(random.integers(3)), float(np.exp(random.uniform(-5.0, 2.0)))
    above = ORDERS - 1
    if kind == 0:
        return gdp(size), ORDERS * size**2 / 2
    if kind == 1:
        log_p = -math.log1p(math.exp(-size))
        both = np.logaddexp(log_p + above * size, log_p - size - above * size)
        return {"type": "pure_dp", "epsilon": size}, both / above
    both = np.logaddexp(
        np.log(ORDERS / (2 * ORDERS - 1)) + above * size, np.log(above / (2 * ORDERS - 1)) - ORDERS * size
    )
    return laplace(1 / size), both / above


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(6, 300))]
)
def test_renyi_bound_is_not_smaller(seed: int) -> None:
    """The bound of Papernot, Steinke 2022 (Theorem 2), converted as by Canonne, Kamath, Steinke 2020."""
    random = np.random.default_rng([20261132, seed])
    run, divergences = renyi_of_run(random)
    mean, shape = float(np.exp(random.uniform(0.05, 11.0))), float(random.choice([-0.5, 0.0, 0.5, 1.0, 3.0, 10.0]))
    delta = float(10 ** random.uniform(-20.0, -0.3))
    counts = NegativeBinomialCounts(mean, shape)
    log_inverse = -math.log1p(-float(counts.ratio(np.array([1e300]))[0]))  # ln(1/g)
    inner = float(((1 - 1 / ORDERS) * divergences + log_inverse / ORDERS).min())
    selected_divergences = divergences + (1 + shape) * inner + math.log(mean) / (ORDERS - 1)
    bounds = selected_divergences + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    found = epsilon(selected(run, "truncated_negative_binomial", mean=mean, shape=shape), delta)
    assert found.upper <= max(float(bounds.min()), 0.0) * (1 + 1e-9)
