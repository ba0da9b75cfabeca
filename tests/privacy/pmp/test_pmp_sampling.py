"""Sampled PMP: draws against their distribution, intervals against exact enumeration, bounds against their coverage.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from service.privacy.enclosure import Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.betting import mean_at_least
from service.privacy.pmp.exponential import sampler as exponential_sampler
from service.privacy.pmp.exponential.exact import exact_log_ratios
from service.privacy.pmp.exponential.losses import Losses
from service.privacy.pmp.exponential.parameter import Sampling, exponential_pmp
from service.privacy.pmp.exponential.population import Population
from service.privacy.pmp.exponential.sampler import sampled_log_odds
from service.privacy.pmp.exponential.swap import swap_bounds
from tests.privacy.references import FOLDER
from tests.slow_marker import sample_of

ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in json.loads((FOLDER / "pmp.json").read_text())}


def given(logits: FloatArray) -> Population:
    return Population.of(Losses.given(-logits), 1.0)


def drawn(seed: int, objects: int, half: int, size: float) -> Population:
    return given(size * np.random.default_rng(seed).normal(size=(objects, 2 * half)))


@sample_of(6)
@pytest.mark.parametrize("size", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_intervals_contain_enumerated_values(seed: int, size: float) -> None:
    """Sampled intervals of log ratios contain the values enumerated over all subsets.

    The ten intervals have a confidence of 0.999 each, so a miss indicates a defect.
    """
    population = drawn(seed, 3, 4, size)
    bounds, truth = swap_bounds(population), exact_log_ratios(population)
    odds = sampled_log_odds(population, bounds, 1000, seed, 0.001)
    assert (odds.lower <= truth.values + truth.error).all()
    assert (odds.upper >= truth.values - truth.error).all()
    assert (odds.upper <= bounds.with_point).all()
    assert (odds.lower >= -bounds.without).all()


def test_more_samples_narrow_the_interval() -> None:
    population = drawn(1, 3, 6, 1.0)
    bounds = swap_bounds(population)
    few, many = (
        exponential_pmp(population, bounds, Sampling(samples, 0, 0.999), exact=False).epsilon for samples in (200, 5000)
    )
    assert few.evidence is many.evidence is Evidence.STATISTICAL
    assert many.upper - many.lower < 0.5 * (few.upper - few.lower)
    assert many.upper < bounds.either.max()


def test_two_objects_on_grid_match_reference() -> None:
    """Sampled bounds for two objects and 100 points on a grid contain the exact PMP parameter.

    The reference counts subsets by their sum, which is exact on a grid. PMP is practical membership privacy: the
    attacker does not know which records were drawn.
    """
    row = ROWS["em_two_n50"]
    values = np.array([(7 * k % 31) / 10 - 1.5 for k in range(100)])
    population = given(np.stack([np.zeros(100), 0.3 * values]))
    bounds = swap_bounds(population)
    found = exponential_pmp(population, bounds, Sampling(2000, 0, 0.999), exact=False).epsilon
    assert found.lower <= row["value"] <= found.upper <= bounds.either.max()
    assert found.upper - found.lower <= 0.2 * row["value"]


def test_subsets_are_drawn_with_their_weight() -> None:
    scores = np.array([0.3, -1.0, 2.0, 0.0, -0.5, 1.0])
    table = exponential_sampler._log_symmetric_polynomials(scores, 3)
    count = 20_000
    members = exponential_sampler._weighted_subsets(scores, table, 3, count, np.random.default_rng(1))
    found = Counter(tuple(np.flatnonzero(row).tolist()) for row in members)
    weights = {subset: float(np.exp(scores[list(subset)].sum())) for subset in combinations(range(6), 3)}
    total = sum(weights.values())
    assert np.exp(table[0, 3]) == pytest.approx(total, rel=1e-13)
    # Twenty cells; the statistic exceeds 50 with probability 1e-4.
    expected = {subset: count * weight / total for subset, weight in weights.items()}
    assert sum((found[subset] - value) ** 2 / value for subset, value in expected.items()) < 50


def test_membership_chances_of_subset_match_exchanges() -> None:
    logits = np.random.default_rng(2).normal(size=(3, 6))
    members = np.array([[True, False, True, True, False, False]])
    [found] = exponential_sampler._chances_of_membership(logits, 1, members)

    def chance(subset: set[int]) -> float:
        weights = np.exp(logits[:, list(subset)].sum(axis=1))
        return float(weights[1] / weights.sum())

    inside, outside = {0, 2, 3}, {1, 4, 5}
    own = chance(inside)
    for point in inside:
        others = [chance(inside - {point} | {other}) for other in outside]
        assert found[point] == pytest.approx(np.mean([own / (own + other) for other in others]), rel=1e-12)
    for point in outside:
        others = [chance(inside - {other} | {point}) for other in inside]
        assert found[point] == pytest.approx(np.mean([other / (own + other) for other in others]), rel=1e-12)


def test_envelope_dominates_the_law_closely() -> None:
    logits = np.random.default_rng(3).normal(size=(4, 12)) / 2
    weights = exponential_sampler._tilts(logits, 6)
    assert weights.sum(axis=1) == pytest.approx(np.ones(4))
    for chosen in range(4):
        scores = logits[chosen] - weights[chosen] @ logits
        entropy = -float((weights[chosen] * np.log(weights[chosen])).sum())
        heights: list[float] = []
        for subset in combinations(range(12), 6):
            sums = logits[:, list(subset)].sum(axis=1)
            heights.append(float(sums[chosen] - np.log(np.exp(sums).sum()) - scores[list(subset)].sum() + entropy))
        assert max(heights) <= 1e-12
        assert np.exp(heights).mean() > 0.3


def test_same_seed_gives_same_result() -> None:
    population = drawn(4, 3, 5, 1.0)
    bounds = swap_bounds(population)
    one, same, other = (
        exponential_pmp(population, bounds, Sampling(500, seed, 0.99), exact=False).epsilon for seed in (7, 7, 8)
    )
    assert one == same != other


def test_logits_too_large_for_sampling_keep_swap_bound() -> None:
    population = drawn(5, 3, 16, 1000.0)
    bounds = swap_bounds(population)
    found = exponential_pmp(population, bounds, Sampling(100, 0, 0.9), exact=False)
    assert (found.method, found.epsilon.evidence) == ("swap_bound", Evidence.CERTIFIED)
    assert (found.epsilon.lower, found.epsilon.upper) == (0.0, bounds.either.max())


@pytest.mark.parametrize("sampling", [Sampling(1, 0, 0.9), Sampling(100, 0, 1.0), Sampling(100, 0, 0.0)])
def test_sampling_options_outside_domain_raise(sampling: Sampling) -> None:
    population = drawn(6, 2, 3, 1.0)
    with pytest.raises(OutOfDomain):
        exponential_pmp(population, swap_bounds(population), sampling, exact=False)


@pytest.mark.parametrize("rounds", [1, 2, 8, 17, 400])
def test_bounds_on_means_of_constants_are_valid(rounds: int) -> None:
    constants = np.array([0.0, 0.25, 1.0])
    found = mean_at_least(np.tile(constants, (rounds, 1)), np.ones(3), 10.0)
    assert (found <= constants).all()
    assert found[0] == 0.0
    if rounds == 400:
        assert (found[1:] > 0.9 * constants[1:]).all()


def test_bounds_on_means_have_promised_coverage() -> None:
    """Lower bounds of means with the failure probability 0.1 exceed the mean in about 200 of 2000 samples.

    The limit of 260 is more than four standard deviations above 200.
    """
    generator = np.random.default_rng(9)
    for draw, mean in (
        (generator.random((300, 2000)) < 0.05, 0.05),
        (generator.random((300, 2000)) ** 4, 0.2),
        (0.5 + 0.01 * generator.random((300, 2000)), 0.505),
    ):
        found = mean_at_least(draw.astype(np.float64), np.ones(2000), float(np.log(10)))
        assert (found > mean).sum() <= 260
        assert np.median(found) > 0.4 * mean
